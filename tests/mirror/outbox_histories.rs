//! Edits in any history: made with SQL and from the shell, while others change the same records, through lost answers,
//! refusals, races, kills and forgotten keys, taken back and held by the brake. Each is carried out once, or ends in a state that says why not; nobody's change of the same
//! field is overwritten unseen; and two undisturbed runs make the mirror equal the service.
//!
//! Every value is used once, so the log of the service says which edit an update carried, and whose value it replaced.
//! `HISTORIES=n` runs more cases.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Clock, DataType, EditState, Instant, Object, RecordId, Ru};
use crm_mirror::outbox::decide::{self, DecideError, Decision};
use crm_mirror::outbox::typed::Given;
use crm_mirror::outbox::{EditRequest, EditSource, QueueError, queue};
use crm_mirror::sandbox::{Fault, LoggedRequest, NewField, RequestLine, Route, Rule, World};
use crm_mirror::store::{outbox_report, write_beside};
use crm_mirror::sync::Job;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// The fields that are edited: column, wire name, and whether it is a custom one.
const FIELDS: [(&str, &str, bool); 6] = [
    ("position", "position", false),
    ("language", "language", false),
    ("notes", "notes", false),
    ("cf_word", "word", true),
    ("cf_fee", "fee", true),
    ("cf_story", "story", true),
];
const COMPANY_FIELDS: [(&str, &str, bool); 3] =
    [("industry", "industry", false), ("cf_word", "word", true), ("cf_story", "story", true)];
const RECORDS: u8 = 5;

fn fields_of(object: Object) -> &'static [(&'static str, &'static str, bool)] {
    match object {
        Object::Contact => &FIELDS,
        Object::Company => &COMPANY_FIELDS,
    }
}

/// The last record is a company.
fn record(r: u8) -> (Object, String) {
    let r = r % RECORDS;
    let object = if r + 1 == RECORDS { Object::Company } else { Object::Contact };
    (object, format!("r{r}"))
}

/// A value that is used once: ours, or somebody else's.
fn value(wire: &str, ours: bool, n: u32) -> String {
    match (wire, ours) {
        ("fee", true) => format!("{n}.5"),
        ("fee", false) => format!("-{n}.5"),
        (_, true) => format!("ours {n}"),
        (_, false) => format!("theirs {n}"),
    }
}

fn is_ours(value: &str) -> Option<u32> {
    let number = value.strip_prefix("ours ").or_else(|| value.strip_suffix(".5"));
    number.and_then(|n| n.parse().ok())
}

/// Somebody else's deed: a record, a mask of fields, or the record's removal.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Edit(u8, u8),
    Rename(u8),
    Remove(u8),
}

#[derive(Clone, Debug)]
struct Run {
    push: bool,
    faults: Vec<(Fault, bool, u8)>,
    killed_after: Option<u64>,
    budget: Option<u64>,
    tries: u32,
    churn: Vec<(u8, Deed)>,
}

#[derive(Clone, Debug)]
enum Step {
    Ours(u8, u8),
    /// The value that the view shows is set again: whatever waits for the column is taken back.
    TakeBack(u8, u8),
    /// A person releases what the brake held.
    Release,
    Theirs(Deed),
    Wait(u32),
    Run(Run),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        6 => (any::<u8>(), 1_u8..64).prop_map(|(r, mask)| Deed::Edit(r, mask & (mask >> 1) | 1 << (mask % 6))),
        3 => any::<u8>().prop_map(Deed::Rename),
        1 => any::<u8>().prop_map(Deed::Remove),
    ]
}

fn fault() -> impl Strategy<Value = (Fault, bool, u8)> {
    let fault = prop_oneof![
        6 => Just(Fault::ResetAfterApply),
        2 => Just(Fault::Reset),
        2 => Just(Fault::Truncated),
        1 => Just(Fault::NotJson),
        3 => prop::sample::select(vec![500, 503]).prop_map(Fault::Status),
        3 => prop::sample::select(vec![400, 401, 403, 404, 408, 409, 412, 422, 428]).prop_map(Fault::Status),
        2 => prop::option::of(prop_oneof![1_u64..20, 400_u64..90_000])
            .prop_map(|body| Fault::TooMany { body, header: None }),
    ];
    (fault, prop::bool::weighted(0.85), 0_u8..4)
}

