//! `crm-mirror sync`, `resync`, `verify` and `push`: one run, in the foreground or through the daemon.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::app::{Mirror, MirrorSettings, MissingScope, Summary};
use crate::cli::session;
use crate::cli::ui::cost;
use crate::cli::verbs::edit;
use crate::cli::{Failure, Global, logging, one_of, output};
use crate::config::Config;
use crate::daemon::job::Trigger;
use crate::daemon::progress_log::ProgressLines;
use crate::exit::Exit;
use crate::format;
use crate::model::{Instant, Object, Resource, Ru, SystemClock};
use crate::store::{RunOutcome, StoreError};
use crate::sync::findings::Difference;
use crate::sync::{Findings, Job};

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror resync contacts\n  crm-mirror resync --accept-removals")]
pub struct ResyncArgs {
    #[command(flatten)]
    pub(super) common: RunArgs,
    /// Remove what the service no longer has, even if there are so many that it looks like an outage.
    #[arg(long)]
    pub(super) accept_removals: bool,
}

#[derive(clap::Args, Clone, Debug)]
pub struct RunArgs {
    /// The objects to update [default: everything].
    #[arg(value_name = "OBJECT", value_parser = one_of::<Resource, 4>(Resource::ALL.map(Resource::as_str)))]
    objects: Vec<Resource>,
    /// Mirror the workspace of the key instead of the one before, whose records are erased with their history; edits that
    /// wait are held.
    #[arg(long)]
    accept_workspace: bool,
    /// For timers: what fails is attempted again only when its delay is over, as by the daemon's schedule. Until it works,
    /// each run ends with 69.
    #[arg(long)]
    scheduled: bool,
    /// Show the estimated cost only. Counting costs 1 RU per object.
    #[arg(long)]
    dry_run: bool,
}

pub fn run(global: &Global, args: &RunArgs, job: Job, accept_removals: bool) -> Result<Exit, Failure> {
    let config = global.load()?;
    let job = Job { accept_removals, accept_workspace: args.accept_workspace, ..job.of(&args.objects) };
    if args.dry_run {
        return forecast(&config, &session::within(&config, &job)?, global.json);
    }
    let trigger = if args.scheduled { Trigger::Schedule } else { Trigger::Manual };
    run_now(&config, &job, trigger, global.json)
}

fn forecast(config: &Config, job: &Job, json: bool) -> Result<Exit, Failure> {
    logging::start(&config.log);
    let runtime = session::runtime()?;
    if runtime.block_on(session::daemon(config))?.is_some() {
        return Err(session::needs_the_mirror_alone());
    }
    let mut setup = MirrorSettings::new(config.clone())?;
    let estimate = async |database: &Path| {
        setup.config.database = database.into();
        let mirror = Mirror::open(setup, Arc::new(SystemClock), Arc::new(ProgressLines::default())).await?;
        let forecast = mirror.forecast(job).await;
        mirror.close().await;
        Ok::<_, Failure>(forecast?)
    };
    let (path, is_there) = (&config.database, config.database.exists());
    let (forecast, left) = runtime.block_on(session::with_mirror(path, is_there, estimate))?;
    let (document, text) = cost::of_run(&forecast, left, &config.budget);
    Ok(output::report(json, &document, || text)?)
}

fn run_now(config: &Config, job: &Job, trigger: Trigger, json: bool) -> Result<Exit, Failure> {
    let Some((summary, _)) = session::run(config, job, trigger)? else { return Ok(Exit::Paused) };
    let shown = output::report(json, &summary, || summary.text(Instant::system_now()));
    let ended = ending(&summary);
    Ok(shown.map(|_| ended)?)
}

/// Prints on stderr which removals were refused, and the options of a command that accepts them.
fn note_outages(summary: &Summary, verb: &str, option: &str) {
    for outage in &summary.outages {
        let object = &outage.object;
        output::note(&format!(
            "error: {} of {} {object} would be removed at once, which looks like an outage: none was removed\n\
             hint: if they are really gone, `crm-mirror {verb} {object}{option} --accept-removals` removes them",
            format::count(outage.going),
            format::count(outage.of),
        ));
    }
}

fn ending(summary: &Summary) -> Exit {
    for MissingScope { object, scope } in &summary.missing_scopes {
        let what = match scope.ends_with(":write") {
            true => format!("edits of {object} are waiting"),
            false => format!("{object} were skipped"),
        };
        let hint = "hint: give the key this scope in the workspace console";
        output::note(&format!("warning: {what}: the key lacks `{scope}`\n{hint}"));
    }
    note_outages(summary, "resync", "");
    if summary.outcome == RunOutcome::Suspended {
        output::note(&summary.pause_sentence());
    }
    let push = &summary.push;
    if summary.kind == "push" && push.needs_attention() {
        output::note(
            "warning: some edits need a decision: `crm-mirror outbox` shows those that are held, in conflict or rejected",
        );
        if summary.outcome == RunOutcome::Done {
            return Exit::Differences;
        }
    }
    if summary.kind == "push" && summary.outcome == RunOutcome::Done && push.waiting > 0 {
        let waiting = format::counted(push.waiting, "edit is", "edits are");
        output::note(&format!("{waiting} still waiting: `crm-mirror outbox show EDIT` shows when it is tried again"));
        return Exit::Paused;
    }
    Exit::of_outcome(summary.outcome)
}

pub fn push(global: &Global) -> Result<Exit, Failure> {
    let config = global.load()?;
    if !config.write_back.enabled {
        return Err(edit::off());
    }
    if !config.database.exists() {
        return Err(StoreError::Missing { path: config.database }.into());
    }
    run_now(&config, &Job::push(), Trigger::Manual, global.json)
}

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
}

