//! One simulated life: runs a script against the real engine and the daemon's state machine.

mod acts;

use std::sync::Arc;
use std::time::Duration;

use crm_mirror::daemon::machine_input::DaemonRequest;
use crm_mirror::model::{Clock, Instant, Ru};
use crm_mirror::sandbox::{CursorKind, SCOPES};
use crm_mirror::sync::{Acceptance, Job, Selection, SyncError};
use rusqlite::Connection;

use crate::daemon::{Daemon, Maintenance, repair, resync};
use crate::invariants::Watch;
use crate::people::{self, Edits};
use crate::process::{self, FullDisk, Process};
use crate::script::{Script, What};
use crate::support::clock::WrongClock;
use crate::support::{Crm, Mirror};
use crate::trouble::Trouble;

const MINUTE: Duration = Duration::from_secs(60);
/// The undisturbed time at the end.
const UNDISTURBED: Duration = Duration::from_secs(2 * 86_400 + 7_200);

/// Mirrors as older programs wrote them.
const FROZEN: [&str; crate::script::UPGRADES] = [
    include_str!("../schema/v1.sql"),
    include_str!("../schema/v2.sql"),
    include_str!("../schema/v3.sql"),
    include_str!("../schema/v4.sql"),
    include_str!("../schema/v5.sql"),
    include_str!("../schema/v6.sql"),
    include_str!("../schema/v7.sql"),
    include_str!("../schema/v8.sql"),
];

/// Counts of what happened.
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

    /// All of it in a line.
    pub fn line(&self) -> String {
        let Tally { days, runs, requests, ru, edits, kills } = self;
        format!("{days} days, {runs} runs, {requests} requests, {ru} RU, {edits} edits, {kills} kills")
    }
}

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
    watch: Watch,
    edits: Edits,
    /// What befalls the next run: its death before a commit, a full disk, a locked file.
    kill: Option<u64>,
    full_disk: Option<u32>,
    locked: bool,
    repairs: Vec<(Instant, Repair)>,
    reader: Option<Connection>,
    keys: u32,
    /// Until when lists or clocks give a picture that is wrong in itself.
    doubt_until: Instant,
    tally: Tally,
    verbose: bool,
}

/// Runs a script. The error names the violated invariant and the time.
pub async fn live(script: &Script, verbose: bool) -> Result<Tally, String> {
    process::survive_full_disks();
    let start: Instant = script.start.parse().unwrap();
    let mut life = Life::begin(script, start, verbose).await;
    life.work().await?;
    for event in &script.events {
        life.until(start.plus(event.minute * MINUTE)).await?;
        life.say(&format!("{:?}", event.what));
        life.happen(&event.what).await?;
        life.work().await?;
    }
    life.until(start.plus(script.days * 1440 * MINUTE)).await?;
    life.end_well().await?;
    life.tally.requests = life.watch.requests;
    life.tally.ru = life.watch.charged;
    life.tally.edits = life.edits.len() as u64;
    Ok(life.tally)
}

/// A directory in memory if the machine has one; otherwise the test waits for the disk.
fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn accepting(script: &Script) -> Job {
    let accept = Acceptance { removals: true, workspace: script.upgrade.is_some() };
    Job::Resync { objects: Selection::All, accept }
}

impl<'a> Life<'a> {
    async fn begin(script: &'a Script, start: Instant, verbose: bool) -> Life<'a> {
        let crm = Crm::serve(people::world(script, start)).await;
        crm.clock.set(start);
        crm.sandbox.faults().seed(script.seed);
        crm.sandbox.configure(|settings| {
            settings.page_cap = Some(script.page_cap);
            settings.cursors = if script.offsets { CursorKind::Offset } else { CursorKind::Keyset };
            settings.gzip = script.gzip;
        });
        let clock = WrongClock::new(crm.clock.clone());
        let mut mirror = Mirror::one_at_a_time_in(disk());
        mirror.settings.write_back = true;
        mirror.settings.max_edits = script.max_edits;
        mirror.tries = 3;
        mirror.limits.limit = Ru::new(script.budget);
        mirror.clock = Some(Arc::new(clock.clone()));
        if let Some(version) = script.upgrade {
            Connection::open(&mirror.path).unwrap().execute_batch(FROZEN[version]).unwrap();
        }
        Life {
            script,
            watch: Watch::of(&mirror, script.budget),
            crm,
            mirror,
            clock,
            daemon: Daemon::new(script, start),
            open: None,
            edits: Edits::default(),
            kill: None,
            full_disk: None,
            locked: false,
            repairs: Vec::new(),
            reader: None,
            keys: 0,
            doubt_until: start,
            tally: Tally { days: u64::from(script.days) + 2, ..Tally::default() },
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
            let due = self.daemon.wakes_at(self.clock.now()).map(|at| self.clock.true_time(at));
            let repairs = self.repairs.iter().map(|(at, _)| *at);
            let next = repairs.chain(due).min().unwrap_or(end).max(now.plus(Duration::from_secs(1)));
            if next > end {
                self.crm.clock.set(end.max(now));
                return Ok(());
            }
            self.crm.clock.set(next);
            self.repair_due(next).await;
            self.work().await?;
        }
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
            for what in self.daemon.maintenance() {
                self.maintain(what).await;
            }
            let Some(job) = self.daemon.next_job() else { return Ok(()) };
            self.run(&job).await?;
            runs += 1;
            if runs > 50 {
                return Err(self.failed("the daemon begins one run after the other"));
            }
        }
    }

