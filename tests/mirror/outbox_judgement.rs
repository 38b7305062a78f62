//! Checks a history of edits at its end: by the service's log, and by the state and reason of each edit in the mirror.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crm_mirror::model::Instant;
use crm_mirror::sandbox::LoggedRequest;
use serde_json::Value;

use crate::outbox_histories::Ours;
use crate::outbox_values::{canonical, fields_of};
use crate::support::{Crm, Mirror};

/// The members of a record or a body, with custom ones at the same level.
fn flat(body: &Value) -> BTreeMap<String, Value> {
    let members = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let custom = members(&body["customFields"]);
    let all = members(body).into_iter().chain(custom).filter(|(name, _)| name != "customFields");
    all.map(|(name, value)| (name.clone(), canonical(&name, &value))).collect()
}

/// A request without an answer is repeated unchanged until the service forgets its key or the record was read.
fn repeats_unanswered_requests(entries: &[LoggedRequest]) -> Result<(), String> {
    let mut last: BTreeMap<&str, (&LoggedRequest, Instant)> = BTreeMap::new();
    for entry in entries {
        if entry.asked.method != "PATCH" {
            if entry.status == Some(200) {
                last.remove(entry.asked.path.as_str());
            }
            continue;
        }
        let request = |e: &LoggedRequest| (e.body.clone(), e.if_match.clone(), e.idempotency_key.clone());
        let mut first = entry.at;
        if let Some((before, first_sent)) = last.get(entry.asked.path.as_str()) {
            let same = request(before) == request(entry);
            // A truncated refusal is a refusal, too.
            let silent = match before.status {
                None => true,
                Some(200) => before.cut,
                Some(status) => status == 408 || status >= 500,
            };
            if silent && !same && entry.at.since(*first_sent) < Duration::from_secs(23 * 3_600) {
                return Err(format!("{} was not sent again as it was", entry.asked.path));
            }
            if same {
                first = *first_sent;
            }
        }
        last.insert(&entry.asked.path, (entry, first));
    }
    Ok(())
}

/// Within any hour a record has at most five updates, and five more for each of its edits that ended within that hour.
fn updates_are_bounded(entries: &[LoggedRequest], mirror: &Mirror) -> Result<(), String> {
    let conn = mirror.read();
    let mut stmt = conn
        .prepare(
            "SELECT o.record_id, e.at FROM outbox_events AS e JOIN outbox AS o ON o.id = e.outbox_id
             WHERE e.to_state NOT IN ('queued', 'held', 'sending')",
        )
        .unwrap();
    let rows = stmt.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))).unwrap();
    let ends: Vec<(String, Instant)> = rows.map(Result::unwrap).map(|(id, at)| (id, at.parse().unwrap())).collect();
    let updates: Vec<(&str, Instant)> = entries
        .iter()
        .filter(|entry| entry.asked.method == "PATCH")
        .map(|entry| (entry.asked.path.rsplit('/').next().unwrap_or_default(), entry.at))
        .collect();
    for (id, from) in &updates {
        let within = |at: Instant| at >= *from && at.since(*from).as_secs() < 3_600;
        let sent = updates.iter().filter(|(other, at)| other == id && within(*at)).count();
        let ended = ends.iter().filter(|(other, at)| other == id && within(*at)).count();
        if sent > 5 * (1 + ended) {
            return Err(format!("{sent} updates of {id} within the hour after {from}, and {ended} edits ended"));
        }
    }
    Ok(())
}

/// The final state of an edit.
struct Ended {
    state: String,
    group: i64,
    why: String,
}

