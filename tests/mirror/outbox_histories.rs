//! Edits in random histories: made with SQL literals of every type, with and without a `WHERE`, and from the command
//! line by a second editor, while others change the same records at the service; through lost answers, permanent
//! failures, races, kills, small budgets and forgotten keys; cancelled, and held by the brake; with and without a
//! schedule. Each edit is carried out once and as it was written, or is refused, or ends in a state with the reason; no
//! change of the same field by others is overwritten unseen; the updates of a record within an hour are bounded; and
//! undisturbed runs make the mirror equal the service.
//!
//! Values are used once, so the service's log shows which edit an update carried, and whose value it replaced.
//! `HISTORIES=n` sets the number of cases.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::outbox_judgement::judge;
use crate::outbox_values::{FORMS, MASKS, canonical, chosen, define, fields_of, given, literal, value};
use crate::support::cases::Cases;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Clock, EditState, Instant, Object, RecordId, Ru};
use crm_mirror::outbox::typed_values::Given;
use crm_mirror::outbox::user_decisions::{self, Decision};
use crm_mirror::outbox::{EditRequest, EditWatch, queue};
use crm_mirror::sandbox::{Fault, RequestLine, Route, Rule, World};
use crm_mirror::store::{StoreError, outbox_report, write_beside};
use crm_mirror::sync::Job;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::{Map, Value, json};

const RECORDS: u8 = 5;

/// Permanent answers.
const LASTING: [u16; 17] = [400, 401, 403, 404, 405, 408, 409, 412, 422, 425, 428, 429, 500, 501, 502, 503, 504];

/// The last record is a company.
fn record(r: u8) -> (Object, String) {
    let r = r % RECORDS;
    let object = if r + 1 == RECORDS { Object::Company } else { Object::Contact };
    (object, format!("r{r}"))
}

/// A change by another client: a record and a mask of fields, or the record's removal.
#[derive(Clone, Copy, Debug)]
enum WorldChange {
    Edit(u8, u16),
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
    churn: Vec<(u8, WorldChange)>,
}

#[derive(Clone, Debug)]
enum Step {
    /// A record, a mask of fields, and the form of the literals.
    Ours(u8, u16, u8),
    /// An `UPDATE` without a `WHERE`.
    OursEverywhere(u16),
    /// From now on every update has this answer, or, if set, every request; `None` for no longer.
    Always(Option<u16>, bool),
    /// The schedule is off: for these minutes only edits that are due are pushed.
    Watched(u8),
    /// The value in the view is set again, which cancels what waits for the column.
    TakeBack(u8, u16),
    /// A user releases held edits.
    Release,
    Theirs(WorldChange),
    Wait(u32),
    Run(Run),
}

/// Some of the fields, more often the first ones.
fn mask() -> impl Strategy<Value = u16> {
    (1..MASKS, 0_u32..12).prop_map(|(mask, field)| mask & (mask >> 1) & (mask >> 2) | 1 << field)
}

fn change() -> impl Strategy<Value = WorldChange> {
    prop_oneof![
        6 => (any::<u8>(), mask()).prop_map(|(r, mask)| WorldChange::Edit(r, mask)),
        3 => any::<u8>().prop_map(WorldChange::Rename),
        1 => any::<u8>().prop_map(WorldChange::Remove),
    ]
}

fn fault() -> impl Strategy<Value = (Fault, bool, u8)> {
    let fault = prop_oneof![
        6 => Just(Fault::ResetAfterApply),
        2 => Just(Fault::Reset),
        2 => Just(Fault::Truncated),
        1 => Just(Fault::StatusAfterApply(200)),
        3 => prop::sample::select(vec![500, 503]).prop_map(Fault::Status),
        3 => prop::sample::select(vec![400, 401, 403, 404, 408, 409, 412, 422, 428]).prop_map(Fault::Status),
        2 => prop::option::of(prop_oneof![1_u64..20, 400_u64..90_000])
            .prop_map(|body| Fault::Wait { status: 429, body, header: None }),
    ];
    (fault, prop::bool::weighted(0.85), 0_u8..4)
}

