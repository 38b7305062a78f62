//! The progress of a run, as lines of the log.

use std::sync::{Mutex, PoisonError};

use crate::daemon::progress_log::{self, ProgressLog};
use crate::model::Instant;
use crate::sync::{RunEvent, RunObserver};

/// Logs the events of runs.
#[derive(Debug, Default)]
pub struct ProgressLines(Mutex<ProgressLog>);

impl RunObserver for ProgressLines {
    fn on(&self, event: RunEvent) {
        let line = self.0.lock().unwrap_or_else(PoisonError::into_inner).line(&event, Instant::system_now());
        progress_log::log(&event, line);
    }
}
