//! How fast the mirror answers, as ratios to the same questions to a bare table with the same columns.
//!
//! `cargo bench --bench queries` shows everything in one run; after `--` come `--rows N` (1,000,000), `--rounds N` (9) and
//! `--only edits`, which ends in seconds.
//! The mirror is made by the program's own store: a generated workspace is written through it, its rows are multiplied by
//! SQL, and the store ends the first copy, which builds whatever it builds for readers. The bare table is the view's
//! result with a primary key and no index more. Both are in one file and warm; medians of interleaved rounds are shown. At the
//! end, the growth of what an `UPDATE` of the view and decisions on edits take.
//! Where cargo only tries whether benches run, everything is small.

use std::path::Path;
use std::time::Instant as Watch;

use crm_mirror::api::decode;
use crm_mirror::model::{Instant, Object, RequestStamp, Resource};
use crm_mirror::outbox::user_decisions::{self, Decision};
use crm_mirror::sandbox::{World, generate};
use crm_mirror::store::{Reader, Store, outbox_report, report, write_beside};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

/// What went wrong; a measurement only reports it.
type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// When the generated workspace last changed.
const BASE: &str = "2026-03-04T12:00:00Z";
/// Contacts that are generated; the others are these, moved in time and told apart.
const SEEDS: usize = 2_000;
/// The field that is filtered by: a short text, filled in seven of ten.
const FIELD: &str = "cf_customer_ref";

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let full = args.iter().any(|arg| arg == "--bench");
    let (mut rows, mut rounds) = if full { (1_000_000, 9) } else { (4_000, 1) };
    let mut only_edits = false;
    let mut words = args.iter().filter(|arg| *arg != "--bench");
    while let Some(word) = words.next() {
        let value = words.next().ok_or("every option has a value")?;
        match word.as_str() {
            "--rows" => rows = value.parse()?,
            "--rounds" => rounds = value.parse::<usize>()?.max(1),
            "--only" if value == "edits" => (only_edits, rows) = (true, rows.min(100_000)),
            other => return Err(format!("`{other}` is no option").into()),
        }
    }
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("mirror.db");
    let began = Watch::now();
    make(&path, rows)?;
    let conn = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    println!(
        "A mirror of {} contacts, {:.0} MiB, made in {:.1} s",
        conn.query_row("SELECT count(*) FROM contacts", [], |row| row.get::<_, i64>(0))?,
        std::fs::metadata(&path)?.len() as f64 / f64::from(1 << 20),
        began.elapsed().as_secs_f64(),
    );
    if !only_edits {
        for question in questions(&conn)? {
            question.measure(&conn, rounds)?;
        }
        status(&conn, &Reader::open(&path)?, rounds)?;
    }
    edits(&path, if full { 100_000 } else { 1_000 })
}

/// What an `UPDATE` of the view takes by the number of its rows, and what decisions on many edits take, in an empty outbox
/// and beside finished edits.
fn edits(path: &Path, most: u32) -> Outcome<()> {
    let conn = Connection::open(path)?;
    conn.execute("INSERT OR REPLACE INTO state (name, value) VALUES ('write_back', 'true')", [])?;
    for finished in [0, most] {
        if finished > 0 {
            let program = Connection::open(path)?;
            program.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
            program.execute_batch(&format!(
                "INSERT INTO outbox (object_type, record_id, state, source, fields, queued_at, finished_at, tried_at)
                 SELECT 'contact', id, 'applied', 'sql', json_object('position', json_array('x', position)), '2026', '2026', '2026'
                 FROM contacts LIMIT {finished};
                 INSERT INTO outbox_events (outbox_id, at, to_state, why)
                 SELECT id, '2026', 'applied', 'x' FROM outbox WHERE state = 'applied'"
            ))?;
        }
        println!("  beside {finished} finished edits, in seconds of processor time:");
        for rows in [most / 10, most] {
            let set = |text| {
                format!(
                    "UPDATE contacts_full SET position = '{text}' WHERE id IN (SELECT id FROM contacts LIMIT {rows})"
                )
            };
            let mut times = Vec::new();
            for texts in [
                &["Chief Bench Officer"] as &[_],
                &["Größte Prüfung"],
                &["Größte Prüfung", "Chief"],
                &["Chief", "Größte Prüfung"],
            ] {
                conn.execute_batch("BEGIN IMMEDIATE")?;
                let mut began = 0.0;
                for text in texts {
                    began = processor_seconds()?;
                    conn.execute_batch(&set(text))?;
                }
                times.push(processor_seconds()? - began);
                conn.execute_batch("ROLLBACK")?;
            }
            println!(
                "    UPDATE of {rows:>7} rows {:>7.2}, not in ASCII {:>7.2}; again {:>7.2}, not in ASCII {:>7.2}",
                times[0], times[1], times[2], times[3]
            );
        }
        decisions(&conn, path, most, finished)?;
    }
    Ok(())
}

