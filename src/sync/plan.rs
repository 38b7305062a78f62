//! What a run is to do, how runs behave, and what a run reports.

use std::time::Duration;

use super::error::Pause;
use crate::model::{Object, Resource};
use crate::outbox::PushTally;
use crate::store::{RunOutcome, Tally};
use crate::sync::walks::sweep::Outage;

/// How runs behave.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How far a changes walk reads back, for rows that were committed late.
    pub overlap: Duration,
    /// Whether details are read at all.
    pub details: bool,
    /// How many requests may be under way at once.
    pub concurrency: u32,
    /// The part of a table that may go at once without a person's word.
    pub most_removals: f64,
    /// How long `changes`, `removed_records`, `audits` and `sync_runs` remember; for ever where it is `None`.
    pub retention: Option<Duration>,
    /// The age from which details are read again when there are request units to spare; never where it is `None`.
    pub detail_max_age: Option<Duration>,
    /// Whether a person said that another workspace may take this mirror's place.
    pub accept_workspace: bool,
    /// Whether edits of the mirror are taken and sent.
    pub write_back: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            overlap: Duration::from_secs(60),
            details: true,
            concurrency: 4,
            most_removals: 0.2,
            retention: Some(Duration::from_secs(365 * 86_400)),
            detail_max_age: Some(Duration::from_secs(30 * 86_400)),
            accept_workspace: false,
            write_back: false,
        }
    }
}

/// What a run is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What to bring up to date; everything if empty.
    pub resources: Vec<Resource>,
    /// Whether a person named these: then they are read even where they are not due.
    pub by_name: bool,
    /// Whether to read every record, whatever its age.
    pub resync: bool,
    /// Whether whatever is gone may go, however much it is.
    pub accept_removals: bool,
    /// Whether only local edits are sent, and nothing is read that they do not need.
    pub only_push: bool,
}

impl Plan {
    /// Everything, as far as it changed.
    pub fn sync() -> Plan {
        Plan { resources: Vec::new(), by_name: false, resync: false, accept_removals: false, only_push: false }
    }

    /// Everything, whole.
    pub fn resync() -> Plan {
        Plan { resync: true, ..Plan::sync() }
    }

    /// Only the local edits that wait to be sent, where `Settings::write_back` allows it.
    pub fn push() -> Plan {
        Plan { only_push: true, ..Plan::sync() }
    }

    /// Only these, named by a person.
    #[must_use]
    pub fn of(mut self, resources: &[Resource]) -> Plan {
        self.by_name = true;
        self.resources = resources.to_vec();
        self
    }

    /// Only these, as they are due.
    #[must_use]
    pub fn within(mut self, resources: &[Resource]) -> Plan {
        self.by_name = false;
        self.resources = resources.to_vec();
        self
    }

    /// Only what was named, else what the configuration names.
    ///
    /// # Errors
    /// What was named and is not among what the configuration names.
    pub fn limited(self, named: &[Resource], configured: Option<&[Resource]>) -> Result<Plan, Resource> {
        if named.is_empty() {
            return Ok(match configured {
                Some(configured) => self.within(configured),
                None => self,
            });
        }
        match named.iter().find(|r| configured.is_some_and(|c| !c.contains(r))) {
            None => Ok(self.of(named)),
            Some(other) => Err(*other),
        }
    }

    pub(super) fn names(&self, resource: Resource) -> bool {
        self.by_name && self.resources.contains(&resource)
    }

    pub(super) fn wants(&self, resource: Resource) -> bool {
        self.resources.is_empty() || self.resources.contains(&resource)
    }

    /// The word in `sync_runs`.
    pub const fn kind(&self) -> &'static str {
        match (self.only_push, self.resync) {
            (true, _) => "push",
            (false, true) => "resync",
            (false, false) => "sync",
        }
    }
}

/// How a run ended and what it did.
#[derive(Clone, Debug)]
pub struct Report {
    /// The run's number in `sync_runs`.
    pub run: i64,
    /// How it ended.
    pub outcome: RunOutcome,
    /// Why it stopped early, if it will go on by itself.
    pub pause: Option<Pause>,
    /// What it did.
    pub tally: Tally,
    /// What became of local edits.
    pub push: PushTally,
    /// Resources that the key may not read or write, with the scope that is missing.
    pub missing_scopes: Vec<(Resource, &'static str)>,
    /// Objects whose sweep looked like an outage.
    pub outages: Vec<(Object, Outage)>,
    /// Details still due.
    pub pending_details: u64,
    /// What a person should know.
    pub warnings: Vec<String>,
}
