//! `crm-mirror outbox`: lists the waiting edits, and records decisions about them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::app::person;
use crate::cli::ui::cost::EditPrice;
use crate::cli::verbs::edit;
use crate::cli::verbs::show::time;
use crate::cli::{Failure, Global, output};
use crate::config::Config;
use crate::exit::Exit;
use crate::format;
use crate::model::{EditState, HELD_COMMANDS, Instant, Ru};
use crate::outbox::user_decisions::{self, Decided, Decision, UndoEdit};
use crate::store::outbox_report::{self, Edit, TrailLine};
use crate::store::{Reader, write_beside};

#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  crm-mirror outbox\n  crm-mirror outbox show 7\n  crm-mirror outbox drop --all\n  crm-mirror outbox release --all\n  crm-mirror outbox resolve 7 --mine"
)]
pub struct OutboxArgs {
    #[command(subcommand)]
    what: Option<OutboxVerb>,
}

#[derive(clap::Args, Clone, Debug)]
struct WhichEdits {
    /// The ids of the edits.
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<i64>,
    /// All of them.
    #[arg(long)]
    all: bool,
    /// Do not ask for confirmation.
    #[arg(long)]
    yes: bool,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum OutboxVerb {
    /// List the edits that wait, and those that were rejected.
    List {
        /// Also list finished edits: applied, dropped and replaced.
        #[arg(long)]
        all: bool,
    },
    /// Show one edit: its changes, the service's values, and its history.
    Show {
        /// The id of the edit.
        id: i64,
    },
    /// Retry an edit that was rejected, dropped or in conflict, or that waits for its next attempt.
    Retry {
        /// The id of the edit.
        id: i64,
        /// Do not ask for confirmation where the edit may have been applied before.
        #[arg(long)]
        yes: bool,
    },
    /// Send edits that are held. One that an assistant proposed must be named by its id.
    Release(WhichEdits),
    /// Discard edits. --all means those that wait, are held or are in conflict; an edit that was sent must be named by
    /// its id.
    Drop(WhichEdits),
    /// Revert applied edits: each field returns to its previous value, if it still has the value of the edit.
    #[command(group = clap::ArgGroup::new("undone").required(true))]
    Undo {
        /// The ids of the edits.
        #[arg(value_name = "ID", group = "undone")]
        ids: Vec<i64>,
        /// All edits that were applied at this time or later, and not reverted since.
        #[arg(long, value_name = "TIME", group = "undone", value_parser = time)]
        since: Option<Instant>,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
    },
    /// Resolve a conflict.
    #[command(group = clap::ArgGroup::new("whose").required(true))]
    Resolve {
        /// The id of the edit.
        id: i64,
        /// Replace the service's value by the edit.
        #[arg(long, group = "whose")]
        mine: bool,
        /// Keep the service's value, and drop the edit.
        #[arg(long, group = "whose")]
        theirs: bool,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
    },
}

pub fn run(global: &Global, args: &OutboxArgs) -> Result<Exit, Failure> {
    let config = global.load()?;
    let (database, json) = (config.database.as_path(), global.json);
    let one = |id: &i64, yes: &bool| WhichEdits { ids: vec![*id], all: false, yes: *yes };
    let (which, decision) = match &args.what {
        None => return list(database, false, json),
        Some(OutboxVerb::List { all }) => return list(database, *all, json),
        Some(OutboxVerb::Show { id }) => return show(database, *id, json),
        Some(OutboxVerb::Undo { .. }) if !config.write_back.enabled => return Err(edit::off()),
        Some(OutboxVerb::Undo { ids, since, yes }) => return undo(&config, ids, *since, *yes, json),
        Some(OutboxVerb::Retry { id, yes }) => (one(id, yes), Decision::Retry),
        Some(OutboxVerb::Release(which)) => (which.clone(), Decision::Release),
        Some(OutboxVerb::Drop(which)) => (which.clone(), Decision::Drop),
        Some(OutboxVerb::Resolve { id, mine, yes, .. }) => {
            (one(id, yes), if *mine { Decision::Mine } else { Decision::Theirs })
        }
    };
    if !config.write_back.enabled && matches!(decision, Decision::Retry | Decision::Mine | Decision::Release) {
        return Err(edit::off());
    }
    let edits = named(database, &which, decision)?;
    let yes = which.yes || decision == Decision::Retry && !edits.iter().any(|edit| edit.in_doubt());
    if !yes && !edits.is_empty() && !confirmed_edits(&config, &edits, decision)? {
        return Ok(Exit::Done);
    }
    let ids: Vec<i64> = edits.iter().map(|edit| edit.id).collect();
    let now = Instant::system_now();
    let decided: Vec<Decided> = write_beside(database, |tx| {
        tx.by(person());
        match which.all {
            true => user_decisions::decide_all(tx, &ids, decision, now),
            false => ids.iter().map(|id| user_decisions::decide(tx, *id, decision, now)).collect::<Result<_, _>>(),
        }
    })?;
    if let ([one], false) = (decided.as_slice(), which.all) {
        return Ok(output::report(json, one, || decided_text(one, decision))?);
    }
    let what = format::counted(decided.len() as u64, "edit is", "edits are");
    let mut text = format!("{what} {}", if decision == Decision::Drop { "dropped" } else { "queued" });
    let doubtful = decided.iter().filter(|decided| decided.in_doubt).count() as u64;
    if doubtful > 0 {
        text.push_str(&format!("; {} of them may have been applied", format::count(doubtful)));
    }
    Ok(output::report(json, &BTreeMap::from([("edits", &decided)]), || text)?)
}

/// The edits to decide on. `--all` selects the edits that the decision applies to.
fn named(database: &Path, which: &WhichEdits, decision: Decision) -> Result<Vec<Edit>, Failure> {
    let reader = Reader::open(database)?;
    let tx = reader.begin()?;
    if which.all {
        let mut edits = outbox_report::edits(&tx, false)?;
        edits.retain(|edit| decision.means(edit));
        return Ok(edits);
    }
    which.ids.iter().map(|id| Ok(outbox_report::edit_line(&tx, *id)?)).collect()
}

const SHOWN: usize = 5;

fn confirmed_edits(config: &Config, edits: &[Edit], decision: Decision) -> Result<bool, Failure> {
    let what = format::counted(edits.len() as u64, "edit", "edits");
    let question = match decision {
        Decision::Mine => "Replace the service's value?".into(),
        Decision::Release => format!("Send {what}?"),
        Decision::Retry => "It may have been applied before. Send it again?".into(),
        _ => format!("Discard {what}?"),
    };
    let mut text: String = edits.iter().take(SHOWN).map(edit_text).collect();
    if decision == Decision::Release && edits.iter().any(|edit| edit.in_doubt()) {
        text.push_str(
            "this file is a copy: release its edits only if the original, which may send them too, is out of use\n",
        );
    }
    if matches!(decision, Decision::Release | Decision::Mine | Decision::Retry) {
        text.push_str(&format!("{}\n", EditPrice::of(config, outbox_report::price(edits))?.text()));
    }
    output::confirm(&format!("{text}{question}"))
}

fn undo(config: &Config, ids: &[i64], since: Option<Instant>, yes: bool, json: bool) -> Result<Exit, Failure> {
    let database = config.database.as_path();
    let ids = match since {
        Some(since) => outbox_report::applied_since(&Reader::open(database)?.begin()?, since)?,
        None => ids.to_vec(),
    };
    if !yes && !ids.is_empty() {
        // Planned in a transaction that changes nothing, so that the question shows what would be done.
        let planned = write_beside(database, |tx| user_decisions::plan_undo(tx, &ids))?;
        let mut lines: String = planned.iter().take(SHOWN).map(undone).collect();
        let conflicts = planned.iter().filter(|of_record| !of_record.changed.is_empty()).count() as u64;
        if conflicts > 0 {
            let what = format::counted(conflicts, "record was", "records were");
            lines.push_str(&format!("{what} changed since: the undo of it ends in conflict and changes nothing\n"));
        }
        let updates = planned.iter().filter(|of_record| !of_record.fields.is_empty()).count() as u64;
        lines.push_str(&format!("{}\n", EditPrice::of(config, Ru::of_edits(updates, 0))?.text()));
        let question = format!("Revert {}?", format::counted(ids.len() as u64, "edit", "edits"));
        if updates > 0 && !output::confirm(&format!("{lines}{question}"))? {
            return Ok(Exit::Done);
        }
    }
    let undone_records = write_beside(database, |tx| {
        tx.by(person());
        user_decisions::undo(tx, &ids, Instant::system_now())
    })?;
    let line = |of: &UndoEdit| match of.edit {
        Some(edit) => format!("edit {edit} is queued: {}", undone(of)),
        None => format!("nothing to do: {}", undone(of)),
    };
    let text = || match undone_records.is_empty() {
        true => "nothing to do: no edit that was applied since then is left to undo".into(),
        false => undone_records.iter().map(line).collect(),
    };
    Ok(output::report(json, &BTreeMap::from([("edits", &undone_records)]), text)?)
}

fn undone(of: &UndoEdit) -> String {
    let ids: Vec<String> = of.undoes.iter().map(i64::to_string).collect();
    let edits = if ids.len() == 1 { "edit" } else { "edits" };
    let mut text = format!(
        "{} {}, {edits} {}\n{}",
        of.object,
        output::plain(of.record.as_str()),
        ids.join(", "),
        edit::lines(&of.fields)
    );
    for (what, columns) in [
        ("changed since, so this ends in conflict", &of.changed),
        ("not reverted, because another edit waits", &of.waiting),
    ] {
        if !columns.is_empty() {
            text.push_str(&format!("  {what}: {}\n", columns.join(", ")));
        }
    }
    text
}

fn decided_text(decided: &Decided, decision: Decision) -> String {
    let what = match decided.state {
        EditState::Sending if decision == Decision::Retry => "is tried again now",
        EditState::Sending => "is resumed: its record is read back, then the same request is sent",
        EditState::Dropped if decided.in_doubt => "is dropped: it may have been applied",
        EditState::Dropped => "is dropped",
        _ => "is queued",
    };
    format!("edit {} {what}\n{}", decided.edit, edit::lines(&decided.fields))
}

#[derive(Serialize)]
struct EditWithTrail<'a> {
    #[serde(flatten)]
    edit: &'a Edit,
    trail: &'a [TrailLine],
}