fn run() -> impl Strategy<Value = Run> {
    (
        prop::bool::weighted(0.6),
        prop::collection::vec(fault(), 0..4),
        prop::option::weighted(0.3, 0_u64..14),
        prop::option::weighted(0.2, 0_u64..9),
        1_u32..4,
        prop::collection::vec((0_u8..8, change()), 0..3),
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
    let form = prop_oneof![3 => Just(0_u8), 2 => 1..FORMS];
    prop_oneof![
        5 => (any::<u8>(), mask(), form).prop_map(|(r, mask, form)| Step::Ours(r, mask, form)),
        1 => mask().prop_map(|mask| Step::OursEverywhere(1 << mask.trailing_zeros())),
        1 => (prop::option::weighted(0.6, prop::sample::select(LASTING.to_vec())), prop::bool::weighted(0.2))
            .prop_map(|(status, all)| Step::Always(status, all)),
        1 => (1_u8..80).prop_map(Step::Watched),
        1 => (any::<u8>(), mask()).prop_map(|(r, mask)| Step::TakeBack(r, mask)),
        1 => Just(Step::Release),
        2 => change().prop_map(Step::Theirs),
        2 => prop_oneof![0_u32..200, 3_000_u32..200_000].prop_map(Step::Wait),
        4 => run().prop_map(Step::Run),
    ]
}

/// Knowledge outside the mirror: the author of each value.
#[derive(Default)]
struct Known {
    theirs: u32,
    /// The records before each request.
    before: Vec<Option<Value>>,
}

fn carry_out(world: &mut World, known: &mut Known, change: WorldChange) {
    let (WorldChange::Edit(r, _) | WorldChange::Rename(r) | WorldChange::Remove(r)) = change;
    let (object, id) = record(r);
    match change {
        WorldChange::Edit(_, mask) => {
            known.theirs += 1;
            let (mut body, mut custom) = (Map::new(), Map::new());
            for field in chosen(object, mask) {
                let members = if field.is_custom() { &mut custom } else { &mut body };
                members.insert(field.wire.into(), value(field, false, known.theirs));
            }
            body.insert("customFields".into(), custom.into());
            world.edit(object, &id, &body.into());
        }
        WorldChange::Rename(_) => {
            known.theirs += 1;
            world.edit(object, &id, &json!({ "name": format!("Name {}", known.theirs) }));
        }
        // One record must remain, so that the mirror can identify its workspace.
        WorldChange::Remove(_) if r % RECORDS == 0 => {}
        WorldChange::Remove(_) => {
            world.remove(object, &id);
        }
    }
}

fn world() -> World {
    let mut world = World::new(noon());
    define(&mut world);
    for r in 0..RECORDS {
        let (object, id) = record(r);
        let mut known = Known { theirs: 1_000 + u32::from(r), ..Known::default() };
        world.create(object, &json!({ "id": id, "name": id }));
        carry_out(&mut world, &mut known, WorldChange::Edit(r, 0b1111_1110_1101));
    }
    world
}

/// An edit as it was made.
pub struct Ours {
    pub object: Object,
    pub id: String,
    /// The values that its author saw, by wire name.
    pub saw: Values,
    /// The values that its author wrote.
    pub wrote: Values,
}

/// Values by wire name, in one form.
pub type Values = BTreeMap<String, Value>;

/// Our edits by their number in the outbox.
#[derive(Default)]
struct Authors {
    ours: BTreeMap<i64, Ours>,
    /// The last number that was used in values.
    number: u32,
}

/// Changes a record as a user would, alternately in SQL and from the command line. The record may be missing.
fn edit(mirror: &Mirror, authors: &mut Authors, r: u8, mask: u16, form: u8) -> Result<(), String> {
    let (object, id) = record(r);
    authors.number += 1;
    let number = authors.number;
    if number.is_multiple_of(2) {
        let values: Vec<_> =
            chosen(object, mask).map(|field| (field.column, field.wire, value(field, true, number))).collect();
        let changes = values.iter().map(|(column, _, value)| ((*column).to_string(), given(value))).collect();
        in_shell(mirror, object, &id, changes);
        let wrote = values.iter().map(|(_, wire, value)| ((*wire).to_string(), canonical(wire, value))).collect();
        note_new_edits(mirror, authors, &BTreeMap::from([(id, wrote)]));
        return Ok(());
    }
    let (mut sets, mut wrote, mut is_refused) = (Vec::new(), Values::new(), None);
    for field in chosen(object, mask) {
        let (sql, arrives) = literal(field, number, form);
        match arrives {
            Some(value) => drop(wrote.insert(field.wire.into(), canonical(field.wire, &value))),
            None => is_refused = Some(format!("{} = {sql}", field.column)),
        }
        sets.push(format!("{} = {sql}", field.column));
    }
    let sql = format!("UPDATE {} SET {} WHERE id = '{id}'", object.full_view(), sets.join(", "));
    let is_here = mirror.one(&format!("SELECT count(*) FROM {} WHERE id = '{id}'", object.full_view())) == "1";
    let done = rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(&sql);
    match (is_refused.filter(|_| is_here), done) {
        (None, Ok(())) => note_new_edits(mirror, authors, &BTreeMap::from([(id, wrote)])),
        (Some(_), Err(_)) => {}
        (None, Err(why)) => return Err(format!("refused: {sql}: {why}")),
        (Some(set), Ok(())) => return Err(format!("accepted: {set}")),
    }
    Ok(())
}

/// Changes a column of every contact in one statement.
fn edit_everywhere(mirror: &Mirror, authors: &mut Authors, mask: u16) {
    let mut wrote: BTreeMap<String, Values> = BTreeMap::new();
    let sets: Vec<String> = chosen(Object::Contact, mask)
        .map(|field| {
            let arms = (0..RECORDS).map(|r| {
                let (sql, arrives) = literal(field, authors.number + 1 + u32::from(r), 0);
                let id = record(r).1;
                let arm = format!(" WHEN '{id}' THEN {sql}");
                wrote.entry(id).or_default().insert(field.wire.into(), canonical(field.wire, &arrives.unwrap()));
                arm
            });
            format!("{} = CASE id{} END", field.column, arms.collect::<String>())
        })
        .collect();
    authors.number += u32::from(RECORDS);
    let sql = format!("UPDATE contacts_full SET {}", sets.join(", "));
    rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(&sql).unwrap();
    note_new_edits(mirror, authors, &wrote);
}

/// Notes the edits that a statement queued, with the values that it wrote, by record.
fn note_new_edits(mirror: &Mirror, authors: &mut Authors, wrote: &BTreeMap<String, Values>) {
    let known = authors.ours.keys().max().copied().unwrap_or(0);
    let conn = mirror.read();
    let mut stmt = conn.prepare("SELECT id, object_type, record_id, fields FROM outbox WHERE id > ?1").unwrap();
    let rows = stmt.query_map([known], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?, row.get::<_, String>(3)?))
    });
    for (edit, object, id, fields) in rows.unwrap().map(Result::unwrap) {
        let object: Object = object.parse().unwrap();
        let fields: BTreeMap<String, (Value, Value)> = serde_json::from_str(&fields).unwrap();
        let wire = |column: &str| fields_of(object).iter().find(|field| field.column == column).unwrap().wire;
        let saw = fields.iter().map(|(column, (before, _))| (wire(column).into(), canonical(wire(column), before)));
        let changed = |name: &String| fields.keys().any(|column| wire(column) == name);
        let wrote = wrote[&id].iter().filter(|(name, _)| changed(name));
        let wrote = wrote.map(|(name, value)| (name.clone(), value.clone())).collect();
        authors.ours.insert(edit, Ours { object, saw: saw.collect(), wrote, id });
    }
}

