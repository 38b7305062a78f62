//! `crm-mirror export --snapshot`: the mirror as one stream of JSON lines, and its changes.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use crate::cli::signals::StopSignals;
use crate::cli::{Failure, Global, session};
use crate::config::Config;
use crate::daemon::client::{DaemonClient, EventStream};
use crate::exit::Exit;
use crate::publish::{MirrorStream, StreamCursor, StreamError};

/// How often the file is checked, with or without events of a daemon: a check reads one page.
const POLL: Duration = Duration::from_secs(1);

/// Writes the stream.
///
/// # Errors
/// [`Exit::Storage`] if there is no mirror, or the stream cannot be continued from the cursor.
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
            // The rest of the buffer cannot be written, or is an incomplete group.
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
                event = next(&mut events) => {
                    if !event {
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

/// The events of the daemon that owns the mirror, if there is one.
async fn events(config: &Config) -> Option<EventStream> {
    let client = DaemonClient::connect(&config.socket)?;
    client.status_of(&config.database).await.ok()??;
    client.subscribe().await.ok()
}

/// Waits for an event; forever if there is no stream. Returns whether the daemon still runs.
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
