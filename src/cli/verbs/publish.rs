//! `crm-mirror publish`: publishes the mirror to PostgreSQL, once.

use crate::cli::signals::StopSignals;
use crate::cli::ui::output::{self, plain};
use crate::cli::{Failure, Global, session};
use crate::exit::Exit;
use crate::format;
use crate::model::{Clock, SystemClock};
use crate::publish::{self, PublishError, PublishReport, PublishSettings, PublishUrl};

/// Publish the changes to the PostgreSQL database of `[publish]`, and end.
///
/// The first publish loads everything; later ones send only what changed. Ctrl-C and kills lose nothing: the next
/// publish continues where this one stopped. The daemon publishes automatically.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror publish\n  crm-mirror publish --full --json")]
pub struct PublishArgs {
    /// Load everything again.
    #[arg(long)]
    full: bool,
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
///
/// # Errors
/// [`Exit::Differences`] if the database refuses rows, [`Exit::Unavailable`] if the database is unavailable, [`Exit::Config`] if it refuses the user or cannot store a
/// mirror.
pub fn run(global: &Global, args: &PublishArgs) -> Result<Exit, Failure> {
    let config = global.load()?;
    let url = PublishUrl::new(&config.publish.url()?)?;
    let runtime = session::runtime()?;
    let report = runtime.block_on(async {
        let mut signals = StopSignals::listen()?;
        let settings = PublishSettings { full: args.full, ..PublishSettings::of(&config.database, &config.publish) };
        tokio::select! {
            report = publish::publish(&url, &settings, SystemClock.now()) => report.map_err(Failure::from),
            () = signals.next() => Err(Failure::new(Exit::Paused, "publishing was interrupted")
                .hint("nothing was lost: the next publish continues where this one stopped")),
        }
    });
    runtime.shutdown_background();
    let report = report?;
    if args.json {
        output::json(&report)?;
    } else {
        output::text(&text(&report, url.place(), &config.publish.schema))?;
    }
    Ok(if report.refused == 0 { Exit::Done } else { Exit::Differences })
}

fn text(report: &PublishReport, place: &str, schema: &str) -> String {
    let mut lines = vec![format!("published to {place}, schema {schema}")];
    if let Some(why) = &report.reloaded {
        lines.push(format!("loaded everything: {why}"));
        lines.extend(report.loaded.iter().map(|(table, rows)| format!("  {table}: {}", format::count(*rows))));
    }
    lines.push(format!(
        "sent {} and {} of the feed",
        format::counted(report.records, "record", "records"),
        format::counted(report.changes, "entry", "entries")
    ));
    lines.extend(
        report
            .not_copied
            .iter()
            .map(|object| format!("{} are not published yet: their first copy is not finished", object)),
    );
    lines.extend(report.left_behind.iter().map(|left| format!("left behind: {left}")));
    if report.refused > 0 {
        lines.push(format!("the database refuses {}:", format::counted(report.refused, "row", "rows")));
    }
    let refused = report.refused_rows.iter();
    lines.extend(refused.map(|row| format!("  {} {}: {}", row.table, plain(&row.name), plain(&row.reason))));
    lines.push(format!("cursor: {}", report.cursor));
    lines.join("\n")
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Failure {
        let hint = error.hint();
        let failure = Failure::new(Exit::of_publish(&error), error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}
