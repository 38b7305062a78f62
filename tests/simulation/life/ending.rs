//! The end of a life: nothing disturbs it any more, or one thing does for ever.

use std::time::Duration;

use crm_mirror::model::{Clock, Instant, Object, Ru};
use crm_mirror::sync::Job;

use super::acceptance::has_records;
use super::{Life, MINUTE, never};
use crate::claims;
use crate::people;
use crate::script::What;
use crate::support::truth;

const HOUR: Duration = Duration::from_secs(3600);

const DAY: Duration = Duration::from_secs(86_400);

/// Request units of a day for polls and short lists, at the most.
const SCHEDULED: u64 = 100;
/// Request units for reading everything once, at the most.
const NEEDED: u64 = 800;

/// Request units of a window, and rows of a page, from which on the budget is expected to be enough: with less, a
/// comparison may begin again in each window. Such a budget must only begin to copy.
pub(super) const FEW_UNITS: u64 = 16;
const FEW_ROWS: usize = 5;
/// Days within which even few units copy a first record.
const PATIENCE: u32 = 40;
/// Request units of a day that are as good as no limit.
const UNLIMITED: u64 = 1_000;

/// The undisturbed time at the end.
const UNDISTURBED: Duration = Duration::from_secs(2 * 86_400 + 7_200);

/// The longest delay of an edit, and its runs.
const EDITS_NEED: Duration = Duration::from_secs(6 * 3600 + 1800);

/// Up to so many records of an object are all looked for with a new key; of more, a sample.
const SAMPLE: usize = 50;
/// If less than one in so many of them is left, a sample may contain none.
const FEW_LEFT: usize = 4;

/// How many differences a violation shows.
const SHOWN: usize = 6;

