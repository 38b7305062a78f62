//! A run that a person waits for, from the configuration to a clean end: through the daemon that owns the mirror, else in
//! the foreground.
//!
//! The address and the key are checked before the mirror's file is touched, so an unusable configuration creates no
//! file. After Ctrl-C or SIGTERM no further request is sent, the page in progress is stored, and the file is closed as
//! after a complete run; a second signal ends the program at once.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::api::ApiError;
use crate::app::{Mirror, MirrorSettings, RunResult};
use crate::cli::remote::{self, Finished};
use crate::cli::ui::output;
use crate::cli::ui::progress::ProgressView;
use crate::cli::{Failure, logging};
use crate::config::Config;
use crate::daemon::StopSignals;
use crate::exit::Exit;
use crate::model::{Ru, SystemClock};
use crate::sync::Job;

/// How long requests in flight may take after a stop was requested.
const GRACE: Duration = Duration::from_secs(10);

/// What a person who pushes during a verification must know at once.
const BEHIND_VERIFICATION: &str = "the daemon runs a verification, which sends due edits between its requests; the result of \
     this push is reported after it, and `crm-mirror outbox` shows the edits meanwhile";

/// Runs a job while the user watches; `None` if the daemon goes on with it. `body` is the request to the daemon; `max_ru`
/// limits what a run without the daemon spends.
pub fn run(config: &Config, job: &Job, body: &Value, max_ru: Option<Ru>) -> Result<Option<Finished>, Failure> {
    let progress = ProgressView::of_process();
    logging::start(&config.log, &progress);
    let runtime = runtime()?;
    if let Some((client, status)) = runtime.block_on(remote::daemon(config))? {
        // The daemon would go on with the rest of a limited run at once.
        if job.accept().workspace || max_ru.is_some() {
            return Err(needs_the_mirror_alone());
        }
        if *job == Job::Push && status.running.is_some_and(|running| running.work == "verify") {
            output::note(BEHIND_VERIFICATION);
        }
        let how_to_stop = if matches!(job, Job::Resync { .. }) {
            "`crm-mirror resync --stop` stops it"
        } else {
            "`crm-mirror status` shows it"
        };
        let path = format!("/{}", job.kind());
        return runtime.block_on(remote::job(&client, &path, body, &progress, how_to_stop));
    }
    let settings = MirrorSettings::from_config(config)?;
    let ran = runtime.block_on(async {
        let mut signals = StopSignals::listen()?;
        let mirror = Mirror::open(settings, Arc::new(SystemClock), Arc::new(progress)).await?;
        if let Some(units) = max_ru {
            mirror.meter().limit_run(units);
        }
        let ran = run_until_stopped(&mirror, job, "manual", &mut signals).await;
        if !matches!(&ran, Err(failure) if failure.exit() == Exit::Paused) {
            mirror.close().await;
        }
        ran
    })?;
    // A second signal ends the program without waiting.
    runtime.shutdown_background();
    Ok(Some(Finished { summary: ran.summary, found: ran.findings }))
}

pub(super) fn needs_the_mirror_alone() -> Failure {
    Failure::new(Exit::Storage, "this option needs exclusive access to the mirror, which the daemon has")
        .hint("stop the daemon first, or omit the option")
}

/// Runs a job; after a signal it finishes the page in progress, and after a second one it ends at once.
pub async fn run_until_stopped(
    mirror: &Mirror,
    job: &Job,
    trigger: &'static str,
    signals: &mut StopSignals,
) -> Result<RunResult, Failure> {
    let mut running = std::pin::pin!(mirror.run(job, trigger));
    tokio::select! {
        done = &mut running => return Ok(done?),
        () = signals.next() => {}
    }
    mirror.meter().stop();
    output::note("stopping after the page in progress; press Ctrl-C again to end at once");
    tokio::select! {
        done = &mut running => Ok(done?),
        () = signals.next() => Err(cut_off()),
        () = tokio::time::sleep(GRACE) => Err(cut_off()),
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