    async fn maintain(&mut self, what: Maintenance) {
        if let Ok(process) = self.opened(None).await {
            match what {
                // What cannot be written now is met again by the next run.
                Maintenance::ForgetSweeps => drop(process.engine.forget_sweeps().await),
                Maintenance::ClearHold => process.clear_hold().await,
            }
        }
        self.daemon.maintained(self.clock.now());
    }

    async fn run(&mut self, job: &Job) -> Result<(), String> {
        self.tally.runs += 1;
        let (kill, full_disk, locked) = (self.kill.take(), self.full_disk.take(), std::mem::take(&mut self.locked));
        self.tally.kills += u64::from(kill.is_some());
        if kill.is_some() {
            self.close().await;
        }
        let disk = full_disk.map(FullDisk::of);
        let lock = locked.then(|| process::lock_for_a_moment(&self.mirror.path)).flatten();
        let result = match self.opened(kill).await {
            Ok(process) => process.engine.run(job, "test").await,
            Err(error) => Err(error),
        };
        lock.map(std::thread::JoinHandle::join);
        drop(disk);
        let empty_until = self.open.as_ref().and_then(Process::empty_until);
        if kill.is_some() {
            self.close().await;
        }
        if self.verbose {
            let ended = match &result {
                Ok(report) => format!("{:?} {:?}", report.outcome, report.suspension),
                Err(error) => format!("{error:?}"),
            };
            self.say(&format!("  {} ({} requests): {ended}", job.kind(), self.crm.sandbox.log().len()));
        }
        self.look(kill.is_none() && full_disk.is_none())?;
        let now = self.clock.now();
        if kill.is_some() {
            self.daemon.restart(now);
            self.daemon.tick(now);
        } else {
            self.daemon.ended(&result, empty_until, now);
        }
        Ok(())
    }

    /// Checks every invariant.
    fn look(&mut self, settled: bool) -> Result<(), String> {
        let (crm, mirror) = (&self.crm, &self.mirror);
        let looked = self.watch.after_run(self.script, crm, mirror, &self.edits, settled, self.doubt_until);
        looked.map_err(|why| self.failed(&why))
    }

    /// The open mirror; a process that is to be killed has one of its own.
    async fn opened(&mut self, kill: Option<u64>) -> Result<&Process, SyncError> {
        if self.open.is_none() {
            self.open = Some(Process::open(&self.mirror, &self.crm, kill).await?);
        }
        match &self.open {
            Some(process) => Ok(process),
            None => unreachable!("it was opened"),
        }
    }

    async fn close(&mut self) {
        if let Some(process) = self.open.take() {
            process.close().await;
        }
    }

    /// Runs two days without disturbances, after which the mirror must be exact and every edit settled.
    async fn end_well(&mut self) -> Result<(), String> {
        self.say("no disturbances from now on");
        self.crm.sandbox.faults().clear();
        self.repairs.iter_mut().for_each(|(at, _)| *at = Instant::EPOCH);
        self.repair_due(self.crm.clock.now()).await;
        (self.kill, self.full_disk, self.locked) = (None, None, false);
        self.mirror.limits.limit = Ru::new(1_000_000);
        self.watch.budget = None;
        self.close().await;
        self.until(self.crm.clock.now().plus(UNDISTURBED / 2)).await?;
        self.settle_edits().await?;
        self.until(self.crm.clock.now().plus(UNDISTURBED / 2)).await?;
        if self.mirror.differences(&self.crm).iter().any(|line| line.contains("which the service has not")) {
            // A removal refused by the guard needs a user's acceptance.
            self.close().await;
            let accepted = self.mirror.run(&self.crm, &accepting(self.script)).await;
            accepted.map_err(|error| self.failed(&format!("the last copy failed: {error:?}")))?;
        }
        let differences = self.mirror.differences(&self.crm);
        if !differences.is_empty() {
            let shown = differences[..differences.len().min(6)].join("\n  ");
            let count = differences.len();
            return Err(self.failed(&format!("{count} differences after two undisturbed days:\n  {shown}")));
        }
        let whole = self.mirror.one("PRAGMA integrity_check");
        if whole != "'ok'" {
            return Err(self.failed(&format!("the file is not whole: {whole}")));
        }
        self.watch.edits(&self.crm, &self.mirror, &self.edits).map_err(|why| self.failed(&why))
    }