pub(super) fn list(database: &Path, all: bool, json: bool) -> Result<Exit, Failure> {
    let reader = Reader::open(database)?;
    let tx = reader.begin()?;
    let edits = outbox_report::edits(&tx, all)?;
    if json {
        return Ok(output::json(&BTreeMap::from([("edits", &edits)]))?);
    }
    let now = Instant::system_now();
    let titles = ["edit", "object", "record", "name", "state", "made", "changes"];
    let rows = edits.iter().map(|edit| {
        vec![
            edit.id.to_string(),
            edit.object.to_string(),
            edit.record.to_string(),
            edit.name.clone().unwrap_or_default(),
            edit.state.as_str().into(),
            edit.queued_at.parse().map_or_else(|_| edit.queued_at.clone(), |at| format::when(at, now)),
            changes(edit),
        ]
    });
    if edits.is_empty() {
        output::text(if all { "there are no edits" } else { "no edits are waiting" })?;
    } else {
        output::text(&output::table(&titles, &[0], rows))?;
    }
    let rejected = "`retry ID` sends it again, `drop ID` gives it up";
    for (state, then) in [(EditState::Held, HELD_COMMANDS), (EditState::Rejected, rejected)] {
        let number = edits.iter().filter(|edit| edit.state == state).count() as u64;
        if number > 0 {
            let (what, state) = (format::counted(number, "edit is", "edits are"), state.as_str());
            output::note(&format!("{what} {state}: `crm-mirror outbox show ID` says why; {then}"));
        }
    }
    Ok(Exit::Done)
}

