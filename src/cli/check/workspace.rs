//! The workspace: whether the mirror belongs to the workspace of the key.

use super::facts::CheckFacts;
use super::finding::Finding;
use super::mirror;
use super::service::ServiceReport;
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::sync::SyncError;

pub(super) fn check(facts: &CheckFacts<'_>) -> Option<Finding> {
    let name = "mirror.workspace";
    let (config, here, asked) = (facts.config, facts.here()?, facts.service.as_ref().ok());
    let api = config.api().ok()?;
    let Some(ours) = mirror::is_ours(here, api.base_url.as_str(), &api.key.fingerprint()) else {
        return Some(Finding::skip(name, "no run has read anything yet"));
    };
    if ours && asked.is_some_and(ServiceReport::is_key_refused) {
        return Some(Finding::skip(name, "the key is refused: nothing shows which workspace it belongs to"));
    }
    if ours {
        return Some(Finding::ok(name, "the mirror belongs to this address and key"));
    }
    let fix = "use the key of the mirrored workspace, or a different `database.path` for the other workspace";
    Some(match asked.and_then(|asked| asked.recognised.as_ref()) {
        Some(Ok(())) => {
            Finding::ok(name, "the key or the address is new, and known records exist: it is the same workspace")
        }
        Some(Err(error @ SyncError::OtherWorkspace { .. })) => {
            Finding::fail(name, Exit::of_sync(error), error_chain(error), fix)
        }
        Some(Err(error)) => Finding::warn(name, format!("the key or the address is new: {}", error_chain(error)), fix),
        None => Finding::warn(
            name,
            "the mirror was made with a different key or address; the workspace was not compared",
            "the next run looks up known records first, for 1 RU, and stops if they do not exist",
        ),
    })
}
