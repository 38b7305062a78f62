//! No value of the service that nobody here was shown is overwritten, and an edit is `applied` only if the service carried
//! it out once and showed it: for what is known of the value, how it is edited, what the service answers, what others do
//! meanwhile, what the clock shows, which copy of the file sends, and when the process is killed.
//!
//! Each case is about one record, which is edited in one file and sent by up to three: the original, a copy from before it
//! was sent or after, and the original set back to older contents. Each value is used once, so the service's log shows what
//! became of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::support::cases::Cases;
use crate::support::clock::WrongClock;
use crate::support::prepared::prepared;
use crate::support::{Crm, Mirror, bodies, noon};
use crate::unseen_cases::{Author, Case, Column, CopyKind, Knowledge, Theirs, cases, columns_of};
use crm_mirror::model::{DataType, EditState, Instant, Object, RecordId, is_unknown};
use crm_mirror::outbox::typed_values::Given;
use crm_mirror::outbox::user_decisions::{self, Decision};
use crm_mirror::outbox::{EditRequest, queue};
use crm_mirror::sandbox::{NewField, RequestLine, Route, Rule, World};
use crm_mirror::store::{StoreError, ViewOptions, outbox_report, write_beside};
use crm_mirror::sync::Job;
use proptest::test_runner::TestCaseError;
use serde_json::{Map, Value, json};

/// What the edits say that their author was shown, by column.
type Shown = BTreeMap<String, Value>;

fn data_type(key: &str) -> DataType {
    if key == "number" { DataType::Integer } else { DataType::LongText }
}

/// Sets the column of the case, or all, to what others wrote first.
fn set_theirs(world: &mut World, case: &Case, id: &str, columns: &[Column]) {
    for column in columns {
        world.edit(case.object, id, &column.body(&column.value("theirs", 1)));
    }
}

/// From now on, no answer to a read shows the field.
pub fn hide(crm: &Crm, column: Column) {
    crm.sandbox.faults().add(Rule::new(bodies::without(column.key)).method("GET").forever());
}

/// The service before the edit, and a mirror that knows of it what the case says.
async fn begun(case: &Case) -> (Crm, Mirror) {
    let name = format!("outbox_unseen {:?} {:?} {:?}", case.object, case.column, case.knowledge);
    let (crm, mirror) = prepared(name, || made(case)).await;
    if case.knowledge == Knowledge::Unshown {
        hide(&crm, case.column);
    }
    (crm, mirror)
}

async fn made(case: &Case) -> (Crm, Mirror) {
    let (object, column, knowledge) = (case.object, case.column, case.knowledge);
    let mut world = World::new(noon());
    let is_new = |key: &str| knowledge == Knowledge::NewField && key == column.key;
    for key in ["long", "number"].into_iter().filter(|key| !is_new(key)) {
        let was_other = knowledge == Knowledge::Retyped && key == column.key;
        let at_first =
            if was_other { data_type(if key == "long" { "number" } else { "long" }) } else { data_type(key) };
        world.fields().define(NewField::new(object, key, at_first));
    }
    let mut filled = columns_of(object).to_vec();
    filled.retain(|other| *other != column || !(knowledge.is_empty() || is_new(other.key)));
    for id in ["a", "b"] {
        world.create(object, &json!({ "id": id, "name": "Ann" }));
        set_theirs(&mut world, case, id, &filled);
    }
    if matches!(knowledge, Knowledge::Unfit | Knowledge::Retyped) {
        world.edit(object, "a", &column.body(&column.unfit()));
    }
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.write_back = true;
    mirror.settings.details = !matches!(knowledge, Knowledge::Unread | Knowledge::UnreadAndEmpty);
    if matches!(knowledge, Knowledge::Excluded | Knowledge::NoLongerExcluded) {
        let exclude = vec![format!("{}.{}", object.table(), column.name)];
        mirror.views = Some(ViewOptions { exclude, ..ViewOptions::default() });
    }
    if knowledge == Knowledge::Unshown {
        hide(&crm, column);
    }
    mirror.sync(&crm).await;
    crm.wait(3_600);
    match knowledge {
        Knowledge::Outdated => crm.sandbox.with_world(|world| {
            world.edit(object, "a", &column.body(&column.value("newer", 2)));
        }),
        Knowledge::NewField | Knowledge::Retyped => {
            crm.sandbox.with_world(|world| match knowledge {
                Knowledge::NewField => {
                    world.fields().define(NewField::new(object, column.key, data_type(column.key)));
                    set_theirs(world, case, "a", &[column]);
                }
                _ => {
                    let word = data_type(column.key).as_str();
                    world.fields().redefine(object, column.key, |field| field.data_type = word.into());
                }
            });
            // The definitions are read, and then nothing is left for the values.
            mirror.limits.limit = crm_mirror::model::Ru::new(mirror.ledger_total() + 4);
            let _ = mirror.run(&crm, &Job::sync()).await;
            mirror.limits.limit = crm_mirror::model::Ru::new(1_000_000);
        }
        Knowledge::NoLongerExcluded => {
            mirror.views = Some(ViewOptions::default());
            let (store, engine) = mirror.open(&crm, None).await.unwrap();
            drop(engine);
            store.close().await;
        }
        _ => {}
    }
    mirror.tries = 1;
    crm.sandbox.clear_log();
    (crm, mirror)
}

