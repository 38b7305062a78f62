//! Jobs: what the daemon carries out, in which order, and how a run of one ended.

use crate::model::{Instant, Resource};
use crate::sync::{Acceptance, Job as SyncJob, Selection, Suspension};

use super::timetable::Kind;

/// What a job does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Changes, then whatever is under way: sweeps, details.
    Sync {
        /// What to bring up to date; everything if empty.
        objects: Vec<Resource>,
        /// Whether whatever is gone may go, however much it is.
        accept_removals: bool,
    },
    /// Every record.
    Resync {
        /// What to read; everything if empty.
        objects: Vec<Resource>,
        /// Whether whatever is gone may go, however much it is.
        accept_removals: bool,
    },
    /// The mirror compared with the service.
    Verify {
        /// Contacts, companies or both if empty.
        objects: Vec<Resource>,
        /// Whether to compare every record instead of counting.
        full: bool,
        /// Whether to repair what differs.
        repair: bool,
        /// Whether whatever is gone may be removed, however much it is.
        accept_removals: bool,
    },
    /// Local edits.
    Push,
}

impl Work {
    /// Everything, as far as it changed.
    pub const SYNC: Work = Work::Sync { objects: Vec::new(), accept_removals: false };

    /// What is done when a kind is due.
    pub const fn of(kind: Kind) -> Work {
        match kind {
            Kind::Changes => Work::SYNC,
            Kind::Audit => Work::Verify { objects: Vec::new(), full: false, repair: true, accept_removals: false },
            Kind::Sweep => Work::Resync { objects: Vec::new(), accept_removals: false },
        }
    }

    /// The word for people and JSON.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Work::Sync { .. } => "sync",
            Work::Resync { .. } => "resync",
            Work::Verify { .. } => "verify",
            Work::Push => "push",
        }
    }

    /// The job of a run, within what the configuration names.
    pub(super) fn job(&self, configured: Option<&[Resource]>) -> SyncJob {
        let accepting = |removals: bool| Acceptance { removals, workspace: false };
        let (job, objects, accept) = match self {
            Work::Sync { objects, accept_removals } => (SyncJob::sync(), &objects[..], accepting(*accept_removals)),
            Work::Resync { objects, accept_removals } => (SyncJob::resync(), &objects[..], accepting(*accept_removals)),
            Work::Verify { objects, full, repair, accept_removals } => {
                let (full, repair, accept) = (*full, *repair, accepting(*accept_removals));
                (SyncJob::Verify { objects: Selection::All, full, repair, accept }, &objects[..], accept)
            }
            Work::Push => return SyncJob::Push,
        };
        let job = job.accepting(accept);
        // What the configuration no longer names by now is left out.
        job.clone()
            .of(objects)
            .within(configured)
            .unwrap_or_else(|_| job.about(Selection::Configured(configured.unwrap_or_default().to_vec())))
    }

    /// Whether a run can end at a page's boundary and go on later for nothing.
    pub(super) const fn can_yield(&self) -> bool {
        matches!(self, Work::Sync { .. } | Work::Resync { .. })
    }

    /// Whether whatever is gone may go.
    pub(super) const fn accepts_removals(&self) -> bool {
        matches!(self, Work::Sync { accept_removals: true, .. } | Work::Resync { accept_removals: true, .. })
    }

    /// What is left of this work after a run of it was ended early. A sweep that has begun, or was asked for, is noted in
    /// the mirror: whatever brings the changes goes on with it too, so that one run serves both.
    pub(super) fn rest(&self) -> Work {
        Work::Sync { objects: Vec::new(), accept_removals: self.accepts_removals() }
    }
}

/// Who wanted a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The timetable.
    Schedule,
    /// A person.
    Manual,
}

impl Trigger {
    /// The word in `sync_runs`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Trigger::Schedule => "schedule",
            Trigger::Manual => "manual",
        }
    }
}

/// A job: one piece of work, in one run or in several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number, since the daemon began.
    pub id: u64,
    /// What it does.
    pub work: Work,
    /// Who wanted it.
    pub trigger: Trigger,
}

impl Job {
    /// The place in the queue: lower goes first, and those of one rank in the order in which they came. Edits before
    /// people, people before the clock.
    pub(super) const fn rank(&self) -> u8 {
        match (&self.work, self.trigger) {
            (Work::Push, _) => 0,
            (_, Trigger::Manual) => 1,
            (_, Trigger::Schedule) => 2,
        }
    }
}

/// How a run ended, as far as the daemon has to decide by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How.
    pub end: End,
    /// When the budget refills, if nothing of it is left.
    pub empty_until: Option<Instant>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It did what it was to do, or found what only a person can decide.
    Done,
    /// It ended early and goes on where it was.
    Paused(Suspension),
    /// It failed.
    Failed {
        /// What kind of failure it was.
        failing: Failing,
        /// What happened, in a line.
        why: String,
    },
}

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// The key is refused, or may do nothing of what was asked.
    Key,
    /// The service or the disk, or a mistake of ours: it may mend itself.
    Passing,
    /// The configuration: going on would be wrong.
    Config,
}
