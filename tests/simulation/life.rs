//! One simulated life: runs a script against the real engine and the daemon's state machine.

mod acceptance;
mod acts;
mod between;
mod calm;
mod disturbances;
mod ending;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crm_mirror::daemon::inputs_and_effects::DaemonRequest;
use crm_mirror::daemon::job::QueuedJob;
use crm_mirror::model::{Clock, Instant, Ru};
use crm_mirror::outbox::EditWatch;
use crm_mirror::sandbox::SCOPES;
use crm_mirror::store::StoreError;
use crm_mirror::sync::{RunReport, SyncError};
use rusqlite::Connection;

use crate::claims::DuringRun;
use crate::conflicts::Conflicts;
use crate::daemon::{Daemon, repair, resync};
use crate::invariants::Watch;
use crate::manners::{Manners, RunFacts};
use crate::people::{self, Edits};
use crate::private_edits::PrivateEdits;
use crate::process::{self, FullDisk, Process};
use crate::repeats::Repeats;
use crate::script::{Script, What};
use crate::support::clock::WrongClock;
use crate::support::{Crm, Mirror, seeded_jitter};
use crate::tally::Tally;
use crate::unseen::Unseen;

const MINUTE: Duration = Duration::from_secs(60);
/// The largest body that is read: a page of heavy rows is larger.
const MAX_BODY: usize = 200_000;

/// The mirror of another workspace.
const FROZEN: &str = include_str!("../schema/v1.sql");

/// What ends at a moment of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repair {
    Clock,
    Scopes,
    Key,
    Reader,
    Pause,
}

struct Life<'a> {
    script: &'a Script,
    crm: Crm,
    mirror: Mirror,
    clock: WrongClock,
    daemon: Daemon,
    open: Option<Process>,
    edit_watch: EditWatch,
    watch: Watch,
    /// What no other workspace may receive.
    private_edits: PrivateEdits,
    unseen: Unseen,
    /// Whether a person still has to accept the workspace of the key.
    is_unaccepted: bool,
    during_run: Arc<Mutex<DuringRun>>,
    manners: Manners,
    edits: Edits,
    conflicts: Conflicts,
    repeats: Repeats,
    /// The edits when the file was last backed up.
    saved_edits: Edits,
    /// Whether the mirror is what it was when its file was last copied: nobody has opened it since.
    is_copied_file: bool,
    /// What befalls the next run: its death before a commit, a full disk, a locked file.
    kill: Option<u64>,
    full_disk: Option<u32>,
    locked: bool,
    burst: Option<(u32, u32)>,
    /// Whether a tied edit has given many records one time of their last change.
    has_tied: bool,
    repairs: Vec<(Instant, Repair)>,
    reader: Option<Connection>,
    keys: u32,
    /// Until when lists or clocks give a picture that is wrong in itself, and until when rows may go, or go back, because of it.
    doubt_until: Instant,
    rows_doubt_until: Instant,
    /// Until when the service misbehaves, or refuses the key.
    disturbed_until: Instant,
    tally: Tally,
    verbose: bool,
}

/// Runs a script. The error names the violated invariant and the time.
pub async fn live(script: &Script, verbose: bool) -> Result<Tally, String> {
    process::survive_full_disks();
    let start: Instant = script.start.parse().unwrap();
    let mut life = Life::begin(script, start, verbose).await;
    if script.events.first().is_none_or(|event| event.minute > 0) {
        life.work().await?;
    }
    for event in &script.events {
        life.until(start.plus(event.minute * MINUTE)).await?;
        life.say(&format!("{:?}", event.what));
        life.happen(&event.what).await?;
        life.work().await?;
    }
    life.until(start.plus(script.days * 1440 * MINUTE)).await?;
    life.end_well().await?;
    life.tally.days = life.crm.clock.now().since(start).as_secs() / 86_400;
    life.tally.requests = life.watch.requests;
    life.tally.fingerprint = life.watch.fingerprint();
    life.tally.ru = life.watch.charged;
    life.tally.edits = life.edits.len() as u64;
    Ok(life.tally)
}

/// A directory in memory if the machine has one; otherwise the test waits for the disk.
fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// The service does nothing wrong but what it never does right.
fn never(script: &Script, crm: &Crm) {
    crm.sandbox.faults().clear();
    script.never.iter().flat_map(|never| never.rules(script)).for_each(|rule| crm.sandbox.faults().add(rule));
}

