//! The search document of a record: which texts belong to which column of the search table, and the statements.

use crate::model::{CustomFields, DataType, Object};
use crate::store::records::shape::with_details;

/// A column of a search table and its texts: `r.` is the record, `d.` its detail. The columns have the same order as in
/// `schema/`, after `record_id`; the last one contains the custom texts.
type Texts = (&'static str, &'static [&'static str]);

const CONTACT: &[Texts] = &[
    ("name", &["r.name", "r.first_name", "r.last_name"]),
    ("email", &["r.email"]),
    ("company", &["r.company"]),
    ("position", &["r.position"]),
    ("notes", &["d.notes"]),
    ("summaries", &["d.session_summary_discussed", "d.session_summary_requests"]),
    ("custom", &[]),
];

const COMPANY: &[Texts] = &[
    ("name", &["r.name"]),
    ("company", &["r.registered_name", "r.website_url"]),
    ("notes", &["d.notes"]),
    ("custom", &[]),
];

#[derive(Clone, Debug)]
pub struct Document {
    /// The custom texts, each with its table: an index that was built with others is out of date.
    pub custom: Vec<String>,
    /// Adds the document of every record, each under `?1` and its row number.
    pub insert_all: String,
    /// Adds the documents behind number `?2`; `?1` says whether of companies.
    pub insert: String,
    /// Numbers of the documents `m` that differ from their records; open for one more condition on them.
    differing: String,
    /// Makes document `?1` that of its record.
    pub update: String,
}

impl Document {
    pub fn new(object: Object, fields: &CustomFields) -> Document {
        let custom: Vec<String> = fields
            .fields()
            .iter()
            .filter(|f| matches!(f.data_type, DataType::ShortText | DataType::LongText))
            .map(|f| format!("{}.{}", if f.data_type.detail_only() { "d" } else { "r" }, f.column))
            .collect();
        let texts = object.pick(CONTACT, COMPANY);
        let columns = texts.iter().map(|(name, texts)| (*name, value(texts, &custom)));
        let (names, values): (Vec<&str>, Vec<String>) = columns.unzip();
        let of_search = names.iter().map(|name| format!("s.{name}")).collect::<Vec<_>>().join(", ");
        let (names, values, search) = (names.join(", "), values.join(", "), object.search_table());
        let records = with_details(object);
        let documents = format!("FROM search_documents AS m CROSS JOIN {records} WHERE r.id = m.record_id");
        let insert = format!("INSERT INTO {search} (rowid, record_id, {names}) SELECT");
        Document {
            insert_all: format!("{insert} ?1 + r.rowid, r.id, {values} FROM {records} ORDER BY r.rowid"),
            insert: format!(
                "{insert} m.docid, r.id, {values} {documents} AND m.docid > ?2 AND m.is_company = ?1 ORDER BY m.docid"
            ),
            update: format!(
                "UPDATE {search} SET ({names}) = (SELECT {values} {documents} AND m.docid = {search}.rowid)
                 WHERE rowid = ?1"
            ),
            differing: format!(
                "SELECT m.docid FROM search_documents AS m CROSS JOIN {search} AS s ON s.rowid = m.docid
                 CROSS JOIN {records} WHERE r.id = m.record_id AND ({of_search}) IS NOT ({values})"
            ),
            custom,
        }
    }

    /// Documents `m` that are not up to date, under a condition. Reading is far cheaper than indexing.
    pub fn differing(&self, condition: &str) -> String {
        format!("{} AND {condition} ORDER BY m.docid", self.differing)
    }
}

/// The most texts that one call takes: SQLite allows few arguments more.
const MAX_TEXTS: usize = 100;

/// Texts as one, a line each; NULL if there are none.
fn lines(texts: &[impl AsRef<str>]) -> String {
    let some = |texts: &[String]| format!("nullif(concat_ws('\n', {}), '')", texts.join(", "));
    let mut texts: Vec<String> = texts.iter().map(|text| text.as_ref().to_string()).collect();
    while texts.len() > MAX_TEXTS {
        texts = texts.chunks(MAX_TEXTS).map(some).collect();
    }
    if texts.is_empty() { "NULL".into() } else { some(&texts) }
}

/// The value of a column: its texts, but the first alone where it says what all others do, as a full name beside first and
/// last name; or else the custom texts.
fn value(texts: &[&str], custom: &[String]) -> String {
    match texts {
        [] => lines(custom),
        [text] => (*text).into(),
        [first, others @ ..] => {
            format!("CASE WHEN {first} = concat_ws(' ', {}) THEN {first} ELSE {} END", others.join(", "), lines(texts))
        }
    }
}