fn run() -> impl Strategy<Value = Run> {
    (
        prop::bool::weighted(0.6),
        prop::collection::vec(fault(), 0..4),
        prop::option::weighted(0.3, 0_u64..14),
        prop::option::weighted(0.1, 0_u64..9),
        1_u32..4,
        prop::collection::vec((0_u8..8, deed()), 0..3),
    )
        .prop_map(|(push, faults, killed_after, budget, tries, churn)| Run {
            push,
            faults,
            killed_after,
            budget,
            tries,
            churn,
        })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (any::<u8>(), 1_u8..64).prop_map(|(r, mask)| Step::Ours(r, mask & (mask >> 1) | 1 << (mask % 6))),
        1 => (any::<u8>(), 1_u8..64).prop_map(|(r, mask)| Step::TakeBack(r, mask & (mask >> 1) | 1 << (mask % 6))),
        1 => Just(Step::Release),
        2 => deed().prop_map(Step::Theirs),
        2 => prop_oneof![0_u32..200, 3_000_u32..200_000].prop_map(Step::Wait),
        4 => run().prop_map(Step::Run),
    ]
}

/// What is known beside the mirror: who wrote which value.
#[derive(Default)]
struct Known {
    theirs: u32,
    /// The records as they were before each request.
    before: Vec<Option<Value>>,
}

fn carry_out(world: &mut World, known: &mut Known, deed: Deed) {
    let (Deed::Edit(r, _) | Deed::Rename(r) | Deed::Remove(r)) = deed;
    let (object, id) = record(r);
    match deed {
        Deed::Edit(_, mask) => {
            known.theirs += 1;
            let (mut body, mut custom) = (Map::new(), Map::new());
            for (_, (_, wire, is_custom)) in chosen(object, mask) {
                let members = if *is_custom { &mut custom } else { &mut body };
                members.insert((*wire).into(), value(wire, false, known.theirs).into());
            }
            body.insert("customFields".into(), custom.into());
            world.edit(object, &id, &body.into());
        }
        Deed::Rename(_) => {
            known.theirs += 1;
            world.edit(object, &id, &json!({ "name": format!("Name {}", known.theirs) }));
        }
        // One record must stay, so that the mirror knows its workspace.
        Deed::Remove(_) if r % RECORDS == 0 => {}
        Deed::Remove(_) => {
            world.remove(object, &id);
        }
    }
}

fn chosen(object: Object, mask: u8) -> impl Iterator<Item = (usize, &'static (&'static str, &'static str, bool))> {
    let fields = fields_of(object);
    let mask = if usize::from(mask.trailing_zeros() as u8) >= fields.len() { 1 } else { mask };
    fields.iter().enumerate().filter(move |(n, _)| mask >> n & 1 == 1)
}

fn world() -> World {
    let mut world = World::new(noon());
    for object in Object::ALL {
        for (key, data_type) in
            [("word", DataType::ShortText), ("fee", DataType::Decimal), ("story", DataType::LongText)]
        {
            world.define(NewField::new(object, key, data_type));
        }
    }
    for r in 0..RECORDS {
        let (object, id) = record(r);
        let mut known = Known { theirs: 1_000 + u32::from(r), ..Known::default() };
        world.create(object, &json!({ "id": id, "name": id }));
        carry_out(&mut world, &mut known, Deed::Edit(r, 0b10_1101));
    }
    world
}

/// An edit as it was made.
struct Ours {
    object: Object,
    id: String,
    /// What whoever made it saw, by wire name.
    saw: BTreeMap<String, Value>,
}

