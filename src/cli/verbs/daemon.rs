//! `crm-mirror daemon`: the scheduler, in the foreground; systemd keeps it in the background.

use std::sync::Arc;

use tokio::runtime::Builder;

use crate::cli::ui::progress::ProgressView;
use crate::cli::{Failure, Global, identity, logging, session};
use crate::daemon::{self, DaemonSignals};
use crate::exit::Exit;
use crate::model::SystemClock;

/// It answers on its control socket (`daemon.socket`), which sync, resync, verify, push and status use while it runs. SIGHUP
/// reloads the configuration; SIGTERM and Ctrl-C stop it after the page in progress.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror daemon\n  curl --unix-socket mirror.db.sock http://localhost/status")]
pub struct DaemonArgs {}

pub fn run(global: &Global, _: &DaemonArgs) -> Result<Exit, Failure> {
    // Before anything else, and in a runtime without threads: another identity can be taken only while there are none.
    let first = Builder::new_current_thread().enable_all().build()?;
    let signals = first.block_on(async { DaemonSignals::listen() })?;
    let sources = global.sources(None);
    let config = crate::config::Config::load(&sources)?;
    // It reads its configuration again as that user, whenever it is told to.
    identity::take(&config.database)?;
    // There is no user watching, so the log reports how each run ended.
    logging::start(&config.log, &ProgressView::lines());
    let runtime = session::runtime()?;
    let ended = runtime.block_on(daemon::run(sources, Arc::new(SystemClock), signals));
    // Blocking work that another process delays is abandoned, as after a kill.
    runtime.shutdown_background();
    ended?;
    Ok(Exit::Done)
}
