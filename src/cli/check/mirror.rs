//! The mirror: whether it exists and can be read, whose it is, and what keeps it from being right. It is opened read-only.

use super::facts::{CheckFacts, MirrorFacts};
use super::finding::Finding;
use super::service::ServiceReport;
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::format::{self, counted};
use crate::model::{HELD_COMMANDS, Object};
use crate::store::StoreError;
use crate::store::outbox_report::EditCounts;
use crate::sync::SyncError;

pub(super) fn check(facts: &CheckFacts<'_>) -> Vec<Finding> {
    let mirror = match &facts.mirror {
        Ok(mirror) => mirror,
        Err(error @ StoreError::Missing { .. }) => {
            return vec![Finding::ok("mirror.file", format!("{error}: `crm-mirror sync` creates it"))];
        }
        Err(error) => {
            let fix = error.hint().unwrap_or(
                "if it is damaged, move it away with its -wal and -shm; `crm-mirror sync` creates a new copy",
            );
            return vec![Finding::fail("mirror.file", Exit::of_store(error), error_chain(error), fix)];
        }
    };
    let status = &mirror.status;
    let rows = Object::ALL.map(|object| status.of(object).map_or(0, |held| held.rows));
    let held = format!(
        "{}, {}: {}, {}",
        status.database,
        format::bytes(status.bytes),
        counted(rows[0], "contact", "contacts"),
        counted(rows[1], "company", "companies"),
    );
    let mut findings = vec![Finding::ok("mirror.file", held)];
    let broken = status.broken_objects.iter().chain(&mirror.damaged_search);
    let broken: Vec<String> =
        broken.map(|broken| format!("the {} {}: {}", broken.kind, broken.name, broken.why)).collect();
    findings.push(match broken.is_empty() {
        true => Finding::ok("mirror.views", "every view in the file compiles"),
        false => {
            let fix = "change or drop them; a view works again once its columns are back";
            Finding::warn("mirror.views", broken.join("; "), fix)
        }
    });
    if !mirror.not_kept.is_empty() {
        let message = format!("not made by crm-mirror, and dropped when in its way: {}", mirror.not_kept.join(", "));
        let fix = "name the columns to index in `database.indexes`; let triggers be on tables of a file of your own";
        findings.push(Finding::warn("mirror.objects", message, fix));
    }
    findings.extend(waiting_edits(&status.edits));
    if let Some(until) = status.hold_until {
        let until = format!("{} ({})", format::moment(until), format::when(until, facts.now));
        let fix = "wait; or run `crm-mirror resume --now` if you know that the service answers again";
        let message = format!("rate limit: no request before {until}");
        findings.push(Finding::fail("mirror.hold", Exit::Paused, message, fix));
    }
    findings.extend(workspace(facts, mirror));
    findings
}

fn waiting_edits(EditCounts { held, conflict, .. }: &EditCounts) -> Option<Finding> {
    let (message, fix) = match (held, conflict) {
        (0, 0) => return None,
        (0, _) => (
            format!("{} in conflict", counted(*conflict, "edit is", "edits are")),
            "`crm-mirror outbox` lists them, `crm-mirror outbox resolve ID` decides on one",
        ),
        _ => (format!("{} held", counted(*held, "edit is", "edits are")), HELD_COMMANDS),
    };
    Some(Finding::warn("mirror.edits", message, fix))
}

/// Whether the mirror belongs to the workspace of the key.
fn workspace(facts: &CheckFacts<'_>, mirror: &MirrorFacts) -> Option<Finding> {
    let name = "mirror.workspace";
    let asked = facts.service.as_ref().ok();
    let api = facts.config.api().ok()?;
    let fix = "use the key of the mirrored workspace, or a different `database.path` for the other workspace";
    Some(match (mirror.is_of(api.base_url.as_str(), &api.key.fingerprint()), asked) {
        (None, _) => Finding::skip(name, "no run has read anything yet"),
        (Some(true), Some(asked)) if asked.is_key_refused() => {
            Finding::skip(name, "the key is refused: nothing shows which workspace it belongs to")
        }
        (Some(true), _) => Finding::ok(name, "the mirror belongs to this address and key"),
        (Some(false), Some(ServiceReport { recognised: Some(recognised), .. })) => match recognised {
            Ok(()) => {
                Finding::ok(name, "the key or the address is new, and known records exist: it is the same workspace")
            }
            Err(error @ SyncError::OtherWorkspace { .. }) => {
                Finding::fail(name, Exit::of_sync(error), error_chain(error), fix)
            }
            Err(error) => Finding::warn(name, format!("the key or the address is new: {}", error_chain(error)), fix),
        },
        (Some(false), _) => Finding::warn(
            name,
            "the mirror was made with a different key or address; the workspace was not compared",
            "the next run looks up known records first, for 1 RU, and stops if they do not exist",
        ),
    })
}
