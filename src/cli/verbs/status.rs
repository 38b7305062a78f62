//! `crm-mirror status`: contents, freshness, cost and pending work of the mirror.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::app::status::{self, MirrorStatus};
use crate::cli::remote::{self, DaemonState};
use crate::cli::ui::{output, status_text};
use crate::cli::{Failure, Global, session};
use crate::config::Config;
use crate::daemon::StatusReply;
use crate::exit::Exit;
use crate::model::{Clock, Instant, Resource, SystemClock};
use crate::store::{RunOutcome, StoreError, lock};

/// Show what the mirror contains, how fresh it is, what it cost and what is pending.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror status\n  crm-mirror status --json | jq .ru.left\n  \
                        crm-mirror status --max-age 15m || echo stale")]
pub struct StatusArgs {
    /// Exit with 1 if contacts or companies are older than this or were never copied, and with 75 if a rate limit or
    /// the budget is the reason: 90s, 15m, 2h.
    #[arg(long, value_name = "DURATION", value_parser = crate::config::duration)]
    max_age: Option<Duration>,
    /// The mirror [default: `database.path` of the configuration].
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
}

/// The JSON document.
#[derive(Serialize)]
struct StatusDocument<'a> {
    #[serde(flatten)]
    reply: &'a StatusReply,
    daemon_state: DaemonState,
    /// The process that writes the mirror now.
    writer: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fresh: Option<bool>,
}

/// Runs the verb.
///
/// # Errors
/// [`Exit::Storage`] if there is no mirror, or it cannot be read.
pub fn run(global: &Global, args: &StatusArgs) -> Result<Exit, Failure> {
    let config = global.load_with(args.database.as_deref())?;
    let reading = SystemClock.reading();
    let now = reading.wall;
    let status = match status::read(&config, reading) {
        // For a probe, a missing mirror is one that was never copied.
        Err(error @ StoreError::Missing { .. }) if args.max_age.is_some() => {
            let hint = error.hint().unwrap_or_default();
            return Err(Failure::new(Exit::Differences, error).hint(hint));
        }
        read => read?,
    };
    let (daemon, daemon_state) = session::runtime()?.block_on(remote::daemon_state(&config));
    let reply = StatusReply { status, daemon };
    let writer = lock::current_writer(&config.database).flatten();
    let freshness = args.max_age.map(|max_age| Freshness::of(&reply.status, wanted(&config), max_age, now));
    if args.json {
        let fresh = freshness.map(|freshness| freshness == Freshness::Fresh);
        output::json(&StatusDocument { reply: &reply, daemon_state, writer, fresh })?;
    } else {
        output::text(&status_text::text(&reply, daemon_state, writer, now))?;
    }
    if let (Some(freshness), Some(max_age)) = (freshness, args.max_age) {
        freshness.explain(max_age);
    }
    Ok(freshness.map_or(Exit::Done, Freshness::exit))
}

/// The lists that must be fresh: those of records, which every run for changes reads.
fn wanted(config: &Config) -> impl Fn(Resource) -> bool {
    let objects = config.sync.objects.clone();
    move |resource| {
        matches!(resource, Resource::Contacts | Resource::Companies)
            && objects.as_ref().is_none_or(|objects| objects.contains(&resource))
    }
}

/// The result of `--max-age`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freshness {
    /// Every list of records is fresh enough.
    Fresh,
    /// One is too old, or was never copied.
    Stale,
    /// One is too old, and no request may be sent now.
    Waiting,
}

impl Freshness {
    fn of(status: &MirrorStatus, wanted: impl Fn(Resource) -> bool, max_age: Duration, now: Instant) -> Freshness {
        let mut ages = status
            .objects
            .iter()
            .filter(|object| wanted(object.object) && status.may_read(object.object))
            .map(|object| object.changes_as_of.map(|at| now.since(at)));
        let mut any = false;
        let fresh = ages.all(|age| {
            any = true;
            age.is_some_and(|age| age <= max_age)
        });
        let last = status.runs.first().and_then(|run| run.outcome.as_deref());
        let waiting =
            status.hold_until.is_some() || status.ru.left == 0 || last == Some(RunOutcome::Suspended.as_str());
        match (fresh && any, waiting) {
            (true, _) => Freshness::Fresh,
            (false, true) => Freshness::Waiting,
            (false, false) => Freshness::Stale,
        }
    }

    const fn exit(self) -> Exit {
        match self {
            Freshness::Fresh => Exit::Done,
            Freshness::Stale => Exit::Differences,
            Freshness::Waiting => Exit::Paused,
        }
    }

    fn explain(self, max_age: Duration) {
        let limit = crate::format::duration(max_age);
        match self {
            Freshness::Fresh => {}
            Freshness::Stale => output::note(&format!("stale: the mirror is older than {limit}, or was never copied")),
            Freshness::Waiting => {
                output::note(&format!(
                    "stale: the mirror is older than {limit}; waiting for a rate limit or the budget"
                ));
            }
        }
    }
}
