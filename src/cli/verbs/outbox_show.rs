//! `crm-mirror outbox list` and `show`: edits as text and as JSON.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::cli::Failure;
use crate::cli::ui::output;
use crate::cli::verbs::edit;
use crate::exit::Exit;
use crate::format;
use crate::model::{EditState, HELD_COMMANDS, Instant};
use crate::outbox::user_decisions::DecideError;
use crate::store::Reader;
use crate::store::outbox_report::{self, EditLine, TrailLine};

#[derive(Serialize)]
struct EditWithTrail<'a> {
    #[serde(flatten)]
    edit: &'a EditLine,
    trail: &'a [TrailLine],
}

pub(super) fn list(database: &Path, all: bool, json: bool) -> Result<Exit, Failure> {
    let reader = Reader::open(database)?;
    let tx = reader.begin()?;
    let edits = outbox_report::edits(&tx, all)?;
    if json {
        output::json(&BTreeMap::from([("edits", &edits)]))?;
        return Ok(Exit::Done);
    }
    let now = Instant::system_now();
    let titles = ["edit", "object", "record", "name", "state", "made", "changes"];
    let rows = edits.iter().map(|edit| {
        vec![
            edit.id.to_string(),
            edit.object.to_string(),
            edit.record.clone(),
            edit.name.clone().unwrap_or_default(),
            edit.state.as_str().into(),
            edit.queued_at.parse().map_or_else(|_| edit.queued_at.clone(), |at| format::when(at, now)),
            changes(edit),
        ]
    });
    if edits.is_empty() {
        output::text(if all { "there are no edits" } else { "no edits are waiting" })?;
    } else {
        output::table(&titles, &[0], rows)?;
    }
    let held = edits.iter().filter(|edit| edit.state == EditState::Held).count() as u64;
    if held > 0 {
        let what = format::counted(held, "edit is", "edits are");
        output::note(&format!("{what} held: `crm-mirror outbox show ID` says why; {HELD_COMMANDS}"));
    }
    let rejected = outbox_report::rejected(&tx)?;
    if !all && rejected > 0 {
        let what = format::counted(rejected, "edit was", "edits were");
        output::note(&format!("{what} rejected: `crm-mirror outbox --all` shows them"));
    }
    Ok(Exit::Done)
}

/// The columns that an edit changes, and their new values.
pub(super) fn changes(edit: &EditLine) -> String {
    let fields = edit.fields.iter();
    let changes: Vec<String> =
        fields.map(|(column, (_, after))| format!("{column} = {}", edit::shown(after))).collect();
    changes.join(", ")
}

pub(super) fn show(database: &Path, id: i64, json: bool) -> Result<Exit, Failure> {
    let reader = Reader::open(database)?;
    let (edit, trail) = outbox_report::edit(&reader.begin()?, id)?.ok_or(DecideError::NoEdit(id))?;
    if json {
        output::json(&EditWithTrail { edit: &edit, trail: &trail })?;
        return Ok(Exit::Done);
    }
    output::text(&text(&edit))?;
    let titles = ["at", "from", "to", "who", "why"];
    let rows = trail
        .into_iter()
        .map(|step| vec![step.at, step.from.unwrap_or_default(), step.to, step.who.unwrap_or_default(), step.why]);
    output::table(&titles, &[], rows)?;
    Ok(Exit::Done)
}

/// An edit as text, without its history.
pub(super) fn text(edit: &EditLine) -> String {
    let name = edit.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let mut text = format!(
        "edit {} of {} {}{}: {}, made with {}\n",
        edit.id,
        edit.object,
        output::plain(&edit.record),
        output::plain(&name),
        edit.state.as_str(),
        edit.source
    );
    if let Some(undoes) = edit.undoes {
        text.push_str(&format!("reverts edit {undoes}\n"));
    }
    if let Some(until) = &edit.not_before {
        text.push_str(&format!("next attempt at {until}\n"));
    }
    if let Some(why) = &edit.unreadable {
        text.push_str(&format!("cannot be read: {}\n", output::plain(why)));
    }
    if let Some(carrier) = edit.merged_into {
        text.push_str(&format!("sent together with edit {carrier}\n"));
    }
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
    if let Some(message) = answer_text(edit) {
        text.push_str(&format!("answer of the service: {}\n", output::plain(&message)));
    }
    text.push('\n');
    text
}

fn answer_text(edit: &EditLine) -> Option<String> {
    let answer: Value = serde_json::from_str(edit.answer.as_ref()?.get()).ok()?;
    let mut text = answer.get("message")?.as_str()?.to_string();
    let details = answer.get("details").and_then(Value::as_array);
    for detail in details.into_iter().flatten() {
        if let (Some(field), Some(message)) = (detail["field"].as_str(), detail["message"].as_str()) {
            text.push_str(&format!("; {field} {message}"));
        }
    }
    Some(text)
}
