//! `[notify]`: whether the command of notifications can be run. Otherwise the first trouble would be the first try.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::finding::Finding;
use crate::config::NotifyConfig;

/// Looks at `[notify]`. Nothing is sent and nothing is run.
pub(super) fn check(notify: &NotifyConfig) -> Option<Finding> {
    let name = "daemon.notify";
    if notify.webhook().is_some() {
        return Some(Finding::ok(name, "messages are posted to the webhook; nothing was sent"));
    }
    let program = notify.command()?.first()?;
    // A name without a slash is looked up in PATH, as the daemon does.
    let path = std::env::var_os("PATH").filter(|_| !program.contains('/')).unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(program)).chain([program.into()]);
    let runs = |place: &Path| place.metadata().is_ok_and(|at| at.is_file() && at.permissions().mode() & 0o111 != 0);
    Some(match places.any(|place| runs(&place)) {
        true => Finding::ok(name, format!("messages go to {program}; it was not run")),
        false => Finding::warn(
            name,
            format!("{program} cannot be run, so nobody is notified"),
            "`notify.command` is a list, of the program and its arguments; the file must be executable",
        ),
    })
}
