//! The daemon: whether one answers at the control socket and can work, and what it could not use of `daemon.http` and
//! `[notify]`.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::Finding;
use super::facts::{self, CheckFacts};
use crate::cli::DaemonState;
use crate::config::NotifyConfig;
use crate::daemon::DaemonStatus;
use crate::exit::Exit;
use crate::format;

pub(super) fn check(facts: &CheckFacts<'_>) -> Vec<Finding> {
    let page = facts.config.http.map(|at| http(at, facts.writer.is_some(), facts.unit.is_some()));
    [Some(socket(facts)), page, notify(&facts.config.notify)].into_iter().flatten().collect()
}

const MAX_PATH_BYTES: usize = 107;

fn socket(facts: &CheckFacts<'_>) -> Finding {
    let (config, (status, state)) = (facts.config, &facts.daemon);
    let (name, shown) = ("daemon.socket", config.socket.display());
    match (state, status, facts.writer) {
        (DaemonState::Running, Some(DaemonStatus { waiting_for: Some(why), .. }), _) => {
            Finding::warn(name, format!("the daemon at {shown} waits: {why}"), "its log says since when")
        }
        (DaemonState::Running, Some(DaemonStatus { trouble: Some(trouble), .. }), _) => Finding::fail(
            name,
            Exit::of_code(trouble.exit),
            format!(
                "the runs of the daemon at {shown} fail, since {}: {}",
                format::when(trouble.since, facts.now),
                trouble.reason
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
            Finding::ok(name, format!("{} is not a daemon: none answers at {shown}", facts::process(pid)))
        }
    }
}

const FIRST_UNPRIVILEGED: u16 = 1024;

/// Whether the status page could be served. `daemon_runs`: another process writes the mirror. `by_unit`: a unit reads this configuration, and it is not root's.
fn http(at: SocketAddr, daemon_runs: bool, by_unit: bool) -> Finding {
    let name = "daemon.http";
    let fix = "choose another address with `daemon.http`; nothing else depends on it";
    match TcpListener::bind(at) {
        Ok(_) if by_unit && (1..FIRST_UNPRIVILEGED).contains(&at.port()) => {
            let what = format!("the user of the unit may not listen on {at}: a port below {FIRST_UNPRIVILEGED}");
            Finding::warn(name, what, fix)
        }
        Ok(_) => Finding::ok(name, format!("http://{at}/ is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse && daemon_runs => {
            let what =
                format!("{at} is in use while the daemon runs; `crm-mirror status` shows whether it is the page");
            Finding::ok(name, what)
        }
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let what = format!("another program listens on {at}: the page is served only once the port is free");
            Finding::warn(name, what, fix)
        }
        Err(error) => Finding::warn(name, format!("could not listen on {at}: {error}"), fix),
    }
}

/// Whether the command of notifications can be run: otherwise the first trouble would be the first try. Nothing is sent and
/// nothing is run.
fn notify(notify: &NotifyConfig) -> Option<Finding> {
    let name = "daemon.notify";
    let program = match notify {
        NotifyConfig::Off => return None,
        NotifyConfig::Webhook(_) => {
            return Some(Finding::ok(name, "messages are posted to the webhook; nothing was sent"));
        }
        NotifyConfig::Command(command) => command.first()?,
    };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::FindingState;

    #[test]
    fn an_address_that_cannot_be_listened_on_is_a_warning() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = taken.local_addr().unwrap();
        assert_eq!(http(at, false, false).state, FindingState::Warn);
        assert_eq!(http(at, true, false).state, FindingState::Ok, "the daemon itself may listen there");
        drop(taken);
        assert_eq!(http(at, false, true).state, FindingState::Ok);
        let elsewhere: SocketAddr = "192.0.2.1:8080".parse().unwrap();
        assert_eq!(http(elsewhere, false, false).state, FindingState::Warn);
        let privileged: SocketAddr = "127.0.0.1:873".parse().unwrap();
        assert_eq!(http(privileged, false, true).state, FindingState::Warn);
    }
}
