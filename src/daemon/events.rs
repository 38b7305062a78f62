//! The events of `GET /events`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::job::Trigger;
use crate::app::Summary;
use crate::model::Object;
use crate::sync::Findings;
use crate::sync::events::RunEvent;

/// One event. Its JSON form is documented in `docs/interfaces.md`; members may be added, but not removed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    Queued {
        job: u64,
        /// `sync`, `resync`, `verify` or `push`.
        work: Cow<'static, str>,
    },
    Started {
        job: u64,
        /// `sync`, `resync`, `verify` or `push`.
        work: Cow<'static, str>,
        trigger: Trigger,
    },
    /// A run stopped at a page boundary so that an urgent job can run first; the job continues afterwards.
    Preempted {
        job: u64,
    },
    Finished {
        job: u64,
        /// The exit code that the verb has for this result.
        exit: u8,
        summary: Option<Box<Summary>>,
        found: Vec<(Object, Findings)>,
        error: Option<String>,
        /// The command or setting that fixes it.
        hint: Option<String>,
    },
    Paused,
    Resumed,
    Reloaded,
    Stopping,
    /// The listener was too slow and missed events.
    Missed {
        lines: u64,
    },
    #[serde(untagged)]
    Run(RunEvent),
}
