//! The limit: what a program costs that does nothing but fetch, parse into typed columns, and write.
//!
//! One connection to the service, one page after the other, one transaction a page, one SQLite file with the same plain
//! typed columns. No checkpoint, no ledger, no `extra`, no canonical timestamps, no second thread; an odd value ends it.
//! [`Extent::SameWork`] adds what the mirror derives from its rows.

use std::borrow::Cow;
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ToSql};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Measured, Outcome, peak_kib, processor_seconds, same_work, written_bytes};

type Text<'a> = Option<Cow<'a, str>>;

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    data: Vec<Contact<'a>>,
    #[serde(rename = "nextCursor")]
    next: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Contact<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    first_name: Text<'a>,
    #[serde(borrow)]
    last_name: Text<'a>,
    #[serde(borrow)]
    email: Text<'a>,
    #[serde(borrow)]
    mobile: Text<'a>,
    #[serde(borrow)]
    position: Text<'a>,
    #[serde(borrow)]
    company: Text<'a>,
    #[serde(borrow)]
    company_id: Text<'a>,
    #[serde(borrow)]
    owner_id: Text<'a>,
    qualification: Option<bool>,
    #[serde(borrow)]
    created_at: Text<'a>,
    #[serde(borrow)]
    updated_at: Text<'a>,
    #[serde(borrow)]
    intent_type: Text<'a>,
    #[serde(borrow)]
    intent_level: Text<'a>,
    #[serde(borrow)]
    last_interaction_at: Text<'a>,
    #[serde(borrow)]
    enrichment_status: Text<'a>,
    #[serde(borrow)]
    enrichment_at: Text<'a>,
    #[serde(borrow)]
    etag: Text<'a>,
    #[serde(borrow)]
    location: Option<Location<'a>>,
    #[serde(borrow)]
    custom_fields: Custom<'a>,
}

#[derive(Default, Deserialize)]
struct Location<'a> {
    #[serde(borrow)]
    country: Text<'a>,
    #[serde(borrow)]
    region: Text<'a>,
    #[serde(borrow)]
    city: Text<'a>,
}

#[derive(Deserialize)]
struct Custom<'a> {
    #[serde(borrow)]
    nickname: Text<'a>,
    #[serde(borrow, rename = "customer-ref")]
    customer_ref: Text<'a>,
    children: Option<i64>,
    #[serde(borrow)]
    lifetime_value: Text<'a>,
    newsletter: Option<bool>,
    #[serde(borrow)]
    birthday: Text<'a>,
    #[serde(borrow, rename = "next call")]
    next_call: Text<'a>,
    #[serde(borrow)]
    tier: Text<'a>,
    #[serde(borrow)]
    topics: Option<&'a RawValue>,
    #[serde(borrow, rename = "Überweisung")]
    transfer: Text<'a>,
    #[serde(borrow, rename = "Tier")]
    old_tier: Text<'a>,
}

const TABLE: &str = "CREATE TABLE contacts (
    id TEXT PRIMARY KEY NOT NULL, name TEXT, first_name TEXT, last_name TEXT, email TEXT, mobile TEXT, position TEXT,
    company TEXT, company_id TEXT, owner_id TEXT, qualification INTEGER, created_at TEXT, updated_at TEXT,
    intent_type TEXT, intent_level TEXT, last_interaction_at TEXT, enrichment_status TEXT, enrichment_at TEXT,
    etag TEXT, location_country TEXT, location_region TEXT, location_city TEXT, cf_nickname TEXT, cf_customer_ref TEXT,
    cf_children INTEGER, cf_lifetime_value TEXT, cf_newsletter INTEGER, cf_birthday TEXT, cf_next_call TEXT,
    cf_tier TEXT, cf_topics TEXT, cf_transfer TEXT, cf_old_tier TEXT) STRICT";

/// The columns of its table.
pub const COLUMNS: [&str; 33] = [
    "id",
    "name",
    "first_name",
    "last_name",
    "email",
    "mobile",
    "position",
    "company",
    "company_id",
    "owner_id",
    "qualification",
    "created_at",
    "updated_at",
    "intent_type",
    "intent_level",
    "last_interaction_at",
    "enrichment_status",
    "enrichment_at",
    "etag",
    "location_country",
    "location_region",
    "location_city",
    "cf_nickname",
    "cf_customer_ref",
    "cf_children",
    "cf_lifetime_value",
    "cf_newsletter",
    "cf_birthday",
    "cf_next_call",
    "cf_tier",
    "cf_topics",
    "cf_transfer",
    "cf_old_tier",
];

impl Contact<'_> {
    /// The values in the order of [`COLUMNS`].
    fn values(&self) -> [ValueRef<'_>; 33] {
        fn text<'a>(text: &'a Text<'_>) -> ValueRef<'a> {
            text.as_deref().map_or(ValueRef::Null, ValueRef::from)
        }
        fn flag(flag: Option<bool>) -> ValueRef<'static> {
            flag.map_or(ValueRef::Null, |flag| ValueRef::Integer(flag.into()))
        }
        let custom = &self.custom_fields;
        let place = |part: for<'b> fn(&'b Location<'b>) -> &'b Text<'b>| {
            self.location.as_ref().map_or(ValueRef::Null, |location| text(part(location)))
        };
        [
            ValueRef::from(self.id.as_ref()),
            text(&self.name),
            text(&self.first_name),
            text(&self.last_name),
            text(&self.email),
            text(&self.mobile),
            text(&self.position),
            text(&self.company),
            text(&self.company_id),
            text(&self.owner_id),
            flag(self.qualification),
            text(&self.created_at),
            text(&self.updated_at),
            text(&self.intent_type),
            text(&self.intent_level),
            text(&self.last_interaction_at),
            text(&self.enrichment_status),
            text(&self.enrichment_at),
            text(&self.etag),
            place(|l| &l.country),
            place(|l| &l.region),
            place(|l| &l.city),
            text(&custom.nickname),
            text(&custom.customer_ref),
            custom.children.map_or(ValueRef::Null, ValueRef::Integer),
            text(&custom.lifetime_value),
            flag(custom.newsletter),
            text(&custom.birthday),
            text(&custom.next_call),
            text(&custom.tier),
            custom.topics.map_or(ValueRef::Null, |raw| ValueRef::from(raw.get())),
            text(&custom.transfer),
            text(&custom.old_tier),
        ]
    }
}