/// Changes a record as a person would, in SQL or from the shell in turn. The record may be gone.
fn edit(mirror: &Mirror, ours: &mut BTreeMap<i64, Ours>, r: u8, mask: u8) {
    let (object, id) = record(r);
    let conn = rusqlite::Connection::open(&mirror.path).unwrap();
    let next = ours.keys().max().map_or(1, |n| n + 1);
    let changes: Vec<(String, String)> = chosen(object, mask)
        .map(|(_, (column, wire, _))| (column.to_string(), value(wire, true, next as u32)))
        .collect();
    if next % 2 == 0 {
        in_shell(mirror, object, &id, changes);
    } else {
        let sets: Vec<String> = changes.iter().map(|(column, value)| format!("{column} = '{value}'")).collect();
        let sql = format!("UPDATE {} SET {} WHERE id = '{id}'", object.full_view(), sets.join(", "));
        conn.execute_batch(&sql).unwrap();
    }
    let made = conn.query_row("SELECT fields FROM outbox WHERE id = ?1", [next], |row| row.get::<_, String>(0));
    let Ok(fields) = made else { return };
    let fields: BTreeMap<String, (Value, Value)> = serde_json::from_str(&fields).unwrap();
    let saw = fields.into_iter().map(|(column, (before, _))| {
        let wire = fields_of(object).iter().find(|(c, ..)| *c == column).unwrap().1;
        (wire.to_string(), before)
    });
    ours.insert(next, Ours { object, id, saw: saw.collect() });
}

/// Sets the columns to what the view shows, in SQL.
fn take_back(mirror: &Mirror, r: u8, mask: u8) {
    let (object, id) = record(r);
    let sets: Vec<String> = chosen(object, mask).map(|(_, (column, ..))| format!("{column} = {column}")).collect();
    // What is on its way would be set back by another edit, of a value that is not ours.
    let sql = format!(
        "UPDATE {} SET {} WHERE id = '{id}' AND NOT EXISTS (SELECT 1 FROM outbox WHERE record_id = '{id}' AND state = 'sending')",
        object.full_view(),
        sets.join(", ")
    );
    rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(&sql).unwrap();
}

/// What `crm-mirror outbox release --all` does.
fn release(mirror: &Mirror, now: Instant) {
    write_beside(&mirror.path, |tx| {
        let held = outbox_report::edits(tx, false)?;
        for edit in held.iter().filter(|edit| edit.state == EditState::Held) {
            decide::decide(tx, edit.id, Decision::Release, now)?;
        }
        Ok::<_, DecideError>(())
    })
    .unwrap();
}

/// What `crm-mirror edit` does.
fn in_shell(mirror: &Mirror, object: Object, id: &str, changes: Vec<(String, String)>) {
    let request = EditRequest {
        object,
        record: RecordId::from(id),
        changes: changes.into_iter().map(|(column, value)| (column, Given::Text(value))).collect(),
        if_match: None,
    };
    let queued = write_beside(&mirror.path, |tx| queue(tx, &request, EditSource::Edit, Instant::system_now()));
    assert!(matches!(queued, Ok(_) | Err(QueueError::NoRecord { .. })), "{queued:?}");
}

/// The members of a record or a body, custom ones beside the others.
fn flat(body: &Value) -> BTreeMap<String, Value> {
    let members = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let custom = members(&body["customFields"]);
    members(body).into_iter().chain(custom).filter(|(name, _)| name != "customFields").collect()
}

