//! `crm-mirror publish`: publishes the mirror to PostgreSQL, once.

use crate::app::publish_settings;
use crate::cli::{Failure, Global, output, session};
use crate::daemon::StopSignals;
use crate::exit::Exit;
use crate::format::{self, plain};
use crate::model::{Clock, SystemClock};
use crate::publish::{self, BlockedTable, Check, Comparison, PublishError, PublishReport, PublishSettings, PublishUrl};
use crate::store::RefusedRow;

#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  crm-mirror publish\n  crm-mirror publish --full --json\n  crm-mirror publish --verify --repair"
)]
pub struct PublishArgs {
    /// Load everything again.
    #[arg(long)]
    full: bool,
    /// Send what changed, then compare every value of both sides, and name the differences.
    #[arg(long)]
    verify: bool,
    /// Repair the differences.
    #[arg(long, requires = "verify")]
    repair: bool,
}

pub fn run(global: &Global, args: &PublishArgs) -> Result<Exit, Failure> {
    let config = global.load()?;
    let url = PublishUrl::new(&config.publish.url()?)?;
    let runtime = session::runtime()?;
    let report = runtime.block_on(async {
        let mut signals = StopSignals::listen()?;
        let compare = if args.verify { Check::Compare } else { Check::None };
        let check = if args.repair { Check::Repair } else { compare };
        let settings = PublishSettings { full: args.full, check, ..publish_settings(&config) };
        tokio::select! {
            report = publish::publish(&url, &settings, SystemClock.now()) => report.map_err(Failure::from),
            () = signals.next() => Err(Failure::new(Exit::Paused, "publishing was interrupted")
                .hint("nothing was lost: the next publish continues where this one stopped")),
        }
    });
    runtime.shutdown_background();
    let report = report?;
    output::report(global.json, &report, || text(&report, &config.publish.schema))?;
    if !report.blocked.is_empty() {
        output::note("hint: undo what was changed in the schema: the next publish loads the table again");
        return Ok(Exit::Config);
    }
    let is_equal = report.comparison.as_ref().is_none_or(|found| found.left() == 0);
    Ok(if report.refused == 0 && is_equal { Exit::Done } else { Exit::Differences })
}

/// The maximum number of differences in text output; JSON has up to 10,000.
const SHOWN: usize = 50;

fn comparison(found: &Comparison, is_whole: bool) -> Vec<String> {
    let rows = format::counted(found.rows, "row", "rows");
    if found.differences == 0 {
        let of = if is_whole { "" } else { " of the tables that are published" };
        return vec![format!("{rows} compared: every value{of} is equal")];
    }
    let differences = format::counted(found.differences, "difference", "differences");
    let verdict = match found.left() {
        0 => "all repaired".to_string(),
        left if found.repaired == 0 => format!("`--verify --repair` repairs {}", if left == 1 { "it" } else { "them" }),
        left => format!("{} repaired, {} left", format::count(found.repaired), format::count(left)),
    };
    let mut lines = vec![format!("{rows} compared: {differences}, {verdict}")];
    lines.extend(found.differing.iter().take(SHOWN).map(|difference| format!("  {}", plain(&difference.to_string()))));
    let more = found.differences.saturating_sub(SHOWN as u64);
    if more > 0 {
        lines.push(format!("  … and {} more; `--json` has up to 10,000", format::count(more)));
    }
    lines
}

/// What a published copy lacks, as `publish` and `status` say it.
pub(in crate::cli) fn left_out(left_behind: &[String], refused: u64, refused_rows: &[RefusedRow]) -> Vec<String> {
    let mut lines: Vec<String> = left_behind.iter().map(|left| format!("left behind: {}", plain(left))).collect();
    if refused > 0 {
        lines.push(format!("the database refuses {}:", format::counted(refused, "row", "rows")));
    }
    let refused = |row: &RefusedRow| format!("  {} {}: {}", row.table, plain(&row.name), plain(&row.reason));
    lines.extend(refused_rows.iter().map(refused));
    lines
}

fn text(report: &PublishReport, schema: &str) -> String {
    let mut lines = vec![format!("published to {}, schema {schema}", report.server)];
    if let Some(why) = &report.reloaded {
        lines.push(format!("loaded ({why})"));
        lines.extend(report.loaded.iter().map(|(table, rows)| format!("  {table}: {}", format::count(*rows))));
    }
    lines.push(format!(
        "sent {} and {} of the feed",
        format::counted(report.records, "record", "records"),
        format::counted(report.changes, "entry", "entries")
    ));
    let not_copied = |object| format!("{object} are not published yet: their first copy is not finished");
    lines.extend(report.not_copied.iter().map(not_copied));
    let blocked = |table: &BlockedTable| format!("{} is not published: {}", table.table, plain(&table.reason));
    lines.extend(report.blocked.iter().map(blocked));
    lines.extend(left_out(&report.left_behind, report.refused, &report.refused_rows));
    let compared = report.comparison.as_ref();
    lines.extend(compared.into_iter().flat_map(|found| comparison(found, report.blocked.is_empty())));
    lines.push(format!("cursor: {}", report.cursor));
    lines.join("\n")
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Failure {
        match error {
            PublishError::Output(error) => error.into(),
            error => Failure::hinted(Exit::of_publish(&error), error.hint(), error),
        }
    }
}
