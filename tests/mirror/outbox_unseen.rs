//! No value of the service that nobody here was shown is overwritten, and an edit is `applied` only if the service carried
//! it out once and showed it: for what is known of the value, how it is edited, what the service answers, what others do
//! meanwhile, what the clock shows, which copy of the file sends, and when the process is killed.
//!
//! Each case is one edit of one record, made in one file and sent by up to three: the original, a copy from before it was
//! sent or after, and the original set back to older contents. The value is used once, so the service's log shows what
//! became of it.

use std::sync::{Arc, Mutex};

use crate::outbox_bench::CONTACT;
use crate::support::cases::Cases;
use crate::support::clock::WrongClock;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{DataType, EditState, Instant, RecordId, is_unknown};
use crm_mirror::outbox::typed_values::Given;
use crm_mirror::outbox::user_decisions::{self, DecideError, Decision};
use crm_mirror::outbox::{EditRequest, EditSource, queue};
use crm_mirror::sandbox::{Fault, NewField, RequestLine, Route, Rule, World};
use crm_mirror::store::{outbox_report, write_beside};
use crm_mirror::sync::Job;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::{Value, json};

const FIELDS: [(&str, &str); 4] =
    [("position", "position"), ("notes", "notes"), ("cf_long", "long"), ("cf_number", "number")];

/// What the mirror knows of the value when it is edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knowledge {
    Read,
    Empty,
    Unread,
    UnreadAndEmpty,
    /// The service's value does not fit the column.
    Unfit,
    /// The service has another value by now.
    Outdated,
    /// The field exists at the service, and its column was not filled yet.
    NewField,
    /// The row is of the workspace before an accepted one.
    Former,
}

/// What the service answers to the update.
#[derive(Clone, Debug)]
enum Reply {
    Fault(Fault),
    /// Status 200 with the record as it was before the update.
    Unchanged,
}

impl Reply {
    fn fault(&self, crm: &Crm) -> Fault {
        match self {
            Reply::Fault(fault) => fault.clone(),
            Reply::Unchanged => {
                let record = crm.sandbox.with_world(|world| world.detail_json(CONTACT, "a")).unwrap();
                Fault::Body(json!({ "data": record }).to_string())
            }
        }
    }
}

/// Whose file sends the edit, besides the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyKind {
    None,
    BeforeItIsSent,
    AfterItIsSent,
    /// The original's contents are replaced by those from before it was sent.
    SetBack,
}

/// What others do at the service between two pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theirs {
    Nothing,
    SetBack,
    Other,
    SameField,
    Unfit,
}

#[derive(Clone, Debug)]
struct Case {
    knowledge: Knowledge,
    field: usize,
    with_sql: bool,
    answer: Option<Reply>,
    killed_after: [Option<u64>; 2],
    theirs: [Theirs; 2],
    waits: [u64; 2],
    clock: i64,
    copy: CopyKind,
}

fn value(field: usize, text: &str, number: i64) -> Value {
    if FIELDS[field].0 == "cf_number" { json!(number) } else { json!(text) }
}

fn body(field: usize, value: &Value) -> Value {
    match FIELDS[field] {
        (column, key) if column.starts_with("cf_") => json!({ "customFields": { key: value } }),
        (_, wire) => json!({ wire: value }),
    }
}

fn of_record(record: &Value, field: usize) -> Value {
    match FIELDS[field] {
        (column, key) if column.starts_with("cf_") => record["customFields"][key].clone(),
        (_, wire) => record[wire].clone(),
    }
}

/// A value that the column cannot hold.
fn unfit(world: &mut World, field: usize) {
    let odd = if FIELDS[field].0 == "cf_number" { json!("seven") } else { json!(7) };
    world.edit(CONTACT, "a", &body(field, &odd));
}

