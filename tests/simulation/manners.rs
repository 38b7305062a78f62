//! How the mirror treats the service and its users: no request during a hold, a bounded number of requests for an edit
//! and for new columns, no internal error for what the service does, no scope reported missing that is there, and no
//! other workspace.

use std::collections::BTreeMap;
use std::time::Duration;

use crm_mirror::exit::Exit;
use crm_mirror::model::{Clock, Instant, Object, Resource};
use crm_mirror::sandbox::{LoggedRequest, Route};
use crm_mirror::store::RunOutcome;
use crm_mirror::sync::{RunReport, SyncError};

use crate::lasting::LastingTrouble;
use crate::script::Script;
use crate::support::Crm;
use crate::trouble::{STATUS_WITH_RETRY, Trouble};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// How many updates of a record within an hour are too many: those of edits that fail are 5.
const MAX_UPDATES: usize = 20;

/// What is known of a run that ended.
pub struct RunFacts<'a> {
    pub began: Instant,
    pub result: &'a Result<RunReport, SyncError>,
    /// Whether it was not killed, and could write.
    pub settled: bool,
    /// Until when lists or clocks give a picture that is wrong in itself.
    pub doubt_until: Instant,
    /// Whether the service has enough records of the mirror for a sample to contain one.
    pub knows_a_record: bool,
}

/// A wait that answers with this status ask for, and when they do.
struct AskedWait {
    status: u16,
    from: Instant,
    until: Instant,
    wait: Duration,
}

/// What was seen so far.
pub struct Manners {
    /// Whether the mirror's file may be of another workspace.
    is_foreign: bool,
    /// The largest page of the service.
    page_cap: usize,
    waits: Vec<AskedWait>,
    hold_until: Option<Instant>,
    /// How many requests may be under way at once.
    concurrency: u32,
    /// How many may still arrive that were sent before the answer that asks to wait was read: the others that were under
    /// way, and those that followed when their answers were read first.
    on_their_way: u32,
    /// Until when the key may lack a scope, or be refused.
    forbidden_until: Instant,
    /// Since when no known record is found.
    unrecognised_since: Option<Instant>,
    /// The updates of each record within the last hour.
    updates: BTreeMap<String, Vec<Instant>>,
    /// What fails for ever, and the requests to it within the last day.
    lasting: Option<(LastingTrouble, Vec<Instant>)>,
}

impl Manners {
    pub fn new(script: &Script) -> Manners {
        Manners {
            is_foreign: script.frozen,
            page_cap: script.page_cap,
            waits: Vec::new(),
            hold_until: None,
            concurrency: script.concurrency,
            on_their_way: 0,
            forbidden_until: Instant::EPOCH,
            unrecognised_since: None,
            updates: BTreeMap::new(),
            lasting: None,
        }
    }

    /// The service begins to misbehave.
    pub fn trouble(&mut self, trouble: &Trouble, from: Instant, until: Instant) {
        let (status, seconds) = match trouble {
            Trouble::RateLimit(seconds, _) => (429, *seconds),
            Trouble::RetryAfter(seconds, _) => (STATUS_WITH_RETRY, *seconds),
            Trouble::Status(401 | 403, _) => return self.forbidden_until(until),
            _ => return,
        };
        self.waits.push(AskedWait { status, from, until, wait: Duration::from_secs(seconds) });
    }

    /// The key lacks a scope, or is refused.
    pub fn forbidden_until(&mut self, until: Instant) {
        self.forbidden_until = self.forbidden_until.max(until);
    }

    /// A person ended the hold, or its entry in the file is lost.
    pub fn hold_is_lost(&mut self) {
        self.hold_until = None;
    }

    /// The key is of another workspace from now on.
    pub fn workspace_is_another(&mut self) {
        self.is_foreign = true;
    }

    /// The service behaves well from now on.
    pub fn all_is_well(&mut self, now: Instant) {
        self.waits.clear();
        self.forbidden_until = now;
    }

    /// Something fails for ever from now on.
    pub fn watch_lasting(&mut self, trouble: LastingTrouble) {
        self.lasting = Some((trouble, Vec::new()));
    }

    /// What fails for ever.
    pub fn lasting(&self) -> Option<&LastingTrouble> {
        self.lasting.as_ref().map(|(trouble, _)| trouble)
    }

    /// What failed for ever, unless too much was asked of it.
    pub fn end_lasting(&mut self) -> Result<LastingTrouble, String> {
        let (trouble, asked) = self.lasting.take().ok_or("nothing fails for ever")?;
        if asked.len() > trouble.most_a_day() {
            let most = trouble.most_a_day();
            return Err(format!("{} requests a day to what fails for ever; {most} are the bound", asked.len()));
        }
        Ok(trouble)
    }

    /// Looks at the log and the result after a run, before the log is cleared.
    pub fn after_run(&mut self, run: &RunFacts<'_>, crm: &Crm) -> Result<(), String> {
        let (log, now) = (crm.sandbox.log(), crm.clock.now());
        self.waits.retain(|wait| wait.until.plus(DAY) > now);
        for entry in log.entries() {
            self.hold(entry)?;
            self.update(entry)?;
            if let Some((trouble, asked)) = &mut self.lasting
                && trouble.concerns(entry)
            {
                asked.retain(|at| entry.at.since(*at) < DAY);
                asked.push(entry.at);
            }
        }
        if let Err(SyncError::NotRecognised { .. }) = run.result {
            _ = self.unrecognised_since.get_or_insert(run.began);
        }
        if !run.settled {
            // What it wanted to store may be lost.
            self.hold_is_lost();
            return Ok(());
        }
        self.workspace(run, now)?;
        self.fills(log.entries(), crm)?;
        self.exit(run, log.entries())
    }

