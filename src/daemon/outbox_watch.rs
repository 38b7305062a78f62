//! Watches the outbox: an edit that anybody queues in the mirror's file is sent within seconds.
//!
//! A look costs one small query by primary key on the trail of edits, once a second and only where write-back is on. It
//! needs no notice from the process that wrote: a stock SQLite shell gives none.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::message::LoopMessage;
use crate::store::{Reader, report};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// A watch that runs until it is ended.
#[derive(Debug)]
pub struct OutboxWatch(JoinHandle<()>);

impl OutboxWatch {
    /// Begins to watch the mirror at `path`.
    pub fn start(path: PathBuf, inbox: mpsc::Sender<LoopMessage>) -> OutboxWatch {
        OutboxWatch(tokio::spawn(async move {
            let mut every = tokio::time::interval(EVERY);
            every.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut looked: Option<(Reader, i64)> = None;
            loop {
                every.tick().await;
                let (path, before) = (path.clone(), looked.take());
                let look = tokio::task::spawn_blocking(move || look(&path, before)).await;
                let Ok(Some((conn, last, queued))) = look else { continue };
                looked = Some((conn, last));
                // A full inbox is emptied soon; the next look comes in a second.
                if queued && inbox.send(LoopMessage::Edited).await.is_err() {
                    return;
                }
            }
        }))
    }

    /// Ends it.
    pub async fn end(self) {
        self.0.abort();
        let _ = self.0.await;
    }
}

/// Looks for edits that were queued after the last look. A mirror that cannot be read now is looked at again.
fn look(path: &Path, before: Option<(Reader, i64)>) -> Option<(Reader, i64, bool)> {
    let (conn, last) = match before {
        Some(before) => before,
        None => (Reader::open(path).ok()?, 0),
    };
    let (newest, queued) = report::edits_after(&conn.begin().ok()?, last).ok()?;
    Some((conn, newest, queued))
}