fn case() -> impl Strategy<Value = Case> {
    let knowledge = prop::sample::select(vec![
        Knowledge::Read,
        Knowledge::Read,
        Knowledge::Empty,
        Knowledge::Unread,
        Knowledge::UnreadAndEmpty,
        Knowledge::Unfit,
        Knowledge::Outdated,
        Knowledge::NewField,
        Knowledge::Former,
    ]);
    let kill = || prop::option::weighted(0.3, 0_u64..9);
    let answer = prop::option::weighted(
        0.8,
        prop_oneof![
            4 => Just(Fault::ResetAfterApply),
            1 => Just(Fault::Reset),
            1 => Just(Fault::Truncated),
            1 => Just(Fault::NotJson),
            3 => prop::sample::select(vec![200, 202, 400, 403, 404, 408, 409, 412, 422, 429, 500, 503]).prop_map(Fault::Status),
            1 => Just(Fault::ErrorAfterApply(503)),
            1 => Just(Fault::StatusAfterApply(504)),
            2 => prop::sample::select(vec![
                "{}", "null", "[]", r#"{"data":null}"#, r#"{"data":{"id":"b"}}"#,
                r#"{"error":"internal","message":"sorry"}"#,
            ])
            .prop_map(|body| Fault::Body(body.into())),
        ]
        .prop_map(Reply::Fault)
        .boxed(),
    );
    let answer = prop_oneof![9 => answer, 1 => Just(Some(Reply::Unchanged))];
    let theirs = || {
        prop::sample::select(vec![Theirs::Nothing, Theirs::SetBack, Theirs::Other, Theirs::SameField, Theirs::Unfit])
    };
    let copy = prop::sample::select(vec![
        CopyKind::None,
        CopyKind::BeforeItIsSent,
        CopyKind::AfterItIsSent,
        CopyKind::SetBack,
    ]);
    let wait = || prop_oneof![10_u64..4_000, 80_000_u64..200_000];
    let clock = prop::sample::select(vec![0, 0, 3 * 86_400, -3 * 86_400, 400 * 86_400]);
    (
        (knowledge, 0..FIELDS.len(), any::<bool>(), answer, [kill(), kill()]),
        ([theirs(), theirs()], [wait(), wait()], clock, copy),
    )
        .prop_map(|((knowledge, field, with_sql, answer, killed_after), (theirs, waits, clock, copy))| Case {
            knowledge,
            field,
            with_sql,
            answer,
            killed_after,
            theirs,
            waits,
            clock,
            copy,
        })
}

/// The service before the edit, and a mirror that knows of it what the case says.
async fn prepared(case: &Case) -> (Crm, Mirror) {
    let mut world = World::new(noon());
    let is_new = |key: &str| case.knowledge == Knowledge::NewField && key == FIELDS[case.field].1;
    for (key, data_type) in [("long", DataType::LongText), ("number", DataType::Integer)] {
        if !is_new(key) {
            world.fields().define(NewField::new(CONTACT, key, data_type));
        }
    }
    for id in ["a", "b"] {
        world.create(CONTACT, &json!({ "id": id, "name": "Ann" }));
        if !matches!(case.knowledge, Knowledge::Empty | Knowledge::UnreadAndEmpty | Knowledge::NewField) {
            world.edit(CONTACT, id, &body(case.field, &value(case.field, "theirs", 1)));
        }
    }
    if case.knowledge == Knowledge::Unfit {
        unfit(&mut world, case.field);
    }
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.write_back = true;
    mirror.settings.details = !matches!(case.knowledge, Knowledge::Unread | Knowledge::UnreadAndEmpty);
    mirror.sync(&crm).await;
    crm.wait(3_600);
    match case.knowledge {
        Knowledge::Outdated => crm.sandbox.with_world(|world| {
            world.edit(CONTACT, "a", &body(case.field, &value(case.field, "newer", 2)));
        }),
        Knowledge::NewField => {
            crm.sandbox.with_world(|world| {
                for (key, data_type) in [("long", DataType::LongText), ("number", DataType::Integer)] {
                    if is_new(key) {
                        world.fields().define(NewField::new(CONTACT, key, data_type));
                        world.edit(CONTACT, "a", &body(case.field, &value(case.field, "theirs", 1)));
                    }
                }
            });
            // The definitions are read, and then nothing is left for the values.
            mirror.limits.limit = crm_mirror::model::Ru::new(mirror.ledger_total() + 4);
            let _ = mirror.run(&crm, &Job::sync()).await;
            mirror.limits.limit = crm_mirror::model::Ru::new(1_000_000);
        }
        _ => {}
    }
    if case.knowledge == Knowledge::Former {
        write_beside(&mirror.path, |tx| tx.records().make_rows_former(CONTACT)).unwrap();
    }
    mirror.tries = 1;
    crm.sandbox.clear_log();
    (crm, mirror)
}

