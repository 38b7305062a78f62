//! Ends what takes too long: first by SQLite's means, then by the caller's.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::InterruptHandle;

use crate::store::Reader;

/// How long an interrupted statement may take to end. Inside a function SQLite does not look whether it was interrupted.
const GRACE: Duration = Duration::from_secs(1);

pub struct Watchdog {
    watched: Arc<Mutex<WatchedWork>>,
    _ends: Sender<()>,
}

#[derive(Default)]
struct WatchedWork {
    statements: Option<InterruptHandle>,
    is_over: bool,
}

impl Watchdog {
    /// After `limit` the statements of a reader are interrupted; if the work goes on, `give_up` is called, which ends
    /// the process in some way. It is never called once the work is over.
    pub fn start(limit: Duration, give_up: impl FnOnce() + Send + 'static) -> Watchdog {
        let (ends, ended) = channel::<()>();
        let watched = Arc::new(Mutex::new(WatchedWork::default()));
        let seen = watched.clone();
        std::thread::spawn(move || {
            let is_late = |time| ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            if !is_late(limit) {
                return;
            }
            if let Some(statements) = &lock(&seen).statements {
                statements.interrupt();
            }
            if !is_late(GRACE) {
                return;
            }
            // While this is locked, the work cannot end.
            let seen = lock(&seen);
            if !seen.is_over {
                give_up();
            }
        });
        Watchdog { watched, _ends: ends }
    }

    /// Only the last reader that is given is interrupted.
    pub fn watch(&self, reader: &Reader) {
        lock(&self.watched).statements = Some(reader.conn.get_interrupt_handle());
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        lock(&self.watched).is_over = true;
    }
}

fn lock(watched: &Mutex<WatchedWork>) -> std::sync::MutexGuard<'_, WatchedWork> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_is_over_is_not_given_up_and_other_work_is() {
        let (tell, told) = channel();
        let quick = tell.clone();
        drop(Watchdog::start(Duration::from_millis(1), move || quick.send("quick").unwrap()));
        let slow = Watchdog::start(Duration::from_millis(1), move || tell.send("slow").unwrap());
        assert_eq!(told.recv(), Ok("slow"));
        drop(slow);
        assert!(told.recv().is_err(), "nobody else can tell any more");
    }
}