async fn live_through(steps: &[Step]) -> Result<(), String> {
    let crm = Crm::serve(world()).await;
    let mut mirror = Mirror::empty();
    mirror.settings.write_back = true;
    mirror.settings.concurrency = 2;
    mirror.settings.max_edits = 6;
    let known = Arc::new(Mutex::new(Known::default()));
    let watch = |churn: Vec<(u8, Deed)>| {
        let known = known.clone();
        let mut asked_before = 0_u8;
        crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
            let mut known = known.lock().unwrap();
            for (_, deed) in churn.iter().filter(|(at, _)| *at == asked_before) {
                carry_out(world, &mut known, *deed);
            }
            asked_before = asked_before.saturating_add(1);
            let before = match &asked.route {
                Route::One(object, id) if asked.method == "PATCH" => world.detail_json(*object, id),
                _ => None,
            };
            known.before.push(before);
        });
    };
    watch(Vec::new());
    mirror.sync(&crm).await;
    let mut ours = BTreeMap::new();
    for step in steps {
        match step {
            Step::Ours(r, mask) => edit(&mirror, &mut ours, *r, *mask),
            Step::TakeBack(r, mask) => take_back(&mirror, *r, *mask),
            Step::Release => release(&mirror, crm.clock.now()),
            Step::Theirs(deed) => crm.sandbox.with_world(|world| carry_out(world, &mut known.lock().unwrap(), *deed)),
            Step::Wait(seconds) => crm.wait(u64::from(*seconds)),
            Step::Run(run) => {
                for (fault, patches, after) in &run.faults {
                    let rule = Rule::new(fault.clone()).after(u32::from(*after));
                    crm.sandbox.faults().add(if *patches { rule.method("PATCH") } else { rule });
                }
                watch(run.churn.clone());
                mirror.tries = run.tries;
                mirror.limits.limit = Ru::new(run.budget.unwrap_or(1_000_000));
                let job = if run.push { Job::Push } else { Job::sync() };
                // Whatever it says: what counts is what became of the edits.
                let _ = mirror.run_killed_after(&crm, &job, run.killed_after).await;
                crm.sandbox.faults().clear();
            }
        }
    }
    watch(Vec::new());
    mirror.limits.limit = Ru::new(1_000_000);
    mirror.tries = 3;
    for _ in 0..2 {
        crm.wait(200_000);
        release(&mirror, crm.clock.now());
        mirror.run(&crm, &Job::sync()).await.map_err(|e| format!("{e:?}"))?;
    }
    crm.wait(200_000);
    release(&mirror, crm.clock.now());
    mirror.run(&crm, &Job::sync()).await.map_err(|e| format!("{e:?}"))?;
    crm.wait(600);
    let last = Job::resync().accepting_removals();
    mirror.run(&crm, &last).await.map_err(|e| format!("{e:?}"))?;
    let known = known.lock().unwrap();
    judge(&crm, &mirror, &ours, &known.before)
}

/// A request that had no answer is sent again as it was, until the service forgets its key or the record was read.
fn repeats_what_had_no_answer(entries: &[LoggedRequest]) -> Result<(), String> {
    let mut last: BTreeMap<&str, (&LoggedRequest, Instant)> = BTreeMap::new();
    for entry in entries {
        if entry.asked.method != "PATCH" {
            if entry.status == Some(200) {
                last.remove(entry.asked.path.as_str());
            }
            continue;
        }
        let request = |e: &LoggedRequest| (e.body.clone(), e.if_match.clone(), e.idempotency_key.clone());
        let mut first = entry.at;
        if let Some((before, first_sent)) = last.get(entry.asked.path.as_str()) {
            let same = request(before) == request(entry);
            // A refusal whose body is cut off is one all the same.
            let silent = match before.status {
                None => true,
                Some(200) => before.cut,
                Some(status) => status == 408 || status >= 500,
            };
            if silent && !same && entry.at.since(*first_sent) < Duration::from_secs(23 * 3_600) {
                return Err(format!("{} was not sent again as it was", entry.asked.path));
            }
            if same {
                first = *first_sent;
            }
        }
        last.insert(&entry.asked.path, (entry, first));
    }
    Ok(())
}

/// An edit as it ended.
struct Ended {
    state: String,
    group: i64,
    why: String,
}