/// Sets the columns to the values in the view, in SQL.
fn take_back(mirror: &Mirror, r: u8, mask: u16) {
    let (object, id) = record(r);
    let sets: Vec<String> = chosen(object, mask).map(|field| format!("{0} = {0}", field.column)).collect();
    // A sent value would be reverted by another edit, with a value that is not ours.
    let sql = format!(
        "UPDATE {} SET {} WHERE id = '{id}' AND NOT EXISTS (SELECT 1 FROM outbox WHERE record_id = '{id}' AND state = 'sending')",
        object.full_view(),
        sets.join(", ")
    );
    rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(&sql).unwrap();
}

/// Does what `crm-mirror outbox release --all` does.
fn release(mirror: &Mirror, now: Instant) {
    write_beside(&mirror.path, |tx| {
        let held = outbox_report::edits(tx, false)?;
        for edit in held.iter().filter(|edit| edit.state == EditState::Held) {
            user_decisions::decide(tx, edit.id, Decision::Release, now)?;
        }
        Ok::<_, StoreError>(())
    })
    .unwrap();
}

/// Does what `crm-mirror edit` does.
fn in_shell(mirror: &Mirror, object: Object, id: &str, changes: Vec<(String, Given)>) {
    let request = EditRequest { object, record: RecordId::from(id), changes };
    let queued = write_beside(&mirror.path, |tx| queue(tx, &request, Instant::system_now()));
    let is_gone = |error: &StoreError| matches!(error, StoreError::Refused(why) if why.starts_with("there is no "));
    assert!(queued.as_ref().err().is_none_or(is_gone), "{queued:?}");
}