impl<'a> Life<'a> {
    async fn begin(script: &'a Script, start: Instant, verbose: bool) -> Life<'a> {
        let crm = Crm::serve(people::world(script, start)).await;
        crm.clock.set(start);
        crm.sandbox.faults().seed(script.seed);
        crm.sandbox.configure(|settings| {
            settings.page_cap = Some(script.page_cap);
            settings.counts_rows = script.offsets;
            settings.limits_whole_lists = script.short_id_lists;
            settings.undated = !script.dates;
        });
        never(script, &crm);
        let clock = WrongClock::new(crm.clock.clone());
        let mut mirror = Mirror::empty_in(disk());
        mirror.settings.concurrency = script.concurrency;
        mirror.settings.write_back = true;
        mirror.settings.max_edits = script.max_edits;
        mirror.settings.details = script.details;
        mirror.max_body = Some(MAX_BODY);
        mirror.tries = 3;
        mirror.jitter = seeded_jitter(script.seed);
        mirror.limits.limit = Ru::new(script.budget);
        mirror.limits.window = script.window;
        mirror.clock = Some(Arc::new(clock.clone()));
        if script.frozen {
            Connection::open(&mirror.path).unwrap().execute_batch(FROZEN).unwrap();
        }
        let watch = Watch::of(&mirror, script.budget, script.window);
        Life {
            script,
            during_run: Arc::new(Mutex::new(DuringRun::new(watch.config.clone()))),
            watch,
            private_edits: PrivateEdits::default(),
            unseen: Unseen::default(),
            is_unaccepted: false,
            manners: Manners::new(script),
            edit_watch: EditWatch::new(&mirror.path),
            crm,
            mirror,
            clock,
            daemon: Daemon::new(script, start),
            open: None,
            edits: Edits::default(),
            conflicts: Conflicts::default(),
            repeats: Repeats::default(),
            saved_edits: Edits::default(),
            is_copied_file: false,
            kill: None,
            full_disk: None,
            locked: false,
            burst: None,
            has_tied: false,
            repairs: Vec::new(),
            reader: None,
            keys: 0,
            doubt_until: start,
            rows_doubt_until: start,
            disturbed_until: start,
            tally: Tally::default(),
            verbose,
        }
    }

    fn say(&self, what: &str) {
        if self.verbose {
            println!("{}  {what}", self.crm.clock.now());
        }
    }

    fn failed(&self, why: &str) -> String {
        format!("{}: {why}", self.crm.clock.now())
    }

    /// Runs the daemon until a time.
    async fn until(&mut self, end: Instant) -> Result<(), String> {
        loop {
            let now = self.crm.clock.now();
            self.schedule_goes_on()?;
            let due = self.daemon.wakes_at(self.clock.now()).map(|at| self.clock.true_time(at));
            let edits = self.edits_due_at(now);
            let repairs = self.repairs.iter().map(|(at, _)| *at);
            let next = repairs.chain(due).chain(edits).min();
            let next = next.unwrap_or(end).max(now.plus(Duration::from_secs(1)));
            if next > end {
                self.crm.clock.set(end.max(now));
                return Ok(());
            }
            self.crm.clock.set(next);
            self.repair_due(next).await;
            self.look_for_edits();
            self.work().await?;
        }
    }

    /// The next run by the schedule is never further away than its line says, also where clocks change.
    fn schedule_goes_on(&self) -> Result<(), String> {
        let now = self.clock.now();
        let Some(due) = self.daemon.next_changes(now) else { return Ok(()) };
        // Lines for every hour go on through a change of the clocks, by which half an hour may be missing.
        let change = if self.script.longest_wait <= 60 { 30 } else { 60 };
        let most = (self.script.longest_wait + change) * MINUTE;
        if due <= now || due.since(now) > most {
            return Err(self.failed(&format!("the next run for changes is due at {due}, and it is {now}")));
        }
        Ok(())
    }

    /// Something ends so many minutes from now; what would have ended the same thing before does not.
    fn repair_in(&mut self, minutes: u32, repair: Repair) {
        self.repairs.retain(|(_, other)| *other != repair);
        self.repairs.push((self.crm.clock.now().plus(minutes * MINUTE), repair));
    }

    async fn repair_due(&mut self, now: Instant) {
        let due: Vec<_> = self.repairs.extract_if(.., |(at, _)| *at <= now).collect();
        for (_, repair) in due {
            self.say(&format!("  repaired: {repair:?}"));
            match repair {
                Repair::Clock => {
                    self.clock.set_ahead(0);
                    self.daemon.clock_moved(self.clock.now());
                }
                Repair::Scopes => self.crm.sandbox.set_key(self.key(), &SCOPES),
                Repair::Key => {
                    self.keys += 1;
                    let key = format!("crm_test_v1_rotated{:04}", self.keys);
                    self.crm.sandbox.set_key(&key, &SCOPES);
                    self.mirror.key = Some(key);
                    self.close().await;
                    self.daemon.new_key(self.clock.now());
                }
                Repair::Reader => self.reader = None,
                Repair::Pause => self.daemon.request(DaemonRequest::Resume, self.clock.now()),
            }
        }
    }

    /// The key in the daemon's file.
    fn key(&self) -> &str {
        self.mirror.key.as_ref().unwrap_or(&self.crm.key)
    }

    /// Whether the key was revoked, and the next one is not there yet.
    fn is_keyless(&self) -> bool {
        self.repairs.iter().any(|(_, repair)| *repair == Repair::Key)
    }

    /// Carries out whatever the daemon wants to begin now.
    async fn work(&mut self) -> Result<(), String> {
        self.daemon.tick(self.clock.now());
        let mut runs = 0;
        loop {
            if self.daemon.clears_hold() {
                self.clear_hold().await;
            }
            let Some(job) = self.daemon.next_job() else { return Ok(()) };
            self.repair_due(self.crm.clock.now()).await;
            self.run(&job).await?;
            // Every run takes time: a clock that stands still would never reach what is due a nanosecond later.
            self.crm.clock.advance(Duration::from_millis(1));
            runs += 1;
            if runs > 50 {
                return Err(self.failed("the daemon begins one run after the other"));
            }
        }
    }

    async fn clear_hold(&mut self) {
        if let Ok(process) = self.opened(None).await {
            process.clear_hold().await;
        }
        self.daemon.maintained(self.clock.now());
    }

    async fn run(&mut self, job: &QueuedJob) -> Result<(), String> {
        let began = self.crm.clock.now();
        self.tally.runs += 1;
        let (kill, full_disk, locked) = (self.kill.take(), self.full_disk.take(), std::mem::take(&mut self.locked));
        self.tally.kills += u64::from(kill.is_some());
        if kill.is_some() {
            self.close().await;
        }
        let disk = full_disk.map(FullDisk::of);
        let lock = locked.then(|| process::lock_for_a_moment(&self.mirror.path)).flatten();
        let hides_records = self.before_requests();
        let result = match self.opened(kill).await {
            Ok(process) => process.engine.run(&job.job, job.trigger.into()).await,
            Err(error) => Err(error),
        };
        self.crm.sandbox.clear_hook();
        if hides_records {
            self.doubt(self.crm.clock.now());
        }
        lock.map(std::thread::JoinHandle::join);
        drop(disk);
        let empty_until = self.open.as_ref().and_then(Process::empty_until);
        // A daemon opens the file that is there now.
        let is_replaced = matches!(result, Err(SyncError::Store(StoreError::Replaced { .. })));
        if kill.is_some() || is_replaced {
            self.close().await;
        }
        if self.verbose {
            let ended = match &result {
                Ok(report) => format!("{:?} {:?}", report.outcome, report.suspension),
                Err(error) => format!("{error:?}"),
            };
            self.say(&format!("  {} ({} requests): {ended}", job.job.name(), self.crm.sandbox.log().len()));
            for entry in self.crm.sandbox.log().entries() {
                let asked = &entry.asked;
                eprintln!("      {} {} {:?} {:?} {:?}", entry.at, asked.method, asked.route, asked.query, entry.status);
            }
        }
        let settled = kill.is_none() && full_disk.is_none() && !locked;
        // Nobody knows a workspace again that has none of the records asked about: that is asked until a person decides.
        let is_another = matches!(result, Err(SyncError::OtherWorkspace { .. } | SyncError::NotRecognised { .. }));
        if !settled || began < self.disturbed_until || is_another {
            self.repeats.forget();
        }
        self.judge(began, &result, settled)?;
        self.during_run.lock().unwrap().found().map_err(|why| self.failed(&why))?;
        // A reader of a restored file keeps it from being opened, and the ledger beside it.
        let is_open = !matches!(result, Err(SyncError::Store(StoreError::Open { .. })));
        self.look(settled && is_open)?;
        let now = self.clock.now();
        if kill.is_some() {
            self.daemon.restart(now);
            self.daemon.tick(now);
        } else {
            let failed_steps = match &self.open {
                Some(process) => process.next_attempt_of_failed_steps(now).await,
                None => None,
            };
            let began = match &self.open {
                Some(process) => process.is_stored(job.job.clone()).await,
                None => false,
            };
            let began = began || result.as_ref().is_ok_and(|report| report.tally.rows > 0);
            self.daemon.ended(&job.job, &result, empty_until, failed_steps, (began, now));
        }
        Ok(())
    }

    /// Checks how a run behaved.
    pub(super) fn judge(
        &mut self,
        began: Instant,
        result: &Result<RunReport, SyncError>,
        settled: bool,
    ) -> Result<(), String> {
        let knows_a_record = !matches!(result, Err(SyncError::OtherWorkspace { .. })) || self.knows_a_record();
        let facts = RunFacts { began, result, settled, doubt_until: self.doubt_until, knows_a_record };
        let log = self.crm.sandbox.log();
        let reads_again = began < self.disturbed_until || self.mirror.limits.limit.get() < ending::FEW_UNITS;
        self.repeats.after_run(log.entries(), reads_again).map_err(|why| self.failed(&why))?;
        self.manners.after_run(&facts, &self.crm).map_err(|why| self.failed(&why))
    }

    /// Checks every invariant.
    fn look(&mut self, settled: bool) -> Result<(), String> {
        let (crm, mirror) = (&self.crm, &self.mirror);
        let looked = self.watch.after_run(self.script, crm, mirror, &self.edits, settled, self.doubts());
        looked.map_err(|why| self.failed(&why))?;
        if let Some(conn) = self.watch.connection() {
            self.private_edits.after_run(conn).map_err(|why| self.failed(&why))?;
            self.unseen.after_run(conn).map_err(|why| self.failed(&why))?;
        }
        if !self.conflicts.concern_any() {
            return Ok(());
        }
        let Some(conn) = self.watch.connection() else { return Ok(()) };
        if self.crm.clock.now() < self.doubt_until {
            self.conflicts.pass_over(conn);
            return Ok(());
        }
        self.conflicts.after_run(conn, &self.crm.sandbox).map_err(|why| self.failed(&why))
    }

    /// The open mirror; a process that is to be killed has one of its own.
    async fn opened(&mut self, kill: Option<u64>) -> Result<&Process, SyncError> {
        if self.open.is_none() {
            self.is_copied_file = false;
            self.open = Some(Process::open(&self.mirror, &self.crm, kill).await?);
        }
        match &self.open {
            Some(process) => Ok(process),
            None => unreachable!("it was opened"),
        }
    }

    async fn close(&mut self) {
        self.edit_watch = EditWatch::new(&self.mirror.path);
        if let Some(process) = self.open.take() {
            process.close().await;
        }
    }

    async fn happen(&mut self, what: &What) -> Result<(), String> {
        if let What::Return(_) = what {
            self.watch.claims.records_return(self.crm.clock.now());
        }
        self.has_tied |= matches!(what, What::TiedEdit(..));
        let now = self.clock.now();
        if what.loses_pages() {
            self.repeats.forget();
        }
        match what {
            What::Burst(from, seed) => self.burst = Some((*from, *seed)),
            What::SqlEmpty(which) => self.empty_in_sql(*which),
            What::Sql(which, number) => self.edit_in_sql(Some(*which), *number),
            What::SqlMany(number) => self.edit_in_sql(None, *number),
            What::SqlJunk(which) => self.write_junk(*which),
            What::TakeBack(which) => self.take_back(*which),
            What::SpoilEdit(which, number) => {
                if number.is_multiple_of(2) {
                    self.edit_in_sql(Some(*which), *number);
                }
                self.spoil_edit(*which);
            }
            What::Decide(which) => self.decide(*which),
            What::Undo(which) => self.undo(*which),
            What::Backup => self.back_up(),
            What::Copy => self.copy_file().await,
            What::Restore => self.restore().await,
            What::Rewind(hours) => self.rewind(*hours),
            What::LateBeside(v) => self.late_beside(*v).await?,
            What::Swap(v) => self.swap(*v).await?,
            What::EditBack(which, seconds) => self.edit_back(*which, *seconds),
            What::View(n) => self.make_view(*n),
            What::Pause(minutes) => {
                self.daemon.request(DaemonRequest::Pause, now);
                self.repair_in(*minutes, Repair::Pause);
            }
            What::ClearHold => {
                self.manners.hold_is_lost();
                self.daemon.request(DaemonRequest::ClearHold, now);
            }
            What::Resync | What::Verify => {
                self.repeats.intervals_begin_anew();
                self.daemon.ask(if matches!(what, What::Resync) { resync() } else { repair() }, now);
            }
            What::OtherWorkspace(which) if !self.is_keyless() => self.other_workspace(*which).await?,
            What::OtherProcess => {
                self.repeats.intervals_begin_anew();
                self.other_process().await?;
            }
            What::Trouble(..)
            | What::ClockJump(..)
            | What::Kill(_)
            | What::Junk(_)
            | What::ScopeLost(..)
            | What::KeyRotated(_)
            | What::CursorsDie
            | What::Budget(_)
            | What::DiskFull(_)
            | What::Locked
            | What::LongReader(_) => self.disturb(what).await,
            _ => self.crm.sandbox.with_world(|world| people::in_the_crm(world, what)),
        }
        Ok(())
    }
}