/// How often each edit was carried out. Checks that each value was written by an edit, and that no value was overwritten
/// that the edit's author had not seen.
fn carried_out(
    entries: &[LoggedRequest],
    ours: &BTreeMap<i64, Ours>,
    before: &[Option<Value>],
) -> Result<BTreeMap<i64, u32>, String> {
    let mut times: BTreeMap<i64, u32> = BTreeMap::new();
    for (entry, before) in entries.iter().zip(before).filter(|(entry, _)| entry.changed) {
        let body: Value = serde_json::from_str(entry.body.as_deref().unwrap()).unwrap();
        let before = flat(before.as_ref().ok_or("an update of nothing was carried out")?);
        let id = entry.asked.path.rsplit('/').next().unwrap_or_default();
        let of_record = || ours.iter().filter(|(_, edit)| edit.id == id);
        let (mut carried, mut ambiguous) = (BTreeSet::new(), Vec::new());
        for (wire, new) in flat(&body) {
            let wrote_new = || of_record().filter(|(_, edit)| edit.wrote.get(&wire) == Some(&new)).map(|(n, _)| *n);
            let edit = wrote_new().max().ok_or_else(|| format!("{new} of {wire} was sent, which no edit wrote"))?;
            let replaced = &before[&wire];
            let of_ours = of_record().any(|(_, edit)| edit.wrote.get(&wire) == Some(replaced));
            let seen = of_record().any(|(n, other)| *n <= edit && other.saw.get(&wire) == Some(replaced));
            if !of_ours && !seen {
                return Err(format!("edit {edit} overwrote {replaced} of {wire} unseen"));
            }
            if fields_of(ours[&edit].object).iter().any(|field| field.wire == wire && field.is_unique()) {
                carried.insert(edit);
            } else {
                ambiguous.push(wrote_new().collect::<Vec<_>>());
            }
        }
        // A value that several edits wrote counts for one of them that was not carried out yet.
        for edits in ambiguous {
            if !edits.iter().any(|edit| carried.contains(edit)) {
                carried.extend(edits.into_iter().rfind(|edit| !times.contains_key(edit)));
            }
        }
        for edit in carried {
            *times.entry(edit).or_default() += 1;
        }
    }
    Ok(times)
}

/// Checks everything that must hold at the end of a history.
pub fn judge(crm: &Crm, mirror: &Mirror, ours: &BTreeMap<i64, Ours>, before: &[Option<Value>]) -> Result<(), String> {
    let differences = mirror.differences(crm);
    if let Some(first) = differences.first() {
        return Err(format!("{} differences, {first}", differences.len()));
    }
    if mirror.ledger_total() < crm.charged() {
        return Err(format!("the ledger says {}, the service charged {}", mirror.ledger_total(), crm.charged()));
    }
    let log = crm.sandbox.log();
    if log.len() != before.len() {
        return Err("the log and the observed requests differ in number".into());
    }
    let times = carried_out(log.entries(), ours, before)?;
    repeats_unanswered_requests(log.entries())?;
    updates_are_bounded(log.entries(), mirror)?;
    let ended = ended(mirror);
    for (id, edit) in ours {
        let Ended { state, group, why } = &ended[id];
        let times = times.get(id).copied().unwrap_or_default();
        if times > 1 {
            return Err(format!("edit {id} was carried out {times} times"));
        }
        // All values of the edit were replaced by a later edit of the same request.
        let replaced = edit.saw.keys().all(|wire| {
            ours.range(id + 1..).any(|(other, o)| ended[other].group == *group && o.saw.contains_key(wire))
        });
        let held = ours
            .range(..id)
            .any(|(other, o)| (o.object, &o.id) == (edit.object, &edit.id) && ended[other].state == "conflict");
        let right = match state.as_str() {
            "applied" => times == 1 || replaced,
            "queued" => held && times == 0,
            "replaced" => times == 0 && why.starts_with("replaced by a later edit"),
            "dropped" => times == 0 && why.starts_with("taken back"),
            "rejected" | "conflict" => !why.is_empty(),
            _ => false,
        };
        if !right {
            return Err(format!("edit {id} is {state} ({why}), and was carried out {times} times"));
        }
    }
    Ok(())
}

fn ended(mirror: &Mirror) -> BTreeMap<i64, Ended> {
    let conn = mirror.read();
    let mut stmt = conn
        .prepare(
            "SELECT o.id, o.state, coalesce(o.merged_into, o.id),
                    (SELECT why FROM outbox_events AS e WHERE e.outbox_id = o.id ORDER BY e.id DESC LIMIT 1)
             FROM outbox AS o",
        )
        .unwrap();
    let rows = stmt.query_map([], |row| {
        let ended = Ended { state: row.get(1)?, group: row.get(2)?, why: row.get(3)? };
        Ok((row.get(0)?, ended))
    });
    rows.unwrap().map(Result::unwrap).collect()
}