/// What it takes to drop and to release many edits, and to undo finished ones.
fn decisions(conn: &Connection, path: &Path, most: u32, finished: u32) -> Outcome<()> {
    let now = Instant::system_now();
    let all = |decision: Decision, edits: u32| -> Outcome<f64> {
        conn.execute_batch(&format!(
            "UPDATE contacts_full SET position = 'Chief Bench Officer' WHERE id IN (SELECT id FROM contacts LIMIT {edits})"
        ))?;
        if decision == Decision::Release {
            write_beside(path, |tx| tx.edits().hold_new_edits("a bench", now))?;
        }
        let began = processor_seconds()?;
        write_beside(path, |tx| {
            for edit in outbox_report::edits(tx, false)? {
                user_decisions::decide(tx, edit.id, decision, now)?;
            }
            Ok::<_, crm_mirror::store::StoreError>(())
        })?;
        let took = processor_seconds()? - began;
        write_beside(path, |tx| {
            for edit in outbox_report::edits(tx, false)? {
                user_decisions::decide(tx, edit.id, Decision::Drop, now)?;
            }
            Ok::<_, crm_mirror::store::StoreError>(())
        })?;
        Ok(took)
    };
    println!("    drop of {} edits {:.2}", most / 10 * 3, all(Decision::Drop, most / 10 * 3)?);
    println!("    release of {} edits {:.2}", most / 10, all(Decision::Release, most / 10)?);
    if finished > 0 {
        let undone = most / 10;
        let began = processor_seconds()?;
        write_beside(path, |tx| {
            let edits: Vec<i64> =
                outbox_report::applied_since(tx, Instant::EPOCH)?.into_iter().take(undone as usize).collect();
            user_decisions::undo(tx, &edits, now).map(drop)
        })?;
        println!("    undo of {undone} edits {:.2}", processor_seconds()? - began);
    }
    Ok(())
}

/// The processor time of this thread.
fn processor_seconds() -> Outcome<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds: f64 = text.split(' ').next().unwrap_or_default().parse()?;
    Ok(nanoseconds / 1e9)
}

/// What `status` asks about the contacts, held against counting both tables.
fn status(conn: &Connection, reader: &Reader, rounds: usize) -> Outcome<()> {
    let (mut told, mut counted) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let began = Watch::now();
        let holds = report::holds(&reader.begin()?, Object::Contact)?;
        let here = began.elapsed().as_secs_f64() * 1000.0;
        let began = Watch::now();
        let sql =
            "SELECT count(*) FROM contacts AS r JOIN contact_details AS d ON d.contact_id = r.id AND d.etag IS r.etag";
        let current: i64 = conn.query_row(sql, [], |row| row.get(0))?;
        if holds.details_current != current.unsigned_abs() {
            return Err(format!("{holds:?}, but {current} details are current").into());
        }
        if round > 0 {
            told.push(here);
            counted.push(began.elapsed().as_secs_f64() * 1000.0);
        }
    }
    let (told, counted) = (median(told), median(counted));
    println!(
        "  {:<28} {told:>9.3} ms             counted {counted:>9.3} ms             told / counted {:.5}",
        "what status tells of contacts",
        told / counted
    );
    Ok(())
}