pub fn verify(global: &Global, args: &VerifyArgs) -> Result<Exit, Failure> {
    let config = global.load()?;
    let VerifyArgs { full, repair, accept_removals, .. } = *args;
    let job = Job { full, repair, accept_removals, ..Job::verify().of(&args.objects) };
    let Some((summary, found)) = session::run(&config, &job, Trigger::Manual)? else {
        return Ok(Exit::Paused);
    };
    let document = document(&summary, &found, args.repair);
    let shown = output::report(global.json, &document, || found_text(&summary, &found, args.repair));
    let ended = verified(&summary, &found, args.repair);
    Ok(shown.map(|_| ended)?)
}

fn document(summary: &Summary, found: &[(Object, Findings)], repaired: bool) -> Value {
    let of_object = |(object, findings): &(Object, Findings)| {
        let mut of_object = json!(findings);
        of_object["object"] = json!(object.resource());
        of_object["clean"] = findings.is_clean().into();
        of_object
    };
    json!({
        "run": summary.run,
        "ru": summary.ru.spent,
        "repaired": repaired,
        "objects": found.iter().map(of_object).collect::<Vec<Value>>(),
        "notes": notes(summary, found),
    })
}

/// What a verification says beside its findings: also what it did not compare.
fn notes(summary: &Summary, found: &[(Object, Findings)]) -> Vec<String> {
    let skipped = summary
        .missing_scopes
        .iter()
        .map(|missing| format!("{} were not verified: the key lacks `{}`", missing.object, missing.scope));
    let pending = found.iter().filter(|(_, findings)| findings.details_pending > 0).map(|(object, findings)| {
        format!("{}: {}; `crm-mirror sync` reads them", object.resource(), pending_details(findings))
    });
    summary.notes.iter().cloned().chain(skipped).chain(pending).collect()
}

fn pending_details(findings: &Findings) -> String {
    format::counted(findings.details_pending, "detail is not current", "details are not current")
}

pub(super) fn found_text(summary: &Summary, found: &[(Object, Findings)], repaired: bool) -> String {
    let mut text = String::new();
    for (object, findings) in found {
        let how = format!(
            "{}, {}",
            format::counted(findings.ranges, "range", "ranges"),
            format::counted(findings.compared, "record", "records")
        );
        let verdict = if findings.is_clean() && findings.details_pending > 0 {
            format!("its lists are equal; {}", pending_details(findings))
        } else if findings.is_clean() {
            "equal to the service".to_string()
        } else {
            let repaired = if repaired && findings.open == 0 { ", repaired" } else { "" };
            let refused = summary.outages.iter().find(|outage| outage.object == object.resource().as_str());
            let refused = refused.map_or(0, |outage| outage.going);
            let kept = [(refused, "refused"), (findings.undecided.saturating_sub(refused), "undecided")];
            let kept = kept.into_iter().filter(|(records, _)| *records > 0);
            let kept: String = kept.map(|(records, why)| format!("; {} {why}", format::count(records))).collect();
            format!(
                "{} missing, {} extra, {} different{repaired}{kept}",
                format::count(findings.missing),
                format::count(findings.extra),
                format::count(findings.different)
            )
        };
        text.push_str(&format!("{}: {verdict} ({how})\n", object.resource()));
    }
    let differences: Vec<&Difference> = found.iter().flat_map(|(_, findings)| &findings.differences).collect();
    if !differences.is_empty() {
        let titles = ["object", "id", "difference", "fields"];
        text.push_str(&output::table(&titles, &[], differences.iter().take(SHOWN).map(|difference| row(difference))));
    }
    if differences.len() > SHOWN {
        let more = format::count((differences.len() - SHOWN) as u64);
        text.push_str(&format!("… and {more} more; `--json` has them\n"));
    }
    text + &format!("{} spent", format::ru(Ru::new(summary.ru.spent)))
}

fn row(difference: &Difference) -> Vec<String> {
    let short = |value: &Value| output::cut(&value.to_string(), 40);
    let fields = difference.fields.iter();
    let fields = fields.map(|of| format!("{}: {} here, {} there", of.column, short(&of.here), short(&of.there)));
    let (object, id, kind) = (difference.object.to_string(), difference.id.to_string(), difference.kind.to_string());
    vec![object, id, kind, fields.collect::<Vec<_>>().join("; ")]
}

fn verified(summary: &Summary, found: &[(Object, Findings)], repaired: bool) -> Exit {
    for note in notes(summary, found) {
        output::note(&format!("warning: {note}"));
    }
    if summary.pause.is_some() {
        output::note(&summary.pause_sentence());
        return Exit::Paused;
    }
    note_outages(summary, "verify", " --repair");
    if summary.outcome == RunOutcome::Refused {
        return Exit::of_outcome(summary.outcome);
    }
    if found.iter().all(|(_, findings)| findings.open == 0) {
        return Exit::Done;
    }
    let is_undecided = found.iter().all(|(_, findings)| findings.count() == 0);
    output::note(if is_undecided && repaired {
        "hint: some records are undecided: a replica may lag behind, or a column lacks values, which `crm-mirror sync` \
         reads; run it again in a quarter of an hour"
    } else if is_undecided {
        // What looks only notes no first moment: a second look would decide nothing either.
        "hint: some records are undecided: a replica may lag behind, or a column lacks values, which `crm-mirror sync` \
         reads; `crm-mirror verify --repair`, and again in a quarter of an hour, decides"
    } else if repaired {
        "hint: some differences could not be repaired in this run; run it again later"
    } else {
        "hint: `crm-mirror verify --repair` repairs the differences"
    });
    Exit::Differences
}
