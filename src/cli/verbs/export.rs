//! `crm-mirror export`: the mirror as one stream of JSON lines, for programs that store a cursor.

use std::io::BufWriter;
use std::time::Duration;

use crate::cli::{Failure, Global, output, session};
use crate::config::Config;
use crate::daemon::StopSignals;
use crate::exit::Exit;
use crate::publish::{MirrorStream, PublishError, StreamCursor};

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror export --snapshot > mirror.ndjson\n  \
                        crm-mirror export --snapshot --follow | load")]
pub struct ExportArgs {
    /// Print whole rows of every table, as one stream of JSON lines; with --since, only what changed.
    #[arg(long, required = true)]
    snapshot: bool,
    /// Continue with new changes until interrupted.
    #[arg(long)]
    follow: bool,
    /// The last cursor of the stream that is already known.
    #[arg(long, value_name = "CURSOR")]
    since: Option<StreamCursor>,
}

pub fn run(global: &Global, args: &ExportArgs) -> Result<Exit, Failure> {
    let (config, since) = (global.load()?, args.since.clone());
    if args.follow {
        let runtime = session::runtime()?;
        let ended = runtime.block_on(until_interrupted(config, since));
        runtime.shutdown_background();
        ended?;
    } else {
        write_stream(config, since, false)?;
    }
    Ok(Exit::Done)
}

/// How often the file is checked: a check reads one page.
const POLL: Duration = Duration::from_millis(100);

/// Follows the mirror until a signal. It listens before the first line is written, and waits for no reader: a signal
/// ends the stream also while a slow reader blocks it. What follows the last cursor is an incomplete group then.
async fn until_interrupted(config: Config, since: Option<StreamCursor>) -> Result<(), Failure> {
    let mut signals = StopSignals::listen()?;
    let written = tokio::task::spawn_blocking(move || write_stream(config, since, true));
    tokio::select! {
        () = signals.next() => Ok(()),
        ended = written => Ok(ended.map_err(|panic| Failure::new(Exit::Internal, panic))??),
    }
}

/// Writes everything there is; a follower, whatever is committed from then on, too.
fn write_stream(config: Config, since: Option<StreamCursor>, follows: bool) -> Result<(), PublishError> {
    let mut stream = MirrorStream::open(&config.database, config.publish.objects, config.publish.exclude)?;
    since.map_or(Ok(()), |cursor| stream.resume(cursor))?;
    let mut out = BufWriter::new(output::data());
    let mut write = || loop {
        // What is committed afterwards changes the version again, so no change waits for the next one.
        let seen = stream.version()?;
        while stream.step(&mut out)? {}
        if !follows {
            return Ok(());
        }
        while stream.version()? == seen {
            std::thread::sleep(POLL);
        }
    };
    let written = write();
    if written.is_err() {
        // The rest of the buffer cannot be written, or is an incomplete group.
        let _ = out.into_parts();
    }
    written
}