/// Makes one edit; false if it is refused, or changes nothing.
fn edit(mirror: &Mirror, case: &Case, changes: &[(Column, Value)]) -> bool {
    if case.with_sql {
        let sets: Vec<String> = changes
            .iter()
            .map(|(column, value)| match value {
                Value::Null => format!("{} = NULL", column.name),
                value => format!("{} = '{}'", column.name, value.to_string().trim_matches('"')),
            })
            .collect();
        let sql = format!("UPDATE {} SET {} WHERE id = 'a'", case.object.full_view(), sets.join(", "));
        return rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(&sql).is_ok();
    }
    let request = EditRequest {
        object: case.object,
        record: RecordId::new("a"),
        changes: changes.iter().map(|(column, value)| (column.name.into(), Given::Json(value.clone()))).collect(),
    };
    let now = Instant::system_now();
    write_beside(&mirror.path, |tx| queue(tx, &request, now)).is_ok_and(|queued| queued.edit.is_some())
}

/// Edits the record. Returns how many edits were refused, and what their author was shown.
fn edited(mirror: &Mirror, case: &Case) -> (usize, Shown) {
    let columns = case.columns();
    let ours = |column: &Column| (*column, column.value("ours", 4_242));
    let edits: Vec<Vec<(Column, Value)>> = match case.author {
        Author::One => vec![vec![ours(&case.column)]],
        Author::Clears => vec![vec![(case.column, Value::Null)]],
        Author::Twice => vec![vec![(case.column, case.column.value("first", 4_141))], vec![ours(&case.column)]],
        Author::All => vec![columns.iter().map(ours).collect()],
        Author::Each => columns.iter().map(|column| vec![ours(column)]).collect(),
    };
    let refused = edits.iter().filter(|changes| !edit(mirror, case, changes)).count();
    let mut shown = Shown::new();
    let conn = mirror.read();
    let mut stmt = conn.prepare("SELECT fields FROM outbox WHERE state = 'queued'").unwrap();
    for fields in stmt.query_map([], |row| row.get::<_, String>(0)).unwrap() {
        let fields: Map<String, Value> = serde_json::from_str(&fields.unwrap()).unwrap();
        shown.extend(fields.into_iter().map(|(column, change)| (column, change[0].clone())));
    }
    (refused, shown)
}

/// The contents of a mirror that no process has open.
pub fn contents(mirror: &Mirror) -> [Option<Vec<u8>>; 2] {
    let log = mirror.path.with_extension("db-wal");
    [std::fs::read(&mirror.path).ok(), std::fs::read(log).ok()]
}

/// Writes contents over those of a mirror, whose file stays the same one.
pub fn write_contents(mirror: &Mirror, [file, log]: &[Option<Vec<u8>>; 2]) {
    let _ = std::fs::remove_file(mirror.path.with_extension("db-shm"));
    std::fs::write(&mirror.path, file.as_deref().unwrap()).unwrap();
    let log_path = mirror.path.with_extension("db-wal");
    match log {
        Some(log) => std::fs::write(log_path, log).unwrap(),
        None => drop(std::fs::remove_file(log_path)),
    }
}

fn theirs_do(crm: &Crm, case: &Case, theirs: Theirs, round: i64) {
    let (object, column) = (case.object, case.column);
    let change = match theirs {
        Theirs::Nothing => return,
        Theirs::SetBack if case.knowledge.is_empty() => column.body(&Value::Null),
        Theirs::SetBack => column.body(&column.value("theirs", 1)),
        Theirs::Other => json!({ "name": format!("Name {round}") }),
        Theirs::SameField => column.body(&column.value(&format!("newest {round}"), 70 + round)),
        Theirs::Unfit => column.body(&column.unfit()),
    };
    crm.sandbox.with_world(|world| world.edit(object, "a", &change));
}

