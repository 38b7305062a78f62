//! `crm-mirror export --snapshot`: the mirror as one stream of JSON lines, and what changes in it.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use crate::cli::signals::StopSignals;
use crate::cli::{Failure, Global, session};
use crate::config::Config;
use crate::daemon::client::{DaemonClient, EventStream};
use crate::exit::Exit;
use crate::publish::{MirrorStream, StreamCursor, StreamError};

/// How often the file is looked at, whether or not a daemon says that something happened: looking costs one page of it.
const POLL: Duration = Duration::from_secs(1);

/// Writes the stream.
///
/// # Errors
/// [`Exit::Storage`] where there is no mirror, or the cursor does not lead on from here.
pub fn run(
    global: &Global,
    database: Option<&Path>,
    since: Option<StreamCursor>,
    follow: bool,
) -> Result<Exit, Failure> {
    let config = global.load_with(database)?;
    let publish = config.publish.clone();
    let mut stream = MirrorStream::open(&config.database, publish.objects, publish.exclude)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let written = write(&config, &mut stream, since, follow, &mut out);
    match written {
        Ok(()) => Ok(Exit::Done),
        Err(failure) => {
            // What is left in the buffer cannot be written, or is no whole group.
            let _ = out.into_parts();
            Err(failure)
        }
    }
}

fn write(
    config: &Config,
    stream: &mut MirrorStream,
    since: Option<StreamCursor>,
    follow: bool,
    out: &mut impl Write,
) -> Result<(), Failure> {
    match since {
        Some(cursor) => stream.resume(cursor)?,
        None => stream.snapshot(out)?,
    }
    while stream.step(out)? {}
    if !follow {
        return Ok(());
    }
    let runtime = session::runtime()?;
    let ended = runtime.block_on(async {
        let mut signals = StopSignals::listen()?;
        let mut seen = stream.version()?;
        let mut events = events(config).await;
        loop {
            tokio::select! {
                () = signals.next() => return Ok(()),
                heard = next(&mut events) => {
                    if !heard {
                        events = None;
                    }
                }
                () = tokio::time::sleep(POLL) => {}
            }
            let version = stream.version()?;
            if version != seen {
                seen = version;
                while stream.step(out)? {}
            }
        }
    });
    runtime.shutdown_background();
    ended
}

/// What the daemon that keeps the mirror says, where there is one.
async fn events(config: &Config) -> Option<EventStream> {
    let client = DaemonClient::connect(&config.socket)?;
    client.status_of(&config.database).await.ok()??;
    client.subscribe().await.ok()
}

/// Waits for an event; for ever where nobody tells any. Says whether the daemon is still there.
async fn next(events: &mut Option<EventStream>) -> bool {
    match events {
        Some(events) => events.next().await.is_ok(),
        None => std::future::pending().await,
    }
}

impl From<StreamError> for Failure {
    fn from(error: StreamError) -> Failure {
        match error {
            StreamError::Publish(error) => error.into(),
            StreamError::Output(error) => error.into(),
            StreamError::Cursor(_) => Failure::new(Exit::Storage, error)
                .hint("take a new copy: `crm-mirror export --snapshot` begins with one"),
        }
    }
}
