//! Determines when the next edit is due; the daemon uses it independently of its schedule.
//!
//! The daemon checks once a second if write-back is on, because a stock SQLite shell notifies nobody of an edit. Unless the
//! file was written, a check reads only a number that SQLite keeps in memory.
//!
//! # Invariants
//! - A queued edit is due at once, a failed one when its delays are over, even if the schedule is off.
//! - Nothing is due twice for the same state of the outbox, except for one retry per minute: an edit that a push skips,
//!   for whatever reason, causes no loop.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::delay;
use crate::model::Instant;
use crate::store::delays::OutboxOutlook;
use crate::store::{KeptReader, StoreError};

/// How long an edit that was due, and was not sent, waits before it is due again.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Watches the outbox of one mirror. Its functions block on the file.
#[derive(Debug)]
pub struct EditWatch {
    path: PathBuf,
    reader: KeptReader<OutboxOutlook>,
    /// The newest step, and the time at which an edit was last due.
    signalled: Option<(i64, Instant)>,
}

impl EditWatch {
    pub fn new(path: &Path) -> EditWatch {
        EditWatch { path: path.to_path_buf(), reader: KeptReader::default(), signalled: None }
    }

    pub fn is_due(&mut self, now: Instant) -> Result<bool, StoreError> {
        let (due, step) = self.outlook(now)?;
        let again = self.signalled.is_none_or(|(known, at)| known != step || now < at || now.since(at) >= AGAIN_AFTER);
        let is_due = again && due.is_some_and(|due| due <= now);
        if is_due {
            self.signalled = Some((step, now));
        }
        Ok(is_due)
    }

    /// When the next edit is due, now or earlier if it can be sent at once, `None` if no edit is waiting; and the newest step.
    pub fn outlook(&mut self, now: Instant) -> Result<(Option<Instant>, i64), StoreError> {
        let read = |outlook: &OutboxOutlook| (delay::next_due(&outlook.waiting, now), outlook.newest_step);
        self.reader.watch(&self.path, OutboxOutlook::read, read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::edit_fixture::unguarded;
    use crate::store::Store;

    fn at(seconds: u64) -> Instant {
        Instant::EPOCH.plus(Duration::from_secs(1_000_000 + seconds))
    }

    #[tokio::test]
    async fn mirror_that_was_replaced_is_read_instead() {
        let dir = tempfile::tempdir().unwrap();
        let (path, restored) = (dir.path().join("mirror.db"), dir.path().join("restored.db"));
        for path in [&path, &restored] {
            Store::open(path).unwrap().close().await;
        }
        let mut watch = EditWatch::new(&path);
        assert_eq!(watch.outlook(at(0)).unwrap().0, None);
        sql(
            &restored,
            "INSERT INTO outbox (object_type, record_id, source, fields, queued_at)
             VALUES ('contact', 'a', 'sql', '{\"position\":[\"A\",\"B\"]}', '2026-03-01T12:00:00.000000Z')",
        );
        std::fs::rename(&restored, &path).unwrap();
        assert_eq!(watch.outlook(at(0)).unwrap().0, Some(at(0)));
    }

    fn sql(path: &Path, sql: &str) {
        unguarded(path).execute_batch(sql).unwrap();
    }

    #[tokio::test]
    async fn edit_is_due_once_and_again_when_its_delay_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        let mut watch = EditWatch::new(&path);
        assert!(watch.is_due(at(0)).is_err(), "there is no mirror yet");
        Store::open(&path).unwrap().close().await;
        assert_eq!(watch.outlook(at(0)).unwrap().0, None);
        assert!(!watch.is_due(at(0)).unwrap());

        sql(
            &path,
            "INSERT INTO outbox (object_type, record_id, source, fields, queued_at)
             VALUES ('contact', 'a', 'sql', '{\"position\":[\"A\",\"B\"]}', '2026-03-01T12:00:00.000000Z');
             INSERT INTO outbox_events (outbox_id, at, to_state, why) VALUES (1, '2026-03-01T12:00:00.000000Z', 'queued', 'x')",
        );
        assert!(watch.is_due(at(1)).unwrap());
        sql(
            &path,
            "INSERT INTO outbox_events (outbox_id, at, from_state, to_state, why) VALUES (1, '', 'sending', 'queued', 'x')",
        );
        assert!(watch.is_due(at(2)).unwrap(), "the outbox changed");
        assert!(!watch.is_due(at(3)).unwrap(), "the same state of the outbox is not due twice");
        assert!(watch.is_due(at(62)).unwrap(), "but tried again after a while");
        assert!(!watch.is_due(at(62)).unwrap());
        assert!(watch.is_due(at(61)).unwrap(), "the clock was set back");

        let until = at(100);
        sql(
            &path,
            &format!("INSERT INTO outbox_delays VALUES ('contact', 'record', 'a', 1, 1, '{until}', '{until}', 'k')"),
        );
        assert_eq!(watch.outlook(at(63)).unwrap().0, Some(until));
        assert!(!watch.is_due(at(99)).unwrap() && !EditWatch::new(&path).is_due(at(99)).unwrap());
        assert!(watch.is_due(at(122)).unwrap());

        sql(&path, "UPDATE outbox SET state = 'conflict'");
        assert_eq!(watch.outlook(at(200)).unwrap().0, None, "a conflict needs a decision");
        sql(
            &path,
            "INSERT INTO outbox (object_type, record_id, source, fields, queued_at)
             VALUES ('contact', 'a', 'sql', '{\"language\":[\"A\",\"B\"]}', '2026-03-01T12:00:00.000000Z')",
        );
        assert_eq!(watch.outlook(at(200)).unwrap().0, None, "and so do the edits behind it");
    }
}