    async fn happen(&mut self, what: &What) -> Result<(), String> {
        let now = self.clock.now();
        match what {
            What::Sql(which, number) => self.edit_in_sql(Some(*which), *number),
            What::SqlMany(number) => self.edit_in_sql(None, *number),
            What::Decide(which) => self.decide(*which),
            What::Undo(which) => self.undo(*which),
            What::Backup => self.back_up(),
            What::Restore => self.restore().await,
            What::View(n) => self.make_view(*n),
            What::Pause(minutes) => {
                self.daemon.request(DaemonRequest::Pause, now);
                self.repair_in(*minutes, Repair::Pause);
            }
            What::ClearHold => self.daemon.request(DaemonRequest::ClearHold, now),
            What::StopSweeps => self.daemon.request(DaemonRequest::StopSweeps, now),
            What::Resync => self.daemon.ask(resync(), now),
            What::Verify => self.daemon.ask(repair(), now),
            What::OtherProcess => self.other_process().await?,
            What::Trouble(..)
            | What::ClockJump(..)
            | What::Kill(_)
            | What::Junk(_)
            | What::ScopeLost(..)
            | What::KeyRotated(_)
            | What::Budget(_)
            | What::DiskFull(_)
            | What::Locked
            | What::LongReader(_) => self.disturb(what).await,
            _ => self.crm.sandbox.with_world(|world| people::in_the_crm(world, what)),
        }
        Ok(())
    }

    async fn disturb(&mut self, what: &What) {
        let now = self.crm.clock.now();
        match what {
            What::Trouble(trouble, minutes) => self.trouble(trouble, *minutes),
            What::ClockJump(seconds, minutes) => {
                self.clock.set_ahead(*seconds);
                self.doubt_until = self.doubt_until.max(now.plus(*minutes * MINUTE));
                self.repair_in(*minutes, Repair::Clock);
                self.daemon.clock_moved(self.clock.now());
            }
            What::Kill(commits) => self.kill = Some(u64::from(*commits)),
            What::Junk(which) if self.mirror.path.exists() => {
                let name = self.mirror.spoil_state(*which);
                self.say(&format!("  the state entry {name:?}"));
            }
            What::ScopeLost(lost, minutes) if !self.is_keyless() => {
                let scopes: Vec<&str> = SCOPES.into_iter().filter(|scope| scope != lost).collect();
                self.crm.sandbox.set_key(self.key(), &scopes);
                self.repair_in(*minutes, Repair::Scopes);
            }
            What::KeyRotated(minutes) => {
                self.repairs.retain(|(_, repair)| *repair != Repair::Scopes);
                self.crm.sandbox.revoke_key(self.key());
                self.repair_in(*minutes, Repair::Key);
            }
            What::Budget(units) => {
                // What the old one allowed may have been spent.
                self.watch.budget = self.watch.budget.map(|before| before.max(*units));
                self.mirror.limits.limit = Ru::new(*units);
                self.close().await;
            }
            What::DiskFull(kib) => self.full_disk = Some(*kib),
            What::Locked => self.locked = true,
            What::LongReader(minutes) => {
                self.reader = process::read_for_long(&self.mirror.path);
                self.repair_in(*minutes, Repair::Reader);
            }
            _ => {}
        }
    }

    fn trouble(&mut self, trouble: &Trouble, minutes: u32) {
        let now = self.crm.clock.now();
        if trouble.deceives() {
            self.doubt_until = self.doubt_until.max(now.plus(minutes * MINUTE));
        }
        let rule = self.crm.sandbox.with_world(|world| trouble.rule(world, now, minutes));
        if let Some(rule) = rule {
            self.crm.sandbox.faults().add(rule);
        }
    }
}
