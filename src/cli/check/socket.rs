//! The control socket: whether a daemon answers there, and whether it can work.

use super::finding::Finding;
use super::mirror;
use crate::cli::remote::DaemonState;
use crate::config::Config;
use crate::daemon::DaemonStatus;
use crate::exit::Exit;
use crate::format;
use crate::model::Instant;

/// The longest path of a socket that Linux takes.
const MAX_PATH_BYTES: usize = 107;

/// Whether a daemon answers at the control socket, and what keeps it from working. `writer` is the process that writes the
/// mirror.
pub(super) fn check(
    config: &Config,
    (status, state): &(Option<DaemonStatus>, DaemonState),
    writer: Option<Option<u32>>,
    now: Instant,
) -> Finding {
    let name = "daemon.socket";
    let shown = config.socket.display();
    match (state, status, writer) {
        (DaemonState::Running, Some(DaemonStatus { waiting_for: Some(why), .. }), _) => {
            Finding::warn(name, format!("the daemon at {shown} waits: {why}"), "its log says since when")
        }
        (DaemonState::Running, Some(DaemonStatus { trouble: Some(trouble), .. }), _) => Finding::fail(
            name,
            Exit::of_code(trouble.exit),
            format!(
                "the runs of the daemon at {shown} fail, since {}: {}",
                format::when(trouble.since, now),
                trouble.why
            ),
            match Exit::of_code(trouble.exit) {
                // Only a new start sees what was mounted since.
                Exit::Storage => "if the disk is in order again, restart the daemon".into(),
                _ => format!("{} shows more", config.command("status")),
            },
        ),
        (DaemonState::Running, ..) => Finding::ok(name, format!("a daemon answers at {shown}")),
        (DaemonState::Inaccessible, ..) => {
            Finding::skip(name, format!("the current user cannot access the daemon at {shown}"))
        }
        (DaemonState::Killed | DaemonState::Unresponsive, ..) => Finding::warn(
            name,
            format!("{shown} exists, but no process answers"),
            "the daemon was killed or hangs: restart it; nothing is lost",
        ),
        (DaemonState::None, ..) if config.socket.as_os_str().len() > MAX_PATH_BYTES => Finding::warn(
            name,
            format!("{shown} is too long a path for a socket"),
            "set `daemon.socket` to a shorter path",
        ),
        (DaemonState::None, _, None) => Finding::ok(name, format!("no daemon is running at {shown}")),
        (DaemonState::None, _, Some(pid)) => {
            Finding::ok(name, format!("{} is not a daemon: none answers at {shown}", mirror::process(pid)))
        }
    }
}