/// Runs without faults, with days in between, so that every edit ends that can.
async fn run_undisturbed(crm: &Crm, mirror: &mut Mirror) -> Result<(), String> {
    mirror.limits.limit = Ru::new(1_000_000);
    mirror.tries = 3;
    for _ in 0..2 {
        crm.wait(200_000);
        release(mirror, crm.clock.now());
        mirror.run(crm, &Job::sync()).await.map_err(|e| format!("{e:?}"))?;
    }
    crm.wait(200_000);
    release(mirror, crm.clock.now());
    mirror.run(crm, &Job::sync()).await.map_err(|e| format!("{e:?}"))?;
    crm.wait(600);
    let whole = Job::resync().accepting_removals();
    mirror.run(crm, &whole).await.map_err(|e| format!("{e:?}"))?;
    Ok(())
}

/// Does what the daemon does while its schedule is off.
async fn push_what_is_due(crm: &Crm, mirror: &Mirror, watch: &mut EditWatch, minutes: u8) {
    let (store, engine) = mirror.open(crm, None).await.unwrap();
    for _ in 0..minutes {
        crm.wait(60);
        if watch.is_due(crm.clock.now()).unwrap() {
            // The outcome does not matter; the fate of the edits and the number of requests do.
            let _ = engine.run(&Job::push(), "test").await;
        }
    }
    drop(engine);
    store.close().await;
}

async fn live_through(steps: &[Step]) -> Result<(), String> {
    let crm = Crm::serve(world()).await;
    let mut mirror = Mirror::empty();
    mirror.settings.write_back = true;
    mirror.settings.concurrency = 2;
    mirror.settings.max_edits = 6;
    let known = Arc::new(Mutex::new(Known::default()));
    let watch = |churn: Vec<(u8, WorldChange)>| {
        let known = known.clone();
        let mut asked_before = 0_u8;
        crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
            let mut known = known.lock().unwrap();
            for (_, change) in churn.iter().filter(|(at, _)| *at == asked_before) {
                carry_out(world, &mut known, *change);
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
    let mut authors = Authors::default();
    let mut edit_watch = EditWatch::new(&mirror.path);
    let mut always = None;
    let only_lasting_faults = |always: Option<(u16, bool)>| {
        crm.sandbox.faults().clear();
        if let Some((status, all)) = always {
            let rule = Rule::new(Fault::Status(status)).forever();
            crm.sandbox.faults().add(if all { rule } else { rule.method("PATCH") });
        }
    };
    for step in steps {
        match step {
            Step::Ours(r, mask, form) => edit(&mirror, &mut authors, *r, *mask, *form)?,
            Step::OursEverywhere(mask) => edit_everywhere(&mirror, &mut authors, *mask),
            Step::Always(status, all) => {
                always = status.map(|status| (status, *all));
                only_lasting_faults(always);
            }
            Step::Watched(minutes) => push_what_is_due(&crm, &mirror, &mut edit_watch, *minutes).await,
            Step::TakeBack(r, mask) => take_back(&mirror, *r, *mask),
            Step::Release => release(&mirror, crm.clock.now()),
            Step::Theirs(change) => {
                crm.sandbox.with_world(|world| carry_out(world, &mut known.lock().unwrap(), *change))
            }
            Step::Wait(seconds) => crm.wait(u64::from(*seconds)),
            Step::Run(run) => {
                for (fault, patches, after) in &run.faults {
                    let rule = Rule::new(fault.clone()).after(u32::from(*after));
                    crm.sandbox.faults().add(if *patches { rule.method("PATCH") } else { rule });
                }
                watch(run.churn.clone());
                mirror.tries = run.tries;
                mirror.limits.limit = Ru::new(run.budget.unwrap_or(1_000_000));
                let job = if run.push { Job::push() } else { Job::sync() };
                // The outcome does not matter; the fate of the edits does.
                let _ = mirror.run_killed_after(&crm, &job, run.killed_after).await;
                only_lasting_faults(always);
            }
        }
    }
    only_lasting_faults(None);
    watch(Vec::new());
    run_undisturbed(&crm, &mut mirror).await?;
    let known = known.lock().unwrap();
    judge(&crm, &mirror, &authors.ours, &known.before)
}

/// Runs some of the histories.
fn live(cases: Cases) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    cases.check(400, prop::collection::vec(step(), 2..12), |steps| {
        runtime.block_on(live_through(&steps)).map_err(TestCaseError::fail)
    });
}

in_shards!(in_any_history_each_edit_is_carried_out_once_or_says_why_not, live, 120, [first, second]);
