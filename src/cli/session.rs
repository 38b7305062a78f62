//! A run in the foreground, from the configuration to a clean end.
//!
//! The address and the key are checked before the mirror's file is touched, so an unusable configuration creates no
//! file. After Ctrl-C or SIGTERM no further request is sent, the page in progress is stored, and the file is closed as
//! after a complete run; a second signal ends the program at once.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::api::ApiError;
use crate::app::{Mirror, MirrorSettings, RunResult};
use crate::budget::{Ledger, Limits};
use crate::cli::Failure;
use crate::cli::signals::StopSignals;
use crate::cli::ui::output;
use crate::exit::Exit;
use crate::model::{Ru, SystemClock};
use crate::sync::events::RunObserver;
use crate::sync::{Forecast, Job, SyncError};

/// How long requests in flight may take after a stop was requested.
const GRACE: Duration = Duration::from_secs(10);

pub struct Session(Mirror);

impl Session {
    /// Opens the mirror, and creates it if it does not exist.
    pub async fn open(settings: MirrorSettings, observer: Arc<dyn RunObserver>) -> Result<Session, Failure> {
        Ok(Session(Mirror::open(settings, Arc::new(SystemClock), observer).await?))
    }

    /// Like [`Session::open`], for a forecast: leaves no new file beside the mirror.
    pub async fn open_for_forecast(
        settings: MirrorSettings,
        observer: Arc<dyn RunObserver>,
    ) -> Result<Session, Failure> {
        Ok(Session(Mirror::open_for_forecast(settings, Arc::new(SystemClock), observer).await?))
    }

    pub fn limits(&self) -> Limits {
        self.0.limits()
    }

    /// Lets the session spend so much, whatever the budget has.
    pub fn limit_run(&self, units: Ru) {
        self.0.limit_run(units);
    }

    /// Runs a job until it ends or a signal stops it.
    pub async fn run(&self, job: &Job, trigger: &'static str, signals: &mut StopSignals) -> Result<RunResult, Failure> {
        self.until_stopped(self.0.run(job, trigger), signals).await
    }

    /// Estimates the cost of a job, and returns it with the ledger.
    pub async fn forecast(&self, job: &Job) -> Result<(Forecast, Ledger), Failure> {
        Ok(self.0.forecast(job).await?)
    }

    /// Runs the future; after a signal lets it finish the page in progress, and after a second one ends at once.
    async fn until_stopped<T>(
        &self,
        work: impl Future<Output = Result<T, SyncError>>,
        signals: &mut StopSignals,
    ) -> Result<T, Failure> {
        let mut running = std::pin::pin!(work);
        tokio::select! {
            done = &mut running => Ok(done?),
            () = signals.next() => {
                self.0.stop();
                output::note("stopping after the page in progress; press Ctrl-C again to end at once");
                tokio::select! {
                    done = &mut running => Ok(done?),
                    () = signals.next() => Err(cut_off()),
                    () = tokio::time::sleep(GRACE) => Err(cut_off()),
                }
            }
        }
    }

    /// Discards the sweeps in progress, and returns their number.
    pub async fn forget_sweeps(&self) -> Result<usize, Failure> {
        Ok(self.0.forget_sweeps().await?.len())
    }

    pub async fn close(self) {
        self.0.close().await;
    }
}

fn cut_off() -> Failure {
    Failure::new(Exit::Paused, "stopped in the middle of a request; what was stored stays")
        .hint("`crm-mirror sync` continues from there")
}

/// The runtime of a verb: one thread to fetch and decode, one more beside it; the mirror's writer is a third.
pub fn runtime() -> Result<Runtime, Failure> {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|source| Failure::from(ApiError::Setup { why: source.to_string() }))
}

/// A temporary directory that only this user can read.
pub struct ScratchFolder(PathBuf);

impl ScratchFolder {
    pub fn make() -> io::Result<ScratchFolder> {
        let directory = std::env::temp_dir().join(format!("crm-mirror-{:016x}", fastrand::u64(..)));
        std::fs::DirBuilder::new().mode(0o700).create(&directory)?;
        Ok(ScratchFolder(directory))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // A leftover temporary directory is harmless.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
