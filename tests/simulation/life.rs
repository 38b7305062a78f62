//! One simulated life: carries out a script against the real engine and the daemon's state machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crm_mirror::model::{Clock, DataType, Instant, Object, Resource, Ru};
use crm_mirror::sandbox::{CursorKind, DateHeader, Fault, Hidden, NewField, Rule, SCOPES, World};
use crm_mirror::store::Store;
use crm_mirror::sync::{Engine, Job, SyncError};
use serde_json::{Value, json};

use crate::daemon::{Daemon, repair, resync};
use crate::invariants::Watch;
use crate::script::{Script, Trouble, What};
use crate::support::clock::WrongClock;
use crate::support::{Crm, Mirror};

const MINUTE: Duration = Duration::from_secs(60);
/// How long everything goes well at the end.
const UNDISTURBED: Duration = Duration::from_secs(2 * 86_400 + 7_200);
const FIELDS: [(&str, DataType); 5] = [
    ("motto", DataType::ShortText),
    ("tier", DataType::SingleSelect),
    ("fee", DataType::Decimal),
    ("tags", DataType::MultiSelect),
    ("story", DataType::LongText),
];
/// What people edit in SQL: column and table.
const EDITED: [&str; 3] = ["position", "language", "cf_motto"];

/// What was lived through.
#[derive(Debug, Default)]
pub struct Tally {
    pub days: u64,
    pub runs: u64,
    pub requests: u64,
    pub ru: u64,
    pub edits: u64,
    pub kills: u64,
}

impl Tally {
    pub fn add(&mut self, more: &Tally) {
        self.days += more.days;
        self.runs += more.runs;
        self.requests += more.requests;
        self.ru += more.ru;
        self.edits += more.edits;
        self.kills += more.kills;
    }
}

struct Life<'a> {
    script: &'a Script,
    crm: Crm,
    mirror: Mirror,
    clock: WrongClock,
    daemon: Daemon,
    open: Option<(Store, Engine)>,
    watch: Watch,
    made: BTreeMap<u32, (String, &'static str)>,
    kill: Option<u64>,
    /// When the clock is set right, and when the key gets its scopes back.
    clock_right_at: Option<Instant>,
    scopes_back_at: Option<Instant>,
    /// Until when lists or clocks give a picture that is wrong in itself.
    doubt_until: Instant,
    tally: Tally,
    verbose: bool,
}

/// Lives through a script. The error says which invariant was violated, and when.
pub async fn live(script: &Script, verbose: bool) -> Result<Tally, String> {
    let start: Instant = script.start.parse().unwrap();
    let crm = Crm::serve(world(script, start)).await;
    crm.clock.set(start);
    crm.sandbox.faults().seed(script.seed);
    crm.sandbox.configure(|settings| {
        settings.page_cap = Some(script.page_cap);
        settings.cursors = if script.offsets { CursorKind::Offset } else { CursorKind::Keyset };
    });
    let clock = WrongClock::new(crm.clock.clone());
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.write_back = true;
    mirror.tries = 3;
    mirror.limits.limit = Ru::new(script.budget);
    mirror.clock = Some(Arc::new(clock.clone()));
    let daemon = Daemon::new(script, start);
    let mut life = Life {
        script,
        crm,
        mirror,
        clock,
        daemon,
        open: None,
        watch: Watch::of(script.budget),
        made: BTreeMap::new(),
        kill: None,
        clock_right_at: None,
        scopes_back_at: None,
        doubt_until: start,
        tally: Tally { days: u64::from(script.days) + 2, ..Tally::default() },
        verbose,
    };
    life.work().await?;
    for event in &script.events {
        life.until(start.plus(event.minute * MINUTE)).await?;
        life.say(&format!("{:?}", event.what));
        life.happen(&event.what);
        life.work().await?;
    }
    life.until(start.plus(script.days * 1440 * MINUTE)).await?;
    life.end_well().await?;
    let log = life.crm.sandbox.log();
    life.tally.requests = log.len() as u64;
    life.tally.ru = log.ru().get();
    life.tally.edits = life.made.len() as u64;
    Ok(life.tally)
}

fn world(script: &Script, start: Instant) -> World {
    let mut world = World::new(start.minus(Duration::from_secs(86_400)));
    for object in Object::ALL {
        for (key, data_type) in FIELDS {
            let field = NewField::new(object, key, data_type);
            world.define(if data_type.is_select() { field.options(&["a", "b", "gold"]) } else { field });
        }
    }
    for n in 0..script.contacts {
        world.create(Object::Contact, &values(n));
    }
    for n in 0..script.companies {
        world.create(Object::Company, &values(n));
    }
    for n in 0..3 {
        world.add_team_member(&json!({ "firstName": format!("Member {n}"), "status": "ACTIVE" }));
    }
    world
}