/// Releases what is held, and keeps the service's value in a conflict, which holds up the record's later edits.
fn decide(mirror: &Mirror) {
    let now = Instant::system_now();
    write_beside(&mirror.path, |tx| {
        for edit in outbox_report::edits(tx, false)? {
            let decision = match edit.state {
                EditState::Held => Decision::Release,
                EditState::Conflict => Decision::Theirs,
                _ => continue,
            };
            user_decisions::decide(tx, edit.id, decision, now)?;
        }
        Ok::<_, StoreError>(())
    })
    .unwrap();
}

/// An update that the service carried out: what it set, and the record before.
struct CarriedOut {
    body: Value,
    before: Value,
}

/// Notes from now on how the record is before each request.
fn watch(crm: &Crm) -> Arc<Mutex<Vec<Value>>> {
    let records: Arc<Mutex<Vec<Value>>> = Arc::default();
    let seen = records.clone();
    crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
        let before = match &asked.route {
            Route::One(object, id) if asked.method == "PATCH" => world.detail_json(*object, id).unwrap_or_default(),
            _ => Value::Null,
        };
        seen.lock().unwrap().push(before);
    });
    records
}

fn carried_out(crm: &Crm, before: &[Value]) -> Vec<CarriedOut> {
    let log = crm.sandbox.log();
    let changed = log.entries().iter().zip(before).filter(|(entry, _)| entry.changed);
    changed
        .map(|(entry, before)| CarriedOut {
            body: serde_json::from_str(entry.body.as_deref().unwrap()).unwrap(),
            before: before.clone(),
        })
        .collect()
}

/// Sends the edits by every file until nothing is left to do. Returns the files.
async fn sent(crm: &Crm, mut mirror: Mirror, case: &Case) -> Result<Vec<(&'static str, Mirror)>, String> {
    let clock = WrongClock::new(crm.clock.clone());
    mirror.clock = Some(Arc::new(clock.clone()));
    let before = contents(&mirror);
    if let Some(answer) = &case.answer {
        crm.sandbox.faults().add(Rule::new(answer.fault(crm, case.object)).method("PATCH"));
    }
    if case.hides {
        hide(crm, case.column);
    }
    // The outcome of a run does not matter; the fate of the edits does.
    let _ = mirror.run_killed_after(crm, &Job::push(), case.killed_after[0]).await;
    let after = contents(&mirror);
    theirs_do(crm, case, case.theirs[0], 1);
    crm.wait(case.waits[0]);
    clock.set_ahead(case.clock);
    let _ = mirror.run_killed_after(crm, &Job::push(), case.killed_after[1]).await;
    theirs_do(crm, case, case.theirs[1], 2);
    crm.wait(case.waits[1]);
    let mut copy = Mirror::one_at_a_time();
    (copy.settings, copy.views, copy.tries) = (mirror.settings, mirror.views.clone(), 1);
    match case.copy {
        CopyKind::None => {}
        CopyKind::BeforeItIsSent => write_contents(&copy, &before),
        CopyKind::AfterItIsSent => write_contents(&copy, &after),
        CopyKind::SetBack => write_contents(&mirror, &before),
        CopyKind::SetBackUnderAnotherName => {
            write_contents(&mirror, &before);
            std::fs::remove_file(mirror.path.with_extension("db.lock")).unwrap();
        }
    }
    crm.sandbox.faults().clear();
    let mut files = vec![("the copy", copy), ("the original", mirror)];
    files.retain(|(_, file)| file.path.exists());
    for _ in 0..4 {
        for (_, file) in &files {
            // Opening a copy holds its edits.
            let _ = file.run(crm, &Job::push()).await;
            decide(file);
            let _ = file.run(crm, &Job::push()).await;
        }
        crm.wait(30_000);
    }
    Ok(files)
}

/// Whether the state of each edit of a file is true.
fn judged(case: &Case, name: &str, file: &Mirror, carried: &[CarriedOut]) -> Result<(), String> {
    let lines = write_beside(&file.path, |tx| outbox_report::edits(tx, true)).unwrap();
    for line in lines {
        let arrived = |(column, (_, after)): (&String, &(Value, Value))| {
            let column = columns_of(case.object).iter().find(|known| known.name == column).unwrap();
            carried.iter().any(|update| column.members(&update.body).get(column.key) == Some(after))
        };
        // What was empty already needs no update to be cleared.
        let needs_none = case.author == Author::Clears && case.knowledge.is_empty();
        match line.state {
            EditState::Applied if !needs_none && !line.fields.iter().all(arrived) => {
                return Err(format!("{name} says that {:?} is applied, and it was not", line.fields));
            }
            EditState::Applied | EditState::Conflict | EditState::Dropped | EditState::Rejected => {}
            EditState::Replaced if case.author == Author::Twice && line.id == 1 => {}
            other => return Err(format!("{name} leaves {:?} {other:?}", line.fields)),
        }
    }
    Ok(())
}