fn judge(crm: &Crm, mirror: &Mirror, ours: &BTreeMap<i64, Ours>, before: &[Option<Value>]) -> Result<(), String> {
    let differences = mirror.differences(crm);
    if let Some(first) = differences.first() {
        return Err(format!("{} differences, {first}", differences.len()));
    }
    if mirror.ledger_total() < crm.charged() {
        return Err(format!("the ledger says {}, the service charged {}", mirror.ledger_total(), crm.charged()));
    }
    let log = crm.sandbox.log();
    if log.len() != before.len() {
        return Err("the log does not stand beside what was seen".into());
    }
    // How often each edit was carried out, and that nothing was overwritten that its maker had not seen.
    let mut times: BTreeMap<i64, u32> = BTreeMap::new();
    for (entry, before) in log.entries().iter().zip(before).filter(|(entry, _)| entry.changed) {
        let body: Value = serde_json::from_str(entry.body.as_deref().unwrap()).unwrap();
        let before = flat(before.as_ref().ok_or("an update of nothing was carried out")?);
        let mut carried = std::collections::BTreeSet::new();
        for (wire, new) in flat(&body) {
            let edit = i64::from(is_ours(new.as_str().unwrap_or_default()).ok_or("a value of nobody was sent")?);
            carried.insert(edit);
            let replaced = &before[&wire];
            let of_ours = replaced.as_str().is_some_and(|text| is_ours(text).is_some());
            let (object, id) = (ours[&edit].object, &ours[&edit].id);
            let earlier = ours.range(..=edit).filter(|(_, o)| o.object == object && o.id == *id);
            let seen = earlier.filter_map(|(_, o)| o.saw.get(&wire)).any(|saw| saw == replaced);
            if !of_ours && !seen {
                return Err(format!("edit {edit} overwrote {replaced} of {wire} unseen"));
            }
        }
        for edit in carried {
            *times.entry(edit).or_default() += 1;
        }
    }
    repeats_what_had_no_answer(log.entries())?;
    let ended = ended(mirror);
    for (id, edit) in ours {
        let Ended { state, group, why } = &ended[id];
        let times = times.get(id).copied().unwrap_or_default();
        if times > 1 {
            return Err(format!("edit {id} was carried out {times} times"));
        }
        // Whose every value a later edit of the same request replaced.
        let replaced = edit.saw.keys().all(|wire| {
            ours.range(id + 1..).any(|(other, o)| ended[other].group == *group && o.saw.contains_key(wire))
        });
        let held = ours
            .range(..id)
            .any(|(other, o)| (o.object, &o.id) == (edit.object, &edit.id) && ended[other].state == "conflict");
        let right = match state.as_str() {
            "applied" => times == 1 || replaced,
            "queued" => held && times == 0,
            "replaced" => times == 0 && why.starts_with("replaced by a later edit"),
            "dropped" => times == 0 && why.starts_with("taken back"),
            "rejected" | "conflict" => !why.is_empty(),
            _ => false,
        };
        if !right {
            return Err(format!("edit {id} is {state} ({why}), and was carried out {times} times"));
        }
    }
    Ok(())
}

fn ended(mirror: &Mirror) -> BTreeMap<i64, Ended> {
    let conn = mirror.read();
    let mut stmt = conn
        .prepare(
            "SELECT o.id, o.state, coalesce(o.merged_into, o.id),
                    (SELECT why FROM outbox_events AS e WHERE e.outbox_id = o.id ORDER BY e.id DESC LIMIT 1)
             FROM outbox AS o",
        )
        .unwrap();
    let rows = stmt.query_map([], |row| {
        let ended = Ended { state: row.get(1)?, group: row.get(2)?, why: row.get(3)? };
        Ok((row.get(0)?, ended))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

/// Half of the cases each: the two run side by side.
fn live(default_cases: u32) {
    let cases = std::env::var("HISTORIES").ok().and_then(|n| n.parse::<u32>().ok());
    let config = ProptestConfig {
        cases: cases.map_or(default_cases, |n| n / 2),
        max_shrink_iters: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    proptest!(config, |(steps in prop::collection::vec(step(), 2..12))| {
        let lived = runtime.block_on(live_through(&steps));
        prop_assert!(lived.is_ok(), "{}", lived.unwrap_err());
    });
}

#[test]
fn in_any_history_each_edit_is_carried_out_once_or_says_why_not() {
    live(125);
}

#[test]
fn in_any_other_history_it_is_so_too() {
    live(125);
}
