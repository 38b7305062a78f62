//! When the next edit is due: what the daemon asks, whatever its schedule says.
//!
//! The daemon looks once a second, where write-back is on. A look costs a number that SQLite keeps in memory, unless
//! somebody wrote to the file; it needs no notice from the program that wrote: a stock SQLite shell gives none.
//!
//! # Always true
//! - An edit that is queued is due at once, one that failed when its delays are over: also with the schedule off.
//! - Nothing is due twice for the same state of the outbox, but for one more try a minute: an edit that a push passes over,
//!   for whatever reason, is no loop.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::delay;
use crate::model::Instant;
use crate::store::StoreError;
use crate::store::delays::OutboxReader;

/// How long an edit that was due, and was not sent, waits before it is due again.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// A watch on the outbox of one mirror. Its functions read the file: call them where blocking is allowed.
#[derive(Debug)]
pub struct EditWatch {
    path: PathBuf,
    reader: Option<OutboxReader>,
    /// The newest step and the time at which an edit was last due.
    signalled: Option<(i64, Instant)>,
}

impl EditWatch {
    /// A watch on the mirror at `path`, which may not be there yet.
    pub fn new(path: &Path) -> EditWatch {
        EditWatch { path: path.to_path_buf(), reader: None, signalled: None }
    }

    /// When the next edit is due: now or earlier for one that can go at once; `None` where none waits.
    ///
    /// # Errors
    /// If the mirror cannot be read; it is opened again with the next call.
    pub fn next_due(&mut self, now: Instant) -> Result<Option<Instant>, StoreError> {
        let read = |reader: &mut OutboxReader| reader.outlook().map(|outlook| delay::next_due(&outlook.waiting, now));
        self.with_reader(read)
    }

    /// Whether edits are to be pushed now.
    ///
    /// # Errors
    /// As [`EditWatch::next_due`].
    pub fn is_due(&mut self, now: Instant) -> Result<bool, StoreError> {
        if self.next_due(now)?.is_none_or(|due| due > now) {
            return Ok(false);
        }
        let step = self.with_reader(|reader| reader.outlook().map(|outlook| outlook.newest_step))?;
        let again = self.signalled.is_none_or(|(known, at)| known != step || now < at || now.since(at) >= AGAIN_AFTER);
        if again {
            self.signalled = Some((step, now));
        }
        Ok(again)
    }

    fn with_reader<T>(
        &mut self,
        read: impl FnOnce(&mut OutboxReader) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => OutboxReader::open(&self.path)?,
        };
        let found = read(&mut reader)?;
        self.reader = Some(reader);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Reader, Store, report};

    fn at(seconds: u64) -> Instant {
        Instant::EPOCH.plus(Duration::from_secs(1_000_000 + seconds))
    }

    fn sql(path: &Path, sql: &str) {
        rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap();
    }

    #[tokio::test]
    async fn an_edit_is_due_once_and_again_when_its_delay_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        let mut watch = EditWatch::new(&path);
        assert!(watch.is_due(at(0)).is_err(), "there is no mirror yet");
        Store::open(&path).unwrap().close().await;
        assert_eq!(watch.next_due(at(0)).unwrap(), None);

        sql(
            &path,
            "INSERT INTO outbox (object_type, record_id, source, fields, queued_at)
             VALUES ('contact', 'a', 'sql', '{\"position\":[\"A\",\"B\"]}', '2026-03-01T12:00:00.000000Z');
             INSERT INTO outbox_events (outbox_id, at, to_state, why) VALUES (1, '2026-03-01T12:00:00.000000Z', 'queued', 'x')",
        );
        assert!(watch.is_due(at(1)).unwrap());
        let reader = Reader::open(&path).unwrap();
        let after = |last| report::edits_after(&reader.begin().unwrap(), last).unwrap();
        assert_eq!((after(0), after(1)), ((1, true), (1, false)));
        sql(&path, "INSERT INTO state VALUES ('paused_since', '\"2026-03-01T00:00:00Z\"')");
        assert_eq!(after(0), (0, false), "a pause keeps edits, and passes over none");
        sql(&path, "DELETE FROM state WHERE name = 'paused_since'");
        // An edit that returned to the queue is not new; one that was released is.
        sql(
            &path,
            "INSERT INTO outbox_events (outbox_id, at, from_state, to_state, why) VALUES (1, '', 'sending', 'queued', 'x')",
        );
        assert_eq!(after(1), (2, false));
        sql(
            &path,
            "INSERT INTO outbox_events (outbox_id, at, from_state, to_state, why) VALUES (1, '', 'held', 'queued', 'x')",
        );
        assert_eq!(after(2), (3, true));
        for (seconds, just_ended) in [(60, false), (2, true)] {
            let end = Instant::system_now().minus(Duration::from_secs(seconds));
            let delay = format!(
                "INSERT OR REPLACE INTO outbox_delays VALUES ('contact', 'record', 'a', 1, 1, '{end}', '{end}', 'k')"
            );
            sql(&path, &delay);
            assert_eq!(after(3), (3, just_ended), "{seconds} s ago");
        }
        sql(&path, "DELETE FROM outbox_delays");
        assert!(watch.is_due(at(2)).unwrap(), "somebody wrote to the outbox");
        assert!(!watch.is_due(at(3)).unwrap(), "the same state of the outbox is not due twice");
        assert!(watch.is_due(at(62)).unwrap(), "but tried again after a while");

        let until = at(100);
        sql(
            &path,
            &format!("INSERT INTO outbox_delays VALUES ('contact', 'record', 'a', 1, 1, '{until}', '{until}', 'k')"),
        );
        assert_eq!(watch.next_due(at(63)).unwrap(), Some(until));
        assert!(!watch.is_due(at(99)).unwrap());
        assert!(watch.is_due(at(122)).unwrap());

        sql(&path, "UPDATE outbox SET state = 'conflict'");
        assert_eq!(watch.next_due(at(200)).unwrap(), None, "a conflict waits for a person");
        sql(
            &path,
            "INSERT INTO outbox (object_type, record_id, source, fields, queued_at)
             VALUES ('contact', 'a', 'sql', '{\"language\":[\"A\",\"B\"]}', '2026-03-01T12:00:00.000000Z')",
        );
        assert_eq!(watch.next_due(at(200)).unwrap(), None, "and so does what is behind it");
    }
}