fn values(v: u32) -> Value {
    json!({
        "name": format!("Name {v}"),
        "customFields": {
            "motto": if v.is_multiple_of(5) { json!(null) } else { json!(format!("Motto {v}")) },
            "tier": if v.is_multiple_of(3) { json!(null) } else { json!("gold") },
            "fee": format!("{v}.10"),
            "tags": if v.is_multiple_of(2) { json!(["a", "b"]) } else { json!(["b"]) },
        },
    })
}

/// Three in four records that something happens to are contacts.
fn object(which: u32) -> Object {
    if which % 4 == 3 { Object::Company } else { Object::Contact }
}

fn pick(world: &World, object: Object, which: u32) -> Option<String> {
    let ids = world.ids(object.resource());
    (!ids.is_empty()).then(|| ids[which as usize % ids.len()].clone())
}

impl Life<'_> {
    fn say(&self, what: &str) {
        if self.verbose {
            println!("{}  {what}", self.crm.clock.now());
        }
    }

    fn failed(&self, why: &str) -> String {
        format!("{}: {why}", self.crm.clock.now())
    }

    /// Lets the daemon live until a moment.
    async fn until(&mut self, end: Instant) -> Result<(), String> {
        loop {
            let now = self.crm.clock.now();
            let due = self.daemon.wakes_at(self.clock.now()).map(|at| self.clock.true_time(at));
            let repairs = [self.clock_right_at, self.scopes_back_at];
            let next =
                repairs.into_iter().flatten().chain(due).min().unwrap_or(end).max(now.plus(Duration::from_secs(1)));
            if next > end {
                self.crm.clock.set(end.max(now));
                return Ok(());
            }
            self.crm.clock.set(next);
            self.repair_circumstances(next);
            self.work().await?;
        }
    }

    fn repair_circumstances(&mut self, now: Instant) {
        if self.clock_right_at.take_if(|at| *at <= now).is_some() {
            self.clock.set_ahead(0);
            self.daemon.clock_moved(self.clock.now());
        }
        if self.scopes_back_at.take_if(|at| *at <= now).is_some() {
            self.crm.sandbox.set_key(&self.crm.key, &SCOPES);
        }
    }

    /// Carries out whatever the daemon wants to begin now.
    async fn work(&mut self) -> Result<(), String> {
        self.daemon.tick(self.clock.now());
        let mut runs = 0;
        while let Some(job) = self.daemon.next_job() {
            self.run(&job).await?;
            runs += 1;
            if runs > 50 {
                return Err(self.failed("the daemon begins one run after the other"));
            }
        }
        Ok(())
    }

    async fn run(&mut self, job: &Job) -> Result<(), String> {
        self.tally.runs += 1;
        let kill = self.kill.take();
        self.tally.kills += u64::from(kill.is_some());
        if kill.is_some() {
            self.close().await;
        }
        let result = match self.opened(kill).await {
            Ok(engine) => engine.run(job, "test").await,
            Err(error) => Err(error),
        };
        if kill.is_some() {
            self.close().await;
        }
        if self.verbose {
            let ended = match &result {
                Ok(report) => format!("{:?} {:?}", report.outcome, report.suspension),
                Err(error) => format!("{error:?}"),
            };
            self.say(&format!("  {} ({} requests so far): {ended}", job.kind(), self.crm.sandbox.log().len()));
        }
        let watched = self.watch.after_run(self.script, &self.crm, &self.mirror, kill.is_some(), self.doubt_until);
        watched.map_err(|why| self.failed(&why))?;
        let now = self.clock.now();
        if kill.is_some() {
            self.daemon.restart(now);
            self.daemon.tick(now);
        } else {
            self.daemon.ended(&result, now);
        }
        Ok(())
    }

    /// The open mirror; a process that is to be killed has one of its own.
    async fn opened(&mut self, kill: Option<u64>) -> Result<&Engine, SyncError> {
        if self.open.is_none() {
            self.open = Some(self.mirror.open(&self.crm, kill).await?);
        }
        match &self.open {
            Some((_, engine)) => Ok(engine),
            None => unreachable!("it was opened"),
        }
    }

    async fn close(&mut self) {
        if let Some((store, engine)) = self.open.take() {
            drop(engine);
            store.close().await;
        }
    }

    /// Everything goes well for two days; then the mirror must be exact and every edit at its end.
    async fn end_well(&mut self) -> Result<(), String> {
        self.say("from now on everything goes well");
        self.crm.sandbox.faults().clear();
        self.crm.sandbox.set_key(&self.crm.key, &SCOPES);
        (self.kill, self.scopes_back_at) = (None, None);
        if self.clock_right_at.take().is_some() {
            self.clock.set_ahead(0);
            self.daemon.clock_moved(self.clock.now());
        }
        self.mirror.limits.limit = Ru::new(1_000_000);
        self.watch.budget = None;
        self.close().await;
        self.until(self.crm.clock.now().plus(UNDISTURBED)).await?;
        if self.mirror.differences(&self.crm).iter().any(|line| line.contains("which the service has not")) {
            // What the guard refused is for a person to accept.
            self.close().await;
            let accepted = self.mirror.run(&self.crm, &accepting()).await;
            accepted.map_err(|error| self.failed(&format!("the last copy failed: {error:?}")))?;
        }
        let differences = self.mirror.differences(&self.crm);
        if !differences.is_empty() {
            let shown = differences[..differences.len().min(6)].join("\n  ");
            let count = differences.len();
            return Err(self.failed(&format!("{count} differences after two undisturbed days:\n  {shown}")));
        }
        self.watch.edits(&self.mirror, &self.made).map_err(|why| self.failed(&why))
    }

    fn happen(&mut self, what: &What) {
        let now = self.crm.clock.now();
        match what {
            What::Sql(which, number) => self.edit_in_sql(*which, *number),
            What::Trouble(trouble, minutes) => self.trouble(trouble, *minutes),
            What::ClockJump(seconds, minutes) => {
                self.clock.set_ahead(*seconds);
                self.clock_right_at = Some(now.plus(*minutes * MINUTE));
                self.doubt_until = self.doubt_until.max(now.plus(*minutes * MINUTE));
                self.daemon.clock_moved(self.clock.now());
            }
            What::Kill(commits) => self.kill = Some(u64::from(*commits)),
            What::Junk(which) => {
                let name = self.mirror.spoil_state(*which);
                self.say(&format!("  the state entry {name:?}"));
            }
            What::ScopeLost(resource, minutes) => {
                let scopes: Vec<&str> = SCOPES.into_iter().filter(|scope| *scope != resource.read_scope()).collect();
                self.crm.sandbox.set_key(&self.crm.key, &scopes);
                self.scopes_back_at = Some(now.plus(*minutes * MINUTE));
            }
            What::Resync => self.daemon.ask(resync(), self.clock.now()),
            What::Verify => self.daemon.ask(repair(), self.clock.now()),
            _ => self.crm.sandbox.with_world(|world| in_the_crm(world, what)),
        }
    }

    fn trouble(&mut self, trouble: &Trouble, minutes: u32) {
        let now = self.crm.clock.now();
        // Nobody can tell a record that is hidden everywhere from one that is gone.
        if matches!(trouble, Trouble::Hidden(_) | Trouble::Lag(..) | Trouble::RepeatedPages(_)) {
            self.doubt_until = self.doubt_until.max(now.plus(minutes * MINUTE));
        }
        let (fault, share) = match trouble {
            Trouble::FalseNotFound(share) => (Fault::Status(404), *share),
            Trouble::Html(status, share) => (Fault::Html(*status), *share),
            Trouble::Status(status, share) => (Fault::Status(*status), *share),
            Trouble::RateLimit(seconds, share) => {
                (Fault::TooMany { body: Some(*seconds), header: Some(*seconds) }, *share)
            }
            Trouble::Gateway(status, share) => (Fault::StatusAfterApply(*status), *share),
            Trouble::Reset(share) => (Fault::Reset, *share),
            Trouble::Lost(share) => (Fault::ResetAfterApply, *share),
            Trouble::Truncated(share) => (Fault::Truncated, *share),
            Trouble::Redirect(status) => (Fault::Redirect { status: *status, location: "/maintenance".into() }, 100),
            Trouble::RefusedCursors(share) => (Fault::RefusedCursor, *share),
            Trouble::Lag(by, share) => (Fault::Lag(*by * MINUTE), *share),
            Trouble::EmptyLists => (Fault::EmptyList, 100),
            Trouble::Hidden(share) => (Fault::Hide(Hidden::Percent(*share)), 100),
            Trouble::NoDate => (Fault::Date(DateHeader::Missing), 100),
            Trouble::WrongDate(by) => (Fault::Date(DateHeader::Offset(*by)), 100),
            Trouble::Unordered(share) => (Fault::Unordered, *share),
            Trouble::RepeatedPages(share) => (Fault::RepeatedPage, *share),
            Trouble::BadRecord(_, status) => (Fault::Status(*status), 100),
        };
        let mut rule = Rule::new(fault).percent(f64::from(share)).lasting(now, minutes * MINUTE);
        rule = match trouble {
            Trouble::FalseNotFound(_) => rule.method("GET").records(),
            Trouble::RefusedCursors(_) => rule.with_cursor(),
            Trouble::BadRecord(which, _) => match pick(&self.crm.sandbox.world(), object(*which), *which) {
                Some(id) => rule.method("GET").record(&id),
                None => return,
            },
            _ => rule,
        };
        self.crm.sandbox.faults().add(rule);
    }

    /// A person at the `sqlite3` prompt.
    fn edit_in_sql(&mut self, which: u32, number: u32) {
        if !self.mirror.path.exists() {
            return;
        }
        let column = EDITED[number as usize % EDITED.len()];
        let Ok(conn) = rusqlite::Connection::open(&self.mirror.path) else { return };
        let ids: Vec<String> = match conn.prepare("SELECT id FROM contacts ORDER BY id") {
            Ok(mut stmt) => stmt.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect(),
            Err(_) => return,
        };
        let Some(id) = ids.get(which as usize % ids.len().max(1)) else { return };
        let sql = format!("UPDATE contacts_full SET {column} = ?1 WHERE id = ?2");
        // Refused before the first run allows edits, and where the column is archived.
        let queued = conn.execute(&sql, (format!("ours {number}"), id));
        let count = "SELECT count(*) FROM outbox WHERE fields LIKE ?1";
        let stored = conn.query_row(count, [format!("%\"ours {number}\"%")], |row| row.get::<_, i64>(0));
        if queued.is_ok() && stored == Ok(1) {
            self.made.insert(number, (id.clone(), column));
            self.daemon.edited(self.clock.now());
        }
    }
}

