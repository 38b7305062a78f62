//! The events of a run: for log lines and the daemon's event stream.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::model::{Instant, Resource, Ru};

/// An event of a run. Its JSON form is documented in `docs/interfaces.md`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum RunEvent {
    /// Work on a resource starts.
    Begins {
        resource: Resource,
        /// The name of the step: "changes", "full copy", "sweep", "details".
        work: Cow<'static, str>,
        /// The expected number of rows, if it is known without a request.
        total: Option<u64>,
    },
    /// The service reported the number of rows of the current step.
    Total { resource: Resource, total: u64 },
    /// A page or a detail was stored.
    Stored {
        resource: Resource,
        /// Rows so far in this step.
        rows: u64,
        /// Request units charged so far in this run.
        ru: Ru,
    },
    /// The step ended, or was suspended.
    Ends { resource: Resource },
    /// Every request waits, because the service set a rate limit.
    Holding {
        /// The end of the hold, UTC.
        until: Instant,
    },
    /// A warning for the user, sent once.
    Warning { text: String },
}

pub trait RunObserver: Send + Sync {
    /// Receives an event; must not block.
    fn on(&self, event: RunEvent);
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl RunObserver for Silent {
    fn on(&self, _: RunEvent) {}
}
