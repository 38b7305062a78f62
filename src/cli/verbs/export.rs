//! `crm-mirror export`: the feed of changes, for data warehouses and other programs that store a cursor; or the mirror as one
//! stream of JSON lines, and its changes.
//!
//! The feed is read in small slices, each in a snapshot of its own: memory is bounded, and a slow reader does not keep
//! the WAL from being checkpointed.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::PathBuf;
use std::time::Duration;

use crate::cli::ui::output::PlainWriter;
use crate::cli::{Failure, Global, output, session};
use crate::config::Config;
use crate::daemon::StopSignals;
use crate::exit::Exit;
use crate::publish::{MirrorStream, StreamCursor, StreamError};
use crate::store::cursor::{self, FeedCursor};
use crate::store::{Reader, feed};

const SLICE: u32 = 200;

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror export --since 0 > changes.ndjson\n  \
                        crm-mirror export --since 4f1c9e:1042\n  \
                        crm-mirror export --snapshot --follow | load\n  \
                        crm-mirror export --print-cursor")]
pub struct ExportArgs {
    /// The last change that is already known, 0 for the beginning; with --snapshot, the last cursor of the stream.
    #[arg(long, value_name = "CURSOR", required_unless_present_any = ["print_cursor", "snapshot"])]
    since: Option<String>,
    /// Print whole rows of every table, as one stream of JSON lines; with --since, only what changed.
    #[arg(long, conflicts_with = "print_cursor")]
    snapshot: bool,
    /// Continue with new changes until interrupted.
    #[arg(long, requires = "snapshot")]
    follow: bool,
    /// Print the cursor after the newest change and nothing else: a copy of the tables that begins now can continue
    /// from it.
    #[arg(long, conflicts_with = "since")]
    print_cursor: bool,
    /// The mirror [default: `database.path` of the configuration].
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
}

pub fn run(global: &Global, args: &ExportArgs) -> Result<Exit, Failure> {
    let refused = |why: &str| Failure::new(Exit::Usage, format!("--since {why}"));
    let of_stream = args.since.as_deref().map(str::parse::<StreamCursor>);
    if args.snapshot {
        return snapshot(global, args, of_stream.transpose().map_err(refused)?);
    }
    if matches!(of_stream, Some(Ok(_))) {
        return Err(refused("is a cursor of the stream, which needs --snapshot"));
    }
    let since: Option<FeedCursor> =
        args.since.as_deref().map(str::parse).transpose().map_err(|_| refused("is neither 0 nor a cursor"))?;
    let reader = Reader::open_for_queries(&global.database(args.database.as_deref())?)?;
    let Some(since) = since else {
        let moment = reader.begin()?;
        output::text(&cursor::behind(&moment, feed::span(&moment)?.newest)?.to_string())?;
        return Ok(Exit::Done);
    };
    let mut out = BufWriter::new(output::data());
    let mut at = since.clone();
    let ended = stream(&reader, &mut at, &mut out);
    // Everything before a gap is complete, and can be kept.
    out.flush()?;
    if ended.is_ok() || at.seq() > since.seq() {
        output::note(&format!("cursor: {}", cursor::behind(&reader.begin()?, at.seq())?));
    }
    ended.map(|()| Exit::Done)
}

/// Writes everything after `at` that existed at the beginning, and moves `at` to the cursor to continue from.
fn stream(reader: &Reader, at: &mut FeedCursor, out: &mut impl Write) -> Result<(), Failure> {
    let mirror = cursor::mirror_id(&reader.begin()?)?;
    let mut until = None;
    loop {
        let moment = reader.begin()?;
        cursor::verify(&moment, at)?.map_err(|refused| Failure::new(Exit::Storage, refused).hint(BEGIN_AGAIN))?;
        // Bounded, because constant changes would otherwise keep an export running forever.
        let end = *until.get_or_insert(feed::span(&moment)?.newest);
        let slice = feed::after(&moment, at.seq(), end, SLICE)?;
        // Nothing is written while a snapshot is open.
        drop(moment);
        for change in &slice {
            serde_json::to_writer(&mut *out, change).map_err(io::Error::from)?;
            out.write_all(b"\n")?;
        }
        let is_all = slice.len() < SLICE as usize;
        let last = slice.last().map_or(at.seq(), |change| change.seq);
        let seq = if is_all { last.max(end) } else { last };
        if seq > at.seq() {
            *at = FeedCursor::Behind { mirror: mirror.clone(), seq, check: None };
        }
        if is_all {
            return Ok(());
        }
    }
}

const BEGIN_AGAIN: &str =
    "start again: run `crm-mirror export --print-cursor`, copy the tables, then pass that cursor to --since";

/// How often the file is checked: a check reads one page.
const POLL: Duration = Duration::from_millis(100);

fn snapshot(global: &Global, args: &ExportArgs, since: Option<StreamCursor>) -> Result<Exit, Failure> {
    let config = global.load(args.database.as_deref())?;
    if args.follow {
        let runtime = session::runtime()?;
        let ended = runtime.block_on(until_interrupted(config, since));
        runtime.shutdown_background();
        ended?;
    } else {
        write_stream(&config, since, |stream, out| catch_up(stream, out).map(|_| ()))?;
    }
    Ok(Exit::Done)
}

/// Follows the mirror until a signal. It listens before the first line is written, and waits for no reader: a signal
/// ends the stream also while a slow reader blocks it. What follows the last cursor is an incomplete group then.
async fn until_interrupted(config: Config, since: Option<StreamCursor>) -> Result<(), Failure> {
    let mut signals = StopSignals::listen()?;
    let written = tokio::task::spawn_blocking(move || write_stream(&config, since, follow));
    tokio::select! {
        () = signals.next() => Ok(()),
        ended = written => ended.map_err(|panic| Failure::new(Exit::Internal, panic))?,
    }
}

fn write_stream(
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

/// Writes everything there is, and whatever is committed from then on.
fn follow(stream: &mut MirrorStream, out: &mut impl Write) -> Result<(), Failure> {
    loop {
        let seen = catch_up(stream, out)?;
        while stream.version()? == seen {
            std::thread::sleep(POLL);
        }
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
