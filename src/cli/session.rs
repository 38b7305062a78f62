//! Everything that a run in the foreground needs, from the configuration to a tidy end.
//!
//! The order matters: address and key are checked before the mirror's file is touched, so a configuration that cannot
//! work leaves no trace. Ctrl-C and SIGTERM let nothing more be sent, the page in hand is stored, and the file is closed
//! as after a good run; asked a second time, the program ends at once.

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
use crate::model::SystemClock;
use crate::sync::events::RunObserver;
use crate::sync::{Forecast, Job, SyncError};

/// How long the requests under way may take to end once a stop was asked for.
const GRACE: Duration = Duration::from_secs(10);

/// A mirror open for runs.
pub struct Session(Mirror);

impl Session {
    /// Opens the mirror, makes it if there is none.
    ///
    /// # Errors
    /// When the file is not to be had, or no client can be made.
    pub async fn open(settings: MirrorSettings, observer: Arc<dyn RunObserver>) -> Result<Session, Failure> {
        Ok(Session(Mirror::open(settings, Arc::new(SystemClock), observer).await?))
    }

    /// What may be spent.
    pub fn limits(&self) -> Limits {
        self.0.limits()
    }

    /// Carries out a run, as far as nobody asks to stop.
    ///
    /// # Errors
    /// What ended the run and waiting does not fix; [`Exit::Paused`] where it was cut off.
    pub async fn run(&self, job: &Job, trigger: &'static str, signals: &mut StopSignals) -> Result<RunResult, Failure> {
        self.until_stopped(self.0.run(job, trigger), signals).await
    }

    /// Says what a run would cost, and how the budget stands.
    ///
    /// # Errors
    /// When the service does not answer.
    pub async fn forecast(&self, job: &Job) -> Result<(Forecast, Ledger), Failure> {
        Ok(self.0.forecast(job).await?)
    }

    /// Does the work; asked to stop, lets it end after what is in hand, and asked again, ends at once.
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
                output::note("stopping after the page in hand; Ctrl-C again ends at once");
                tokio::select! {
                    done = &mut running => Ok(done?),
                    () = signals.next() => Err(cut_off()),
                    () = tokio::time::sleep(GRACE) => Err(cut_off()),
                }
            }
        }
    }

    /// Forgets the sweeps under way; gives how many.
    ///
    /// # Errors
    /// When the file refuses.
    pub async fn forget_sweeps(&self) -> Result<usize, Failure> {
        Ok(self.0.forget_sweeps().await?.len())
    }

    /// Closes the mirror.
    pub async fn close(self) {
        self.0.close().await;
    }
}

fn cut_off() -> Failure {
    Failure::new(Exit::Paused, "stopped in the middle of a request; what was stored stays")
        .hint("`crm-mirror sync` goes on from there")
}

/// The runtime of a verb: one thread to fetch and decode, one beside it; the mirror's writer is a third.
///
/// # Errors
/// When the system gives no threads.
pub fn runtime() -> Result<Runtime, Failure> {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|source| Failure::from(ApiError::Setup { why: source.to_string() }))
}