/// Makes the mirror and the bare table beside it.
fn make(path: &Path, rows: usize) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    let seeds = rows.min(SEEDS);
    let world = generate(7, seeds, 50, BASE.parse()?);
    runtime.block_on(seed(path, &world))?;
    multiply(path, rows.div_ceil(seeds.max(1)), rows)?;
    runtime.block_on(finish(path))?;
    bare(path)
}

fn list(world: &World, resource: Resource) -> String {
    let items: Vec<String> = world.ids(resource).iter().filter_map(|id| world.list_text(resource, id)).collect();
    format!("{{\"data\":[{}],\"nextCursor\":null}}", items.join(","))
}

/// Definitions, contacts and their details, as a first copy writes them.
async fn seed(path: &Path, world: &World) -> Outcome<()> {
    let store = Store::open(path)?;
    let asked_at: Instant = BASE.parse()?;
    let fields = decode::page(Resource::CustomFields, list(world, Resource::CustomFields).as_bytes(), &store.layout())?;
    let of_contacts: Vec<_> = world
        .definitions
        .iter()
        .filter(|definition| definition.object == Object::Contact)
        .map(|definition| definition.id.to_string())
        .collect();
    store
        .write(move |tx| {
            let mut records = fields.records;
            records.retain(|record| of_contacts.iter().any(|id| id == record.id.as_str()));
            tx.custom().apply_definitions(Object::Contact, &records, &[], (asked_at, asked_at))
        })
        .await?;
    let layout = store.layout();
    let page = decode::page(Resource::Contacts, list(world, Resource::Contacts).as_bytes(), &layout)?;
    let asked = RequestStamp { at: asked_at.into(), order: store.requests.begin() };
    let mut details = Vec::new();
    for id in world.ids(Resource::Contacts) {
        let text = world.detail_text(Object::Contact, &id).ok_or("a contact without detail")?;
        let body = format!("{{\"data\":{text}}}");
        details.push(decode::detail(Resource::Contacts, body.as_bytes(), &layout)?);
    }
    store
        .write(move |tx| {
            for record in &page.records {
                tx.records().apply_list(Object::Contact, record, &asked)?;
            }
            for record in &details {
                tx.records().apply_detail(Object::Contact, record, &asked, true)?;
            }
            Ok(())
        })
        .await?;
    store.close().await;
    Ok(())
}

