//! `crm-mirror verify`: compares the mirror with the service.

use serde::Serialize;
use serde_json::json;

use crate::app::Summary;
use crate::cli::args::one_of;
use crate::cli::session::{self, Finished};
use crate::cli::ui::output;
use crate::cli::verbs::sync;
use crate::cli::{Failure, Global};
use crate::exit::Exit;
use crate::format;
use crate::model::{Object, Resource, Ru};
use crate::store::RunOutcome;
use crate::sync::findings::Difference;
use crate::sync::{Acceptance, Findings, Job, Selection};

/// The maximum number of differences in text output; JSON has up to a thousand per object.
const SHOWN: usize = 50;

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror verify\n  crm-mirror verify contacts --full --repair")]
pub struct VerifyArgs {
    /// What to verify [default: contacts and companies].
    #[arg(value_name = "OBJECT", value_parser = one_of::<Resource, 2>(Object::ALL.map(|object| object.resource().as_str())))]
    objects: Vec<Resource>,
    /// Compare every listed field of every record, at 1 RU per 100 records.
    #[arg(long)]
    full: bool,
    /// Repair the differences.
    #[arg(long)]
    repair: bool,
    /// With --repair: remove what the service no longer has, even if it looks like an outage.
    #[arg(long, requires = "repair")]
    accept_removals: bool,
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct VerifyDocument<'a> {
    run: i64,
    ru: u64,
    repaired: bool,
    objects: Vec<OfObject<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct OfObject<'a> {
    object: Resource,
    clean: bool,
    #[serde(flatten)]
    findings: &'a Findings,
}

pub fn run(global: &Global, args: &VerifyArgs) -> Result<Exit, Failure> {
    let config = global.load_or_place(None)?;
    let job = Job::Verify {
        objects: Selection::named(&args.objects),
        full: args.full,
        repair: args.repair,
        accept: Acceptance { removals: args.accept_removals, workspace: false },
    };
    let body = json!({
        "objects": args.objects, "full": args.full, "repair": args.repair, "accept_removals": args.accept_removals,
    });
    match session::run(&config, &job, &body, None)? {
        None => Ok(Exit::Paused),
        Some(Finished { summary, found }) => {
            if args.json {
                output::json(&document(&summary, &found, args.repair))?;
            } else {
                print(&summary, &found, args.repair)?;
            }
            Ok(ending(&summary, &found, args.repair))
        }
    }
}

fn document<'a>(summary: &'a Summary, found: &'a [(Object, Findings)], repaired: bool) -> VerifyDocument<'a> {
    let objects = found.iter().map(|(object, findings)| OfObject {
        object: object.resource(),
        clean: findings.is_clean(),
        findings,
    });
    VerifyDocument {
        run: summary.run,
        ru: summary.ru.spent,
        repaired,
        objects: objects.collect(),
        notes: &summary.notes,
    }
}

pub(super) fn print(summary: &Summary, found: &[(Object, Findings)], repaired: bool) -> Result<(), Failure> {
    for (object, findings) in found {
        let how = format!(
            "{}, {}",
            format::counted(findings.ranges, "range", "ranges"),
            format::counted(findings.compared, "record", "records")
        );
        let verdict = if findings.is_clean() {
            "equal to the service".to_string()
        } else {
            let repaired = if repaired && findings.count() > 0 { ", repaired" } else { "" };
            let undecided = match findings.undecided {
                0 => String::new(),
                undecided => format!("; {} undecided", format::count(undecided)),
            };
            format!(
                "{} missing, {} extra, {} different{repaired}{undecided}",
                format::count(findings.missing),
                format::count(findings.extra),
                format::count(findings.different)
            )
        };
        output::text(&format!("{}: {verdict} ({how})", object.resource()))?;
    }
    let rows: Vec<Vec<String>> = found.iter().flat_map(|(_, findings)| &findings.differences).flat_map(lines).collect();
    if !rows.is_empty() {
        let titles = ["object", "id", "difference", "column", "here", "there"];
        let more = rows.len().saturating_sub(SHOWN);
        output::text(&output::table(&titles, &[], rows.into_iter().take(SHOWN)))?;
        if more > 0 {
            output::text(&format!("… and {} more; `--json` has them", format::count(more as u64)))?;
        }
    }
    Ok(output::text(&format!("{} spent", format::ru(Ru::new(summary.ru.spent))))?)
}

fn lines(difference: &Difference) -> Vec<Vec<String>> {
    let line = |column: &str, here: String, there: String| {
        vec![
            difference.object.to_string(),
            difference.id.to_string(),
            difference.kind.to_string(),
            column.to_string(),
            here,
            there,
        ]
    };
    if difference.fields.is_empty() {
        return vec![line("", String::new(), String::new())];
    }
    let short = |value: &serde_json::Value| value.to_string().chars().take(40).collect();
    difference.fields.iter().map(|field| line(&field.column, short(&field.here), short(&field.there))).collect()
}

fn ending(summary: &Summary, found: &[(Object, Findings)], repaired: bool) -> Exit {
    for note in &summary.notes {
        output::note(&format!("warning: {note}"));
    }
    for missing in &summary.missing_scopes {
        output::note(&format!("warning: {} were not verified: the key lacks `{}`", missing.object, missing.scope));
    }
    if summary.pause.is_some() {
        output::note("suspended by the budget or a hold\nhint: run it again later");
        return Exit::Paused;
    }
    sync::note_outages(summary, |object| format!("verify {object} --repair"));
    if summary.outcome == RunOutcome::Refused {
        return Exit::of_outcome(summary.outcome);
    }
    if found.iter().all(|(_, findings)| findings.open == 0) {
        return Exit::Done;
    }
    output::note(if found.iter().all(|(_, findings)| findings.count() == 0) {
        "hint: no answer of the service decided about some records, which may come from a lagging replica; run it again \
         in a quarter of an hour"
    } else if repaired {
        "hint: some differences could not be repaired in this run; run it again later"
    } else {
        "hint: `crm-mirror verify --repair` repairs the differences"
    });
    Exit::Differences
}