pub(super) fn changes(edit: &Edit) -> String {
    let fields = edit.fields.iter();
    let changes: Vec<String> =
        fields.map(|(column, (_, after))| format!("{column} = {}", edit::shown(after))).collect();
    changes.join(", ")
}

fn show(database: &Path, id: i64, json: bool) -> Result<Exit, Failure> {
    let reader = Reader::open(database)?;
    let tx = reader.begin()?;
    let (edit, trail) = outbox_report::edit(&tx, id)?;
    let titles = ["at", "from", "to", "who", "why"];
    let row = |TrailLine { at, from, to, who, why }: TrailLine| {
        vec![at, from.unwrap_or_default(), to, who.unwrap_or_default(), why]
    };
    let text = || edit_text(&edit) + &output::table(&titles, &[], trail.iter().cloned().map(row));
    Ok(output::report(json, &EditWithTrail { edit: &edit, trail: &trail }, text)?)
}

fn edit_text(edit: &Edit) -> String {
    let name = edit.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let mut text = format!(
        "edit {} of {} {}{}: {}, made with {}\n",
        edit.id,
        edit.object,
        output::plain(edit.record.as_str()),
        output::plain(&name),
        edit.state.as_str(),
        edit.source
    );
    let about = [
        edit.undoes.map(|undoes| format!("reverts edit {undoes}\n")),
        edit.behind.map(|conflict| format!("waits, because edit {conflict} of the same record is in conflict\n")),
        edit.awaits_removal.then(|| "its record seems to be removed: see `crm-mirror status`\n".into()),
        edit.not_before.as_ref().filter(|until| is_ahead(until)).map(|until| format!("next attempt at {until}\n")),
        edit.unreadable.as_ref().map(|why| format!("cannot be read: {}\n", output::plain(why))),
        edit.merged_into.map(|carrier| format!("sent together with edit {carrier}\n")),
    ];
    text.extend(about.into_iter().flatten());
    for (column, (before, after)) in &edit.fields {
        text.push_str(&format!(
            "  {column}\n    before  {}\n    after   {}\n",
            edit::whole(before),
            edit::whole(after)
        ));
        if let Some(there) = edit.theirs.as_ref().and_then(|theirs| theirs.get(column)) {
            text.push_str(&format!("    theirs  {}\n", edit::whole(there)));
        }
    }
    let answer: Option<Value> = edit.answer.as_ref().and_then(|answer| serde_json::from_str(answer.get()).ok());
    if let Some(message) = answer.as_ref().and_then(|answer| answer["message"].as_str()) {
        let whose = if edit.status.is_some() { "answer of the service" } else { "reason" };
        text.push_str(&format!("{whose}: {}\n", output::plain(message)));
    }
    text.push('\n');
    text
}

fn is_ahead(at: &str) -> bool {
    at.parse().is_ok_and(|at: Instant| at > Instant::system_now())
}