async fn live_through(case: &Case) -> Result<(), String> {
    let (crm, mirror) = begun(case).await;
    let (refused, shown) = edited(&mirror, case);
    let is_known = matches!(case.knowledge, Knowledge::Read | Knowledge::Empty | Knowledge::Outdated);
    if is_known && refused > 0 && !(case.author == Author::Clears && case.knowledge == Knowledge::Empty) {
        return Err("a known value cannot be edited".into());
    }
    if case.knowledge == Knowledge::Excluded && shown.contains_key(case.column.name) {
        return Err("an excluded value can be edited".into());
    }
    let there = crm.sandbox.with_world(|world| world.detail_json(case.object, "a")).unwrap();
    for column in columns_of(case.object) {
        let there = &column.members(&there)[column.key];
        if shown.get(column.name).is_some_and(Value::is_null) && !there.is_null() {
            return Err(format!("{} was shown as empty, and it is {there}", column.name));
        }
    }
    if shown.is_empty() {
        return Ok(());
    }
    let before = watch(&crm);
    let files = sent(&crm, mirror, case).await?;
    let carried = carried_out(&crm, &before.lock().unwrap());
    for column in columns_of(case.object) {
        let updates = carried.iter().filter(|update| column.members(&update.body).get(column.key).is_some());
        let replaced: Vec<&Value> = updates.map(|update| &column.members(&update.before)[column.key]).collect();
        // In place of an unknown value only an empty one may be replaced.
        let seen = shown.get(column.name).filter(|value| !is_unknown(value)).unwrap_or(&Value::Null);
        match replaced[..] {
            [] => {}
            [only] if shown.contains_key(column.name) && only == seen => {}
            [only] => return Err(format!("{only} of {} was overwritten, and {seen} was shown", column.name)),
            _ => return Err(format!("{} was written {} times", column.name, replaced.len())),
        }
    }
    files.iter().try_for_each(|(name, file)| judged(case, name, file, &carried))
}

fn live(knowledge: Knowledge, per_thousand: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let check = |case| runtime.block_on(live_through(&case)).map_err(TestCaseError::fail);
    Cases::per_thousand(per_thousand).check(200, cases(knowledge), check);
}

/// A test for each state of knowledge, so that none is left to chance.
macro_rules! for_each_knowledge {
    ($($test:ident: $knowledge:ident, $per_thousand:expr;)+) => {
        mod nothing_unseen_is_overwritten_and_applied_means_carried_out_once {
            $(#[test]
            fn $test() {
                super::live(super::Knowledge::$knowledge, $per_thousand);
            })+
        }
    };
}

for_each_knowledge! {
    read: Read, 200;
    empty: Empty, 50;
    unread: Unread, 100;
    unread_and_empty: UnreadAndEmpty, 50;
    unfit: Unfit, 50;
    retyped: Retyped, 50;
    outdated: Outdated, 50;
    new_field: NewField, 50;
    excluded: Excluded, 30;
    no_longer_excluded: NoLongerExcluded, 80;
    unshown: Unshown, 80;
}

#[tokio::test]
async fn empty_field_that_was_excluded_can_be_edited_once_every_record_was_read() {
    let mut world = World::new(noon());
    world.create(Object::Contact, &json!({"id": "a", "name": "Ann", "position": "Head of Procurement"}));
    world.create(Object::Contact, &json!({"id": "b", "name": "Bob"}));
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.write_back = true;
    mirror.views = Some(ViewOptions { exclude: vec!["contacts.position".into()], ..ViewOptions::default() });
    mirror.sync(&crm).await;
    mirror.views = Some(ViewOptions::default());
    let (store, engine) = mirror.open(&crm, None).await.unwrap();
    drop(engine);
    store.close().await;
    let edit = |id: &str| {
        let sql = format!("UPDATE contacts_full SET position = 'Buyer' WHERE id = '{id}'");
        rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(&sql)
    };
    for id in ["a", "b"] {
        let refused = edit(id).unwrap_err().to_string();
        assert!(refused.contains("position is unknown in one of these rows"), "{refused}");
    }
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    edit("b").unwrap();
    mirror.run(&crm, &Job::push()).await.unwrap();
    let position =
        |id: &str| crm.sandbox.with_world(|world| world.detail_json(Object::Contact, id)).unwrap()["position"].clone();
    assert_eq!((position("a"), position("b")), (json!("Head of Procurement"), json!("Buyer")));
}