/// The columns of a table, with expressions in the place of some.
fn columns(conn: &Connection, table: &str, instead: &[(&str, &str)]) -> Outcome<(String, String)> {
    let mut stmt = conn.prepare("SELECT name FROM pragma_table_info(?1)")?;
    let names: Vec<String> = stmt.query_map([table], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let values = names.iter().map(|name| {
        let own = instead.iter().find(|(column, _)| column == name);
        own.map_or(name.as_str(), |(_, expression)| expression)
    });
    Ok((names.join(", "), values.collect::<Vec<_>>().join(", ")))
}

/// Writes every row so many times, at most up to a number of rows.
fn multiply(path: &Path, times: usize, rows: usize) -> Outcome<()> {
    let conn = Connection::open(path)?;
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    // Each copy is of another minute; ids come in no order, as the service's do.
    let id = |column: &str| format!("substr(hex({column} || ?1), -8) || '-' || ?1 || '-' || {column}");
    let moved = |column: &str| {
        format!("strftime('%Y-%m-%dT%H:%M:%S', {column}, '-' || ?1 || ' minutes') || substr({column}, 20)")
    };
    let (contact, detail) = (id("id"), id("contact_id"));
    let (created, updated) = (moved("created_at"), moved("updated_at"));
    let reference = format!("{FIELD} || '/' || ?1");
    let (names, values) = columns(
        &conn,
        "contacts",
        &[
            ("id", contact.as_str()),
            ("created_at", created.as_str()),
            ("updated_at", updated.as_str()),
            (FIELD, reference.as_str()),
        ],
    )?;
    let (detail_names, detail_values) = columns(&conn, "contact_details", &[("contact_id", detail.as_str())])?;
    conn.execute_batch(
        "PRAGMA foreign_keys = OFF;
         BEGIN;
         CREATE TEMP TABLE seeds AS SELECT * FROM contacts;
         CREATE TEMP TABLE seed_details AS SELECT * FROM contact_details;",
    )?;
    let contacts = format!("INSERT INTO contacts ({names}) SELECT {values} FROM seeds LIMIT ?2");
    let details = format!(
        "INSERT INTO contact_details ({detail_names}) SELECT {detail_values} FROM seed_details
         ORDER BY rowid LIMIT ?2"
    );
    let seeds: usize = conn.query_row("SELECT count(*) FROM seeds", [], |row| row.get::<_, i64>(0))?.try_into()?;
    for copy in 1..times {
        let most = seeds.min(rows - copy * seeds) as i64;
        conn.execute(&contacts, (copy as i64, most))?;
        conn.execute(&details, (copy as i64, most))?;
    }
    // Two changes for every third record, as history has them.
    conn.execute_batch(
        "INSERT INTO changes (object_type, record_id, kind, fields, seen_at)
         SELECT 'contact', id, 'update', '{\"position\":[\"Clerk\",\"Head of Sales\"],\"etag\":[\"1\",\"2\"]}', synced_at
         FROM (SELECT id, synced_at FROM contacts WHERE rowid % 3 = 0), (SELECT 1 UNION ALL SELECT 2);
         COMMIT;",
    )?;
    Ok(())
}

/// Ends the first copy: whatever the store builds for readers is there afterwards.
async fn finish(path: &Path) -> Outcome<()> {
    let store = Store::open(path)?;
    store
        .write(|tx| {
            tx.derived().finish_first_copy(Object::Contact)?;
            // The rows were multiplied past the store.
            tx.records().recount(Object::Contact)
        })
        .await?;
    store.close().await;
    Ok(())
}

/// The same rows as a plain program would keep them: one wide table, a primary key, no index; a history without one.
fn bare(path: &Path) -> Outcome<()> {
    let conn = Connection::open(path)?;
    if plan(&conn, &format!("SELECT id FROM contacts WHERE {FIELD} = 'x'"))?.contains("SCAN") {
        println!("(the store keeps no index of {FIELD}: one is made here, as a person would)");
        conn.execute_batch(&format!("CREATE INDEX contacts_by_reference ON contacts ({FIELD})"))?;
    }
    conn.execute_batch(
        "CREATE TABLE bare AS SELECT * FROM contacts_full;
         CREATE UNIQUE INDEX bare_id ON bare (id);
         CREATE TABLE bare_changes AS SELECT * FROM changes;
         PRAGMA wal_checkpoint(TRUNCATE);",
    )?;
    Ok(())
}

fn plan(conn: &Connection, sql: &str) -> Outcome<String> {
    let mut stmt = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
    let steps: Vec<String> = stmt.query_map([], |row| row.get(3))?.collect::<Result<_, _>>()?;
    Ok(steps.join("; "))
}

/// One thing that is asked of both.
struct Question {
    what: &'static str,
    mirror: String,
    bare: String,
}

fn questions(conn: &Connection) -> Outcome<Vec<Question>> {
    let one = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, String>(0));
    let middle = "FROM contacts LIMIT 1 OFFSET (SELECT count(*) / 2 FROM contacts)";
    let reference =
        one(&format!("SELECT {FIELD} FROM contacts WHERE {FIELD} IS NOT NULL ORDER BY rowid DESC LIMIT 1"))?;
    let page = one(&format!("SELECT updated_at {middle}"))?;
    let id = one("SELECT record_id FROM changes ORDER BY seq DESC LIMIT 1")?;
    let both = |what, ask: &dyn Fn(&str, &str) -> String| Question {
        what,
        mirror: ask("contacts_full", "changes"),
        bare: ask("bare", "bare_changes"),
    };
    let quoted = |text: &str| text.replace('\'', "''");
    let mut questions = vec![
        both("a custom field, limit 20", &|contacts, _| {
            format!("SELECT * FROM {contacts} WHERE {FIELD} = '{}' LIMIT 20", quoted(&reference))
        }),
        both("a page of 100 by updated_at", &|contacts, _| {
            format!(
                "SELECT id, name, email, updated_at FROM {contacts} WHERE (updated_at, id) > ('{page}', '')
                 ORDER BY updated_at, id LIMIT 100"
            )
        }),
        both("one record by id", &|contacts, _| format!("SELECT * FROM {contacts} WHERE id = '{}'", quoted(&id))),
        both("the history of one record", &|_, changes| {
            format!(
                "SELECT * FROM {changes} WHERE object_type = 'contact' AND record_id = '{}' ORDER BY seq",
                quoted(&id)
            )
        }),
    ];
    let searched: i64 =
        conn.query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'contact_search'", [], |row| row.get(0))?;
    if searched > 0 {
        let name = one("SELECT lower(last_name) FROM contacts WHERE last_name IS NOT NULL ORDER BY rowid LIMIT 1")?;
        let letters: String = name.chars().take(2).collect();
        for (what, word, more, order) in [
            ("a name, limit 20", name, "", ""),
            ("two letters, limit 20", letters, "*", ""),
            ("a word of the notes, limit 20", "budget".to_string(), "", ""),
            ("a word of the notes, best 20", "budget".to_string(), "", " ORDER BY rank"),
        ] {
            let like =
                ["name", "email", "company", "position", "notes"].map(|c| format!("{c} LIKE '%{}%'", quoted(&word)));
            questions.push(Question {
                what,
                mirror: format!(
                    "SELECT record_id, name FROM contact_search WHERE contact_search MATCH '\"{}\"{more}'{order} LIMIT 20",
                    quoted(&word)
                ),
                // What is left without one: every row is looked at.
                bare: format!(
                    "SELECT id, name FROM bare WHERE {} ORDER BY id LIMIT 20",
                    like.join(" OR ")
                ),
            });
        }
    }
    Ok(questions)
}

