//! The events of `GET /events`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::job::{JobResult, Trigger};
use crate::sync::RunEvent;

/// One event. Its JSON form is documented in `docs/interfaces.md`; members may be added, but not removed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    Queued {
        job: u64,
        work: Cow<'static, str>,
    },
    Started {
        job: u64,
        work: Cow<'static, str>,
        trigger: Trigger,
    },
    /// A run stopped at a page boundary so that an urgent job can run first; the job continues afterwards.
    Preempted {
        job: u64,
    },
    Finished {
        job: u64,
        #[serde(flatten)]
        result: JobResult,
    },
    Paused,
    Resumed,
    Reloaded,
    Stopping,
    Missed {
        lines: u64,
    },
    #[serde(untagged)]
    Run(RunEvent),
}