/// Edits the value; `None` if it is refused, or changes nothing. Returns what the author was shown; null if that is
/// unknown.
fn edited(mirror: &Mirror, case: &Case) -> Option<Value> {
    let (column, ours) = (FIELDS[case.field].0, value(case.field, "ours", 4_242));
    if case.with_sql {
        let sql =
            format!("UPDATE contacts_full SET {column} = '{}' WHERE id = 'a'", ours.to_string().trim_matches('"'));
        rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(&sql).ok()?;
    } else {
        let request = EditRequest {
            object: CONTACT,
            record: RecordId::new("a"),
            changes: vec![(column.into(), Given::Json(ours))],
            if_match: None,
        };
        let now = Instant::system_now();
        write_beside(&mirror.path, |tx| queue(tx, &request, EditSource::Edit, now)).ok()?.0?;
    }
    let before = mirror.read().query_row("SELECT fields FROM outbox", [], |row| row.get::<_, String>(0)).ok()?;
    let fields: Value = serde_json::from_str(&before).unwrap();
    let before = fields[column][0].clone();
    Some(if is_unknown(&before) { Value::Null } else { before })
}

/// The contents of a mirror that no process has open.
fn contents(mirror: &Mirror) -> [Option<Vec<u8>>; 2] {
    let log = mirror.path.with_extension("db-wal");
    [std::fs::read(&mirror.path).ok(), std::fs::read(log).ok()]
}

/// Writes contents over those of a mirror, whose file stays the same one.
fn write_contents(mirror: &Mirror, [file, log]: &[Option<Vec<u8>>; 2]) {
    let _ = std::fs::remove_file(mirror.path.with_extension("db-shm"));
    std::fs::write(&mirror.path, file.as_deref().unwrap()).unwrap();
    let log_path = mirror.path.with_extension("db-wal");
    match log {
        Some(log) => std::fs::write(log_path, log).unwrap(),
        None => drop(std::fs::remove_file(log_path)),
    }
}

fn theirs_do(crm: &Crm, case: &Case, theirs: Theirs, round: i64) {
    crm.sandbox.with_world(|world| match theirs {
        Theirs::Nothing => {}
        Theirs::SetBack => {
            let before = match case.knowledge {
                Knowledge::Empty | Knowledge::UnreadAndEmpty => Value::Null,
                _ => value(case.field, "theirs", 1),
            };
            world.edit(CONTACT, "a", &body(case.field, &before));
        }
        Theirs::Other => {
            world.edit(CONTACT, "a", &json!({ "name": format!("Name {round}") }));
        }
        Theirs::SameField => {
            world.edit(CONTACT, "a", &body(case.field, &value(case.field, &format!("newest {round}"), 70 + round)));
        }
        Theirs::Unfit => unfit(world, case.field),
    });
}

/// Releases what is held, as `crm-mirror outbox release --all` does.
fn release(mirror: &Mirror) {
    let now = Instant::system_now();
    write_beside(&mirror.path, |tx| {
        for edit in outbox_report::edits(tx, false)?.iter().filter(|edit| edit.state == EditState::Held) {
            user_decisions::decide(tx, edit.id, Decision::Release, now)?;
        }
        Ok::<_, DecideError>(())
    })
    .unwrap();
}