/// The three statements.
struct Statements {
    insert: String,
    select: String,
    update: String,
}

impl Statements {
    fn new() -> Statements {
        let marks: Vec<String> = (1..=COLUMNS.len()).map(|n| format!("?{n}")).collect();
        let sets: Vec<String> =
            COLUMNS.iter().enumerate().skip(1).map(|(n, name)| format!("{name} = ?{}", n + 1)).collect();
        let list = COLUMNS.join(", ");
        Statements {
            insert: format!("INSERT INTO contacts ({list}) VALUES ({})", marks.join(", ")),
            select: format!("SELECT {list} FROM contacts WHERE id = ?1"),
            update: format!("UPDATE contacts SET {} WHERE id = ?1", sets.join(", ")),
        }
    }
}

/// How much the program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Typed columns and a primary key.
    RowsOnly,
    /// Everything that the mirror derives from its rows too.
    SameWork,
}

/// A copy of everything, or, with `after`, of what changed since then: compared, and written where it differs.
pub async fn run(base_url: &str, path: &Path, extent: Extent, after: Option<&str>) -> Outcome<Measured> {
    let began = std::time::Instant::now();
    let mut conn = Connection::open(path)?;
    conn.pragma_update(None, "journal_mode", "wal")?;
    conn.pragma_update(None, "synchronous", "normal")?;
    if after.is_none() {
        conn.execute_batch(TABLE)?;
        if extent == Extent::SameWork {
            same_work::create(&conn)?;
        }
    }
    let statements = Statements::new();
    // Without a provider even a client for plain http cannot be built; the engine's side installs the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().build()?;
    let conditions = match after {
        Some(after) => format!("sort=updatedAt&filter%5BupdatedAt%5D%5Bgt%5D={after}"),
        None => "sort=createdAt".to_string(),
    };
    let (mut cursor, mut rows, mut ru) = (None::<String>, 0, 0);
    loop {
        let next = cursor.as_ref().map_or(String::new(), |c| format!("&cursor={c}"));
        let url = format!("{base_url}/contacts?limit=100&{conditions}{next}");
        let body = http.get(url).send().await?.error_for_status()?.bytes().await?;
        ru += 1;
        let page: Page<'_> = serde_json::from_slice(&body)?;
        let tx = conn.transaction()?;
        for contact in &page.data {
            write(&tx, &statements, contact, after.map(|_| extent))?;
        }
        tx.commit()?;
        rows += page.data.len() as u64;
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let lists_seconds = began.elapsed().as_secs_f64();
    if after.is_none() && extent == Extent::SameWork {
        same_work::build(&mut conn)?;
    }
    conn.close().map_err(|(_, error)| error)?;
    Ok(Measured {
        seconds: began.elapsed().as_secs_f64(),
        lists_seconds,
        rows,
        ru,
        processor_seconds: processor_seconds(),
        peak_kib: peak_kib(),
        written_bytes: written_bytes(),
    })
}

/// Writes a row: a new one, or, in a run of changes, one that is compared first.
fn write(
    conn: &Connection,
    statements: &Statements,
    contact: &Contact<'_>,
    changes: Option<Extent>,
) -> rusqlite::Result<()> {
    let values = contact.values();
    let mut changed = Vec::new();
    let mut sql = &statements.insert;
    if changes.is_some() {
        let mut select = conn.prepare_cached(&statements.select)?;
        let mut rows = select.query([contact.id.as_ref()])?;
        if let Some(row) = rows.next()? {
            for (n, value) in values.iter().enumerate() {
                let old = row.get_ref(n)?;
                if old != *value {
                    changed.push((n, same_work::json(old)));
                }
            }
            if changed.is_empty() {
                return Ok(());
            }
            sql = &statements.update;
        }
    }
    let fewest;
    if changes == Some(Extent::SameWork) && !changed.is_empty() {
        // Only the indexes of columns that are set are written.
        let sets: Vec<String> = changed.iter().map(|(n, _)| format!("{} = ?{}", COLUMNS[*n], n + 1)).collect();
        fewest = format!("UPDATE contacts SET {} WHERE id = ?1", sets.join(", "));
        sql = &fewest;
    }
    let mut stmt = conn.prepare_cached(sql)?;
    let wanted = |n: &usize| {
        sql == &statements.insert || sql == &statements.update || *n == 0 || changed.iter().any(|(c, _)| c == n)
    };
    for n in (0..values.len()).filter(wanted) {
        stmt.raw_bind_parameter(n + 1, Bound(values[n]))?;
    }
    stmt.raw_execute()?;
    if changes == Some(Extent::SameWork) {
        same_work::follow(conn, &contact.id, &values, &changed)?;
    }
    Ok(())
}

/// A borrowed value as a parameter.
struct Bound<'a>(ValueRef<'a>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(rusqlite::types::ToSqlOutput::Borrowed(self.0))
    }
}