fn accepting() -> Job {
    let accept = crm_mirror::sync::Acceptance { removals: true, workspace: false };
    Job::Resync { objects: crm_mirror::sync::Selection::All, accept }
}

/// What other people do in the CRM.
fn in_the_crm(world: &mut World, what: &What) {
    let now = world.now();
    match what {
        What::Create(v) => {
            world.create(object(*v), &values(*v));
        }
        What::Edit(r, v) => edit(world, *r, &values(*v)),
        What::EditNotes(r, v) => edit(world, *r, &json!({ "notes": format!("Note {v}") })),
        What::EditStory(r, v) => {
            let story = if v.is_multiple_of(4) { json!(null) } else { json!(format!("Story {v}")) };
            edit(world, *r, &json!({ "customFields": { "story": story } }));
        }
        What::EditSilently(r, v) => {
            if let Some(id) = pick(world, object(*r), *r) {
                world.edit_silently(object(*r), &id, &json!({ "name": format!("Silent {v}") }));
            }
        }
        What::CommitLate(r, seconds) => {
            if let Some(id) = pick(world, object(*r), *r) {
                let at = now.minus(Duration::from_secs(u64::from(*seconds)));
                let detail = world.detail_json(object(*r), &id).unwrap();
                let before: Option<Instant> = detail["updatedAt"].as_str().and_then(|text| text.parse().ok());
                // The service's own dates never go back.
                if before.is_none_or(|before| before < at) {
                    world.edit_at(object(*r), &id, &values(*seconds), Some(at));
                }
            }
        }
        What::Remove(r) => {
            if let Some(id) = pick(world, object(*r), *r) {
                world.remove(object(*r), &id);
            }
        }
        What::RemoveMany(share) => {
            let ids = world.ids(Resource::Contacts);
            for id in ids.iter().take(ids.len() * *share as usize / 100) {
                world.remove(Object::Contact, id);
            }
        }
        What::BulkEdit(share, v) => {
            let ids = world.ids(Resource::Contacts);
            for id in ids.iter().take(ids.len() * *share as usize / 100) {
                world.edit(Object::Contact, id, &values(*v));
            }
        }
        What::Team(v) => {
            world.add_team_member(&json!({ "firstName": format!("Member {v}"), "status": "PENDING" }));
        }
        What::Archive(f) => {
            world.archive(Object::Contact, FIELDS[*f as usize % FIELDS.len()].0);
        }
        What::Reactivate(f) => {
            world.reactivate(Object::Contact, FIELDS[*f as usize % FIELDS.len()].0);
        }
        What::Relabel(f) => {
            world.relabel(Object::Contact, FIELDS[*f as usize % FIELDS.len()].0, "Another label");
        }
        What::Define(n) => {
            let key = format!("New {}", n % 3);
            if world.definitions().iter().all(|definition| definition.key != key) {
                world.define(NewField::new(Object::Contact, &key, DataType::ShortText));
                if let Some(id) = pick(world, Object::Contact, *n) {
                    world.edit(Object::Contact, &id, &json!({ "customFields": { key: "new" } }));
                }
            }
        }
        _ => {}
    }
}

fn edit(world: &mut World, which: u32, changes: &Value) {
    if let Some(id) = pick(world, object(which), which) {
        world.edit(object(which), &id, changes);
    }
}