fn state(mirror: &Mirror) -> String {
    mirror.one("SELECT state FROM outbox ORDER BY id LIMIT 1").trim_matches('\'').into()
}

async fn live_through(case: &Case) -> Result<(), String> {
    let (crm, mut mirror) = prepared(case).await;
    let Some(shown) = edited(&mirror, case) else {
        let unknown = !matches!(case.knowledge, Knowledge::Read | Knowledge::Empty | Knowledge::Outdated);
        return if unknown { Ok(()) } else { Err("a known value cannot be edited".into()) };
    };
    let replaced: Arc<Mutex<Vec<Value>>> = Arc::default();
    let (seen, field) = (replaced.clone(), case.field);
    crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
        let before = match &asked.route {
            Route::One(object, id) if asked.method == "PATCH" => {
                world.detail_json(*object, id).map(|record| of_record(&record, field)).unwrap_or_default()
            }
            _ => Value::Null,
        };
        seen.lock().unwrap().push(before);
    });
    let clock = WrongClock::new(crm.clock.clone());
    mirror.clock = Some(Arc::new(clock.clone()));
    let before = contents(&mirror);
    if let Some(answer) = &case.answer {
        crm.sandbox.faults().add(Rule::new(answer.fault(&crm)).method("PATCH"));
    }
    // The outcome does not matter; the fate of the edit does.
    let _ = mirror.run_killed_after(&crm, &Job::Push, case.killed_after[0]).await;
    let after = contents(&mirror);
    theirs_do(&crm, case, case.theirs[0], 1);
    crm.wait(case.waits[0]);
    clock.set_ahead(case.clock);
    let _ = mirror.run_killed_after(&crm, &Job::Push, case.killed_after[1]).await;
    theirs_do(&crm, case, case.theirs[1], 2);
    crm.wait(case.waits[1]);
    let mut copy = Mirror::one_at_a_time();
    (copy.settings, copy.tries) = (mirror.settings, 1);
    match case.copy {
        CopyKind::None => {}
        CopyKind::BeforeItIsSent => write_contents(&copy, &before),
        CopyKind::AfterItIsSent => write_contents(&copy, &after),
        CopyKind::SetBack => write_contents(&mirror, &before),
    }
    crm.sandbox.faults().clear();
    for _ in 0..4 {
        for file in [&copy, &mirror] {
            if file.path.exists() {
                // Opening a copy holds its edits.
                let _ = file.run(&crm, &Job::Push).await;
                release(file);
                let _ = file.run(&crm, &Job::Push).await;
            }
        }
        crm.wait(30_000);
    }
    let log = crm.sandbox.log();
    let replaced = replaced.lock().unwrap();
    let carried: Vec<&Value> =
        log.entries().iter().zip(&*replaced).filter(|(entry, _)| entry.changed).map(|(_, before)| before).collect();
    if carried.len() > 1 {
        return Err(format!("carried out {} times", carried.len()));
    }
    if let Some(unseen) = carried.iter().find(|before| ***before != shown && !(before.is_null() && shown.is_null())) {
        return Err(format!("{unseen} was overwritten, and {shown} was shown"));
    }
    for (name, file) in [("the original", &mirror), ("the copy", &copy)] {
        if !file.path.exists() {
            continue;
        }
        match state(file).as_str() {
            "applied" if carried.is_empty() => return Err(format!("{name} says applied, and nothing was")),
            "applied" | "conflict" | "rejected" => {}
            other => return Err(format!("{name} leaves the edit {other}")),
        }
    }
    Ok(())
}

/// Runs some of the cases.
fn live(cases: Cases) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    cases.check(200, case(), |case| runtime.block_on(live_through(&case)).map_err(TestCaseError::fail));
}

in_shards!(nothing_unseen_is_overwritten_and_applied_means_carried_out_once, live, 500, [first, second]);
