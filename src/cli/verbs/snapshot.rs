//! `crm-mirror export --snapshot`: the mirror as one stream of JSON lines, and its changes.

use std::convert::Infallible;
use std::io::{BufWriter, StdoutLock, Write};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use crate::cli::signals::StopSignals;
use crate::cli::ui::output::{self, PlainWriter};
use crate::cli::{Failure, Global, session};
use crate::config::Config;
use crate::daemon::client::{DaemonClient, EventStream};
use crate::exit::Exit;
use crate::publish::{MirrorStream, StreamCursor, StreamError};

/// How often the file is checked, with or without events of a daemon: a check reads one page.
const POLL: Duration = Duration::from_secs(1);

/// Writes the stream; with `follow`, until a signal.
pub fn run(
    global: &Global,
    database: Option<&Path>,
    since: Option<StreamCursor>,
    follow: bool,
) -> Result<Exit, Failure> {
    let config = global.load(database)?;
    if follow {
        let runtime = session::runtime()?;
        let ended = runtime.block_on(until_interrupted(config, since));
        runtime.shutdown_background();
        ended?;
    } else {
        write(&config, since, |stream, out| catch_up(stream, out).map(|_| ()))?;
    }
    Ok(Exit::Done)
}

/// Follows the mirror until a signal. It listens before the first line is written, and waits for no reader: a signal
/// ends the stream also while a slow reader blocks it. What follows the last cursor is an incomplete group then.
async fn until_interrupted(config: Config, since: Option<StreamCursor>) -> Result<(), Failure> {
    let mut signals = StopSignals::listen()?;
    let (wake, woken) = mpsc::channel();
    let settings = config.clone();
    let written =
        tokio::task::spawn_blocking(move || write(&settings, since, |stream, out| follow(stream, &woken, out)));
    tokio::select! {
        () = signals.next() => Ok(()),
        ended = written => ended.map_err(|panic| Failure::new(Exit::Internal, panic))?,
        never = pass_events(&config, wake) => match never {},
    }
}

/// Wakes the follower at each event of the daemon, if one runs.
async fn pass_events(config: &Config, wake: mpsc::Sender<()>) -> Infallible {
    let mut events = events(config).await;
    loop {
        if !next(&mut events).await {
            events = None;
        }
        // The follower ends before this does only if the whole verb does.
        let _ = wake.send(());
    }
}

/// Opens the mirror and stdout, and writes what `lines` writes.
fn write(
    config: &Config,
    since: Option<StreamCursor>,
    lines: impl FnOnce(&mut MirrorStream, &mut BufWriter<PlainWriter<StdoutLock<'static>>>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let publish = config.publish.clone();
    let mut stream = MirrorStream::open(&config.database, publish.objects, publish.exclude)?;
    if let Some(cursor) = since {
        stream.resume(cursor)?;
    }
    let mut out = BufWriter::new(output::data());
    let written = lines(&mut stream, &mut out);
    if written.is_err() {
        // The rest of the buffer cannot be written, or is an incomplete group.
        let _ = out.into_parts();
    }
    written
}

/// Writes everything there is. Returns the version of the file before it was read: whatever is committed afterwards
/// changes the version again, so no change waits for the next one.
fn catch_up(stream: &mut MirrorStream, out: &mut impl Write) -> Result<i64, Failure> {
    let version = stream.version()?;
    while stream.step(out)? {}
    Ok(version)
}

/// Writes everything there is, and whatever is committed from then on, until nobody can wake it any more.
fn follow(stream: &mut MirrorStream, woken: &mpsc::Receiver<()>, out: &mut impl Write) -> Result<(), Failure> {
    loop {
        let seen = catch_up(stream, out)?;
        while stream.version()? == seen {
            if let Err(RecvTimeoutError::Disconnected) = woken.recv_timeout(POLL) {
                return Ok(());
            }
        }
    }
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