impl Life<'_> {
    /// Runs two days without disturbances, after which the mirror must be exact and every edit settled.
    pub(super) async fn end_well(&mut self) -> Result<(), String> {
        self.say("no disturbances from now on");
        never(self.script, &self.crm);
        self.manners.all_is_well(self.crm.clock.now());
        self.repairs.iter_mut().for_each(|(at, _)| *at = Instant::EPOCH);
        self.repair_due(self.crm.clock.now()).await;
        self.accept_at_last().await?;
        (self.kill, self.full_disk, self.locked) = (None, None, false);
        self.close().await;
        let slow = self.live_on_the_budget().await?;
        self.mirror.limits.limit = Ru::new(1_000_000);
        self.watch.budget = None;
        self.close().await;
        self.send_without_schedule().await?;
        self.until(self.crm.clock.now().plus(UNDISTURBED / 2)).await?;
        self.settle_edits().await?;
        self.until(self.crm.clock.now().plus(UNDISTURBED / 2)).await?;
        if let Some(missing) = slow
            && self.differences().is_empty()
        {
            let why = format!("the budget did not lead to an exact mirror, and two days without one did:\n  {missing}");
            return Err(self.failed(&why));
        }
        if self.script.is_calm {
            let twins: Vec<String> = {
                let (world, conn) = (self.crm.sandbox.world(), self.mirror.read());
                let twins = |object| claims::twins((&world, &conn), object, &claims::rows(&conn, object));
                Object::ALL.into_iter().flat_map(twins).collect()
            };
            self.expect_exact("after days of audits", |line| twins.iter().any(|id| line.contains(id)))?;
        }
        if self.differences().iter().any(|line| line.contains("which the service has not")) {
            // A removal refused by the guard needs a user's acceptance.
            self.close().await;
            let accept_workspace = self.script.frozen || self.is_unaccepted || !self.knows_a_record();
            let job = Job { accept_workspace, ..Job::resync().accepting_removals() };
            let accepted = self.mirror.run(&self.crm, &job).await;
            accepted.map_err(|error| self.failed(&format!("the last copy failed: {error:?}")))?;
            match accept_workspace {
                true => self.watch.rows_are_replaced(),
                false => self.watch.removals_were_accepted(),
            }
            // It also sent the edits that had waited for the person.
            self.look(true)?;
            // What its details showed is decided on in the next run.
            let next = self.mirror.run(&self.crm, &Job::sync()).await;
            next.map_err(|error| self.failed(&format!("the run after the last copy failed: {error:?}")))?;
            self.look(true)?;
            // More of those edits than the limit allows are held, and what the daemon then sends may be in conflict.
            for _ in 0..2 {
                self.settle_edits().await?;
                self.until(self.crm.clock.now().plus(EDITS_NEED)).await?;
            }
        }
        self.expect_exact("after two undisturbed days", |_| false)?;
        // The next run brings every change: no sweep of the night has to.
        for object in Object::ALL {
            self.crm.sandbox.with_world(|world| people::edit_a_few(world, object, 0));
        }
        self.until(self.crm.clock.now().plus(self.script.longest_wait * MINUTE + HOUR)).await?;
        self.expect_exact("after the next run for changes", |_| false)?;
        let whole = self.mirror.one("PRAGMA integrity_check");
        if whole != "'ok'" {
            return Err(self.failed(&format!("the file is not whole: {whole}")));
        }
        self.watch.edits(&self.crm, &self.mirror, &self.edits).map_err(|why| self.failed(&why))?;
        self.suffer_for_ever().await
    }

    /// Lives on the script's budget until the mirror is exact: a small budget only takes longer. Returns what still
    /// differs if that was not enough.
    async fn live_on_the_budget(&mut self) -> Result<Option<String>, String> {
        let a_day = self.script.budget.saturating_mul(DAY.as_secs() / self.script.window.as_secs());
        let to_spare = a_day.saturating_sub(SCHEDULED);
        let is_tiny = self.script.budget < FEW_UNITS || self.script.page_cap < FEW_ROWS || to_spare < NEEDED / 20;
        if a_day >= UNLIMITED {
            return Ok(None);
        }
        self.mirror.limits.limit = Ru::new(self.script.budget);
        if is_tiny {
            return self.begin_to_copy().await.map(|()| None);
        }
        let days = 2 + NEEDED.div_ceil(to_spare);
        for _ in 0..days {
            self.until(self.crm.clock.now().plus(DAY)).await?;
            if self.differences().is_empty() {
                return Ok(None);
            }
        }
        self.say("the budget was not enough");
        let mut differences = self.differences();
        differences.truncate(SHOWN);
        Ok(Some(differences.join("\n  ")))
    }

    /// Lives on few units until there are rows: nothing else may take all of the units for ever.
    async fn begin_to_copy(&mut self) -> Result<(), String> {
        for _ in 0..PATIENCE {
            if self.has_begun_to_copy() {
                return Ok(());
            }
            self.until(self.crm.clock.now().plus(DAY)).await?;
        }
        Err(self.failed(&format!("{PATIENCE} days of {} RU did not begin to copy", self.script.budget)))
    }

    fn has_begun_to_copy(&self) -> bool {
        let world = self.crm.sandbox.world();
        let there = |object: Object| world.count(object.resource()) > 0;
        self.connection().is_some_and(|conn| has_records(&conn)) || !Object::ALL.into_iter().any(there)
    }

    /// Whether the service still has enough of an object's records for a sample of the mirror to contain one. Otherwise a
    /// new key may be the key of another workspace, which only a person knows.
    pub(super) fn knows_a_record(&self) -> bool {
        let (conn, world) = (self.mirror.read(), self.crm.sandbox.world());
        Object::ALL.into_iter().any(|object| {
            let mut stmt = conn.prepare(&format!("SELECT id FROM {}", object.table())).unwrap();
            let ids: Vec<String> = stmt.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
            let there = ids.iter().filter(|id| world.etag(object, id).is_some()).count();
            there > 0 && (ids.len() <= SAMPLE || FEW_LEFT * there >= ids.len())
        })
    }

    /// Edits are sent without a schedule: when their delays are over, and not with the next run for changes.
    async fn send_without_schedule(&mut self) -> Result<(), String> {
        if self.script.frozen || !self.mirror.path.exists() {
            return Ok(());
        }
        self.until(self.crm.clock.now().plus(HOUR)).await?;
        // A record that the service has dated back from the future is found by a list only.
        self.daemon.ask(Job::sync(), self.clock.now());
        self.work().await?;
        self.daemon.schedule(self.script, false, self.clock.now());
        // A version that is refused says nothing about the object, whose delay begins again.
        for _ in 0..2 {
            if !people::waiting_edits(&self.mirror.read()).is_empty() {
                self.until(self.crm.clock.now().plus(EDITS_NEED)).await?;
            }
        }
        let waiting = people::waiting_edits(&self.mirror.read());
        self.daemon.schedule(self.script, true, self.clock.now());
        // A removal may have to be accepted by a person first.
        let world = self.crm.sandbox.world();
        let exists = |id: &str| Object::ALL.into_iter().any(|object| world.etag(object, id).is_some());
        match waiting.iter().find(|(record, _)| exists(record)) {
            Some((_, edit)) => Err(self.failed(&format!("edit {edit} still waits, and nothing delays it"))),
            None => Ok(()),
        }
    }

    fn differences(&self) -> Vec<String> {
        let mirror = self.mirror.read();
        let mut differences = truth::differences(&mirror, &self.crm.sandbox, self.script.details);
        // Definitions that are gone stay as archived ones.
        let is_archived = |line: &String| {
            let sql = "SELECT 1 FROM custom_field_definitions WHERE status = 'ARCHIVED'
                       AND ?1 = 'custom_field_definitions has ' || id || ', which the service has not'";
            mirror.prepare_cached(sql).unwrap().exists([line]).unwrap()
        };
        differences.retain(|line| !is_archived(line));
        differences
    }

    fn expect_exact(&self, when: &str, excused: impl Fn(&str) -> bool) -> Result<(), String> {
        let mut differences = self.differences();
        differences.retain(|line| !excused(line));
        if differences.is_empty() {
            return Ok(());
        }
        let shown = differences[..differences.len().min(SHOWN)].join("\n  ");
        Err(self.failed(&format!("{} differences {when}:\n  {shown}", differences.len())))
    }

    /// One thing fails for ever: the rest stays fresh, and all of it recovers by itself.
    async fn suffer_for_ever(&mut self) -> Result<(), String> {
        let begun = self
            .script
            .lasting
            .and_then(|lasting| self.crm.sandbox.with_world(|world| lasting.begin(world, self.script)));
        let Some(trouble) = begun else { return Ok(()) };
        self.say("for ever from now on");
        for rule in trouble.rules() {
            self.crm.sandbox.faults().add(rule);
        }
        if trouble.counts_rows() {
            self.crm.sandbox.configure(|settings| settings.counts_rows = true);
        }
        let (has_ties, before) = (trouble.has_ties(self.script), self.doubt_until);
        if trouble.cuts_lists() {
            self.doubt_until = self.crm.clock.now().plus(10 * DAY);
        }
        self.manners.watch_lasting(trouble);
        // What is claimed of the past was looked into.
        self.until(self.crm.clock.now().plus(HOUR)).await?;
        for turn in 0..10 {
            for object in Object::ALL {
                self.crm.sandbox.with_world(|world| people::edit_a_few(world, object, turn));
            }
            if has_ties && turn == 9 {
                self.crm.sandbox.with_world(|world| people::in_the_crm(world, &What::TiedEdit(100, turn)));
            }
            self.repeats.intervals_begin_anew();
            self.until(self.crm.clock.now().plus(3 * HOUR)).await?;
            if self.script.longest_wait <= 180 {
                // Soon enough to tell that from what a sweep reads in the night.
                let excused = |line: &str| self.manners.lasting().is_some_and(|trouble| trouble.excuses(line));
                self.expect_exact("three hours after changes, beside what fails for ever", excused)?;
            }
        }
        self.until(self.crm.clock.now().plus(12 * HOUR)).await?;
        let trouble = self.manners.end_lasting().map_err(|why| self.failed(&why))?;
        self.expect_exact("beside what fails for ever", |line| trouble.excuses(line))?;
        never(self.script, &self.crm);
        self.doubt_until = before;
        if trouble.ends_cursors() {
            self.forget_cursors();
        }
        self.until(self.crm.clock.now().plus(26 * HOUR)).await?;
        self.expect_exact("a day after what failed for ever", |_| false)
    }
}