    /// However many columns have to be filled, a run pays for about one list of all records, and one for long texts. Pages of
    /// one row look for a record that cannot be read.
    fn fills(&self, log: &[LoggedRequest], crm: &Crm) -> Result<(), String> {
        // A sweep pages the records without a `createdAt` by such a filter, too.
        let is_of_field = |name: &str| name.starts_with("filter[customFields.") && name.ends_with("[isNull]");
        let asks_for_values = |entry: &&LoggedRequest| entry.asked.query.iter().any(|(name, _)| is_of_field(name));
        let is_page = |entry: &&LoggedRequest| entry.status == Some(200) && entry.asked.param("limit") != Some("1");
        let asked = log.iter().filter(is_page).filter(asks_for_values).count();
        let records = Object::ALL.map(|object| crm.sandbox.world().count(object.resource()));
        let most: usize = records.iter().map(|records| 3 * (records / self.page_cap + 1) + 10).sum();
        if asked > most {
            return Err(format!("{asked} requests filled columns in a run; {most} are the bound"));
        }
        Ok(())
    }

    /// No request is sent during a hold.
    fn hold(&mut self, entry: &LoggedRequest) -> Result<(), String> {
        // Holds are stored in microseconds.
        let is_within = |until: &Instant| until.since(entry.at) >= Duration::from_micros(1);
        if let Some(until) = self.hold_until.filter(is_within) {
            let Some(others) = self.on_their_way.checked_sub(1) else {
                return Err(format!("a request was sent at {}, and the service asked to wait until {until}", entry.at));
            };
            self.on_their_way = others;
        }
        let asked = self.waits.iter().filter(|wait| Some(wait.status) == entry.status);
        let asked = asked.filter(|wait| wait.from <= entry.at && entry.at < wait.until).map(|wait| wait.wait).min();
        if asked.is_some() && !self.hold_until.is_some_and(|until| is_within(&until)) {
            self.on_their_way = 2 * self.concurrency.saturating_sub(1);
        }
        self.hold_until = asked.map(|wait| entry.at.plus(wait)).max(self.hold_until);
        Ok(())
    }

    /// An edit that fails is not sent again and again.
    fn update(&mut self, entry: &LoggedRequest) -> Result<(), String> {
        let Route::One(_, id) = &entry.asked.route else { return Ok(()) };
        if entry.asked.method != "PATCH" || entry.changed {
            return Ok(());
        }
        let updates = self.updates.entry(id.clone()).or_default();
        updates.retain(|at| entry.at.since(*at) < HOUR);
        updates.push(entry.at);
        if updates.len() > MAX_UPDATES {
            return Err(format!("{} updates of {id} failed within an hour", updates.len()));
        }
        Ok(())
    }

    /// Another workspace is concluded from two looks at different times only.
    fn workspace(&mut self, run: &RunFacts<'_>, now: Instant) -> Result<(), String> {
        match run.result {
            // Nobody knows a workspace again that has none, or few, of the mirror's records.
            Err(SyncError::OtherWorkspace { .. }) if !self.is_foreign && run.knows_a_record => {
                let looked_before = self.unrecognised_since.is_some_and(|since| now.since(since) >= HOUR);
                if !looked_before || run.began >= run.doubt_until {
                    return Err("the mirrored workspace was taken for another one".into());
                }
            }
            Ok(report) if report.outcome != RunOutcome::Suspended => self.unrecognised_since = None,
            _ => {}
        }
        Ok(())
    }

    /// What the service does is no internal error, no wrong configuration, and no missing scope unless one is missing.
    fn exit(&self, run: &RunFacts<'_>, log: &[LoggedRequest]) -> Result<(), String> {
        let said = |error: &SyncError| format!("a run ended with {:?}: {error:?}", Exit::of_sync(error));
        let forbidden = run.began <= self.forbidden_until;
        match run.result {
            // What is not asked again yet is as it was.
            Ok(report) if !forbidden && report.missing_scopes.iter().any(|missing| was_asked(log, *missing)) => {
                Err(format!("{:?} are reported missing, and the key has them", report.missing_scopes))
            }
            Err(error) => {
                let status = match error {
                    SyncError::Api { source, .. } => source.status(),
                    _ => None,
                };
                match Exit::of_sync(error) {
                    Exit::Internal => Err(said(error)),
                    Exit::Config if !matches!(status, Some(301 | 308)) && !self.is_foreign => match error {
                        SyncError::OtherWorkspace { .. } => Ok(()),
                        _ => Err(said(error)),
                    },
                    Exit::KeyRefused if !forbidden => Err(said(error)),
                    _ => Ok(()),
                }
            }
            Ok(_) => Ok(()),
        }
    }
}

fn was_asked(log: &[LoggedRequest], (resource, scope): (Resource, &str)) -> bool {
    let of_scope = |entry: &&LoggedRequest| scope.ends_with(":write") == (entry.asked.method == "PATCH");
    log.iter().filter(of_scope).any(|entry| match &entry.asked.route {
        Route::List(of) => *of == resource,
        Route::One(object, _) => object.resource() == resource,
        Route::Unknown => false,
    })
}