impl Question {
    fn measure(&self, conn: &Connection, rounds: usize) -> Outcome<()> {
        let (mut mirror, mut bare, mut rows) = (Vec::new(), Vec::new(), (0, 0));
        // One round unseen: both are warm, and statements are parsed each time as people's are.
        for round in 0..=rounds {
            let (here, there) = (ask(conn, &self.mirror)?, ask(conn, &self.bare)?);
            if round > 0 {
                mirror.push(here.0);
                bare.push(there.0);
            }
            rows = (here.1, there.1);
        }
        let (mirror, bare) = (median(mirror), median(bare));
        println!(
            "  {:<28} {mirror:>9.3} ms {:>4} rows   bare {bare:>9.3} ms {:>4} rows   mirror / bare {:.5}",
            self.what,
            rows.0,
            rows.1,
            mirror / bare
        );
        println!("  {:<28} {}", "", plan(conn, &self.mirror)?);
        Ok(())
    }
}

/// How long it takes to read every value of the answer, in ms, and its rows.
fn ask(conn: &Connection, sql: &str) -> Outcome<(f64, usize)> {
    let began = Watch::now();
    let mut stmt = conn.prepare(sql)?;
    let columns = stmt.column_count();
    let (mut rows, mut count) = (stmt.query([])?, 0);
    while let Some(row) = rows.next()? {
        for column in 0..columns {
            std::hint::black_box(row.get_ref(column)?);
        }
        count += 1;
    }
    Ok((began.elapsed().as_secs_f64() * 1000.0, count))
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(0.0)
}
