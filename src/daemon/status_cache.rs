//! The status in memory: what was last read from the mirror's file, and what the loop last published.
//!
//! A file can be slow: on a network disk that hangs, or on a busy machine. So a request for the status reads the file, but
//! waits for it no longer than [`PROMPT`] and is then answered from memory. The status is read again at the end of each run,
//! and its `read_at` says when.
//!
//! # Invariants
//! - No answer waits longer than [`PROMPT`] for the file, or for the loop.
//! - One read of the file at a time, however many clients ask and however long it takes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;

use super::status_reply::DaemonStatus;
use crate::app::status::{self, MirrorStatus};
use crate::config::Config;
use crate::model::ClockReading;
use crate::store::{KeptReader, Reader, StoreError};

/// How long an answer waits for the file, and for the loop.
pub(super) const PROMPT: Duration = Duration::from_millis(50);

/// How long the start of the daemon and the end of a run wait for the file.
pub(super) const PATIENT: Duration = Duration::from_secs(2);

/// The status in memory. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct StatusCache {
    mirror: Arc<Mutex<Option<MirrorStatus>>>,
    daemon: Arc<Mutex<Option<DaemonStatus>>>,
    reader: Arc<AsyncMutex<KeptReader<Reader>>>,
}

impl StatusCache {
    pub(super) fn new() -> StatusCache {
        StatusCache { mirror: Arc::default(), daemon: Arc::default(), reader: Arc::default() }
    }

    /// The status of the mirror: read from the file, or, if that takes longer than `within`, as it was last read.
    pub(super) async fn mirror(
        &self,
        config: Arc<Config>,
        now: ClockReading,
        within: Duration,
    ) -> Result<MirrorStatus, String> {
        match tokio::time::timeout(within, self.read(config, now)).await {
            Ok(read) => read,
            Err(_) => kept(&self.mirror).ok_or_else(|| "the mirror's file does not answer".into()),
        }
    }

    /// Reads the file after the reads of earlier requests. A read continues when nobody waits for it any more.
    async fn read(&self, config: Arc<Config>, now: ClockReading) -> Result<MirrorStatus, String> {
        let mirror = self.mirror.clone();
        let read = self.with_reader(config, move |reader, config| {
            let status = status::read_with(reader, config, now)?;
            keep(&mirror, status.clone());
            Ok(status)
        });
        read.await
    }

    /// A number that changes with each commit to the mirror's file; rarely, another file has the number of the last one.
    pub(super) async fn version(&self, config: Arc<Config>) -> Result<i64, String> {
        self.with_reader(config, |reader, _| reader.data_version()).await
    }

    /// Reads the file, without waiting for a writer.
    pub(super) async fn with_reader<T: Send + 'static>(
        &self,
        config: Arc<Config>,
        read: impl Fn(&Reader, &Config) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, String> {
        let mut reader = self.reader.clone().lock_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            reader.read(&config.database, Reader::open, |reader| read(reader, &config))
        });
        match done.await {
            Ok(read) => read.map_err(|error| error.to_string()),
            Err(panicked) => Err(panicked.to_string()),
        }
    }

    pub(super) fn daemon(&self) -> Option<DaemonStatus> {
        kept(&self.daemon)
    }

    pub(super) fn publish(&self, status: DaemonStatus) {
        keep(&self.daemon, status);
    }
}

fn kept<T: Clone>(cell: &Mutex<Option<T>>) -> Option<T> {
    cell.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn keep<T>(cell: &Mutex<Option<T>>, value: T) {
    *cell.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
}
