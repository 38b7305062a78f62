//! The address of the status page: whether the daemon could listen there.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

use super::facts::CheckFacts;
use super::finding::Finding;

/// Ports below this are root's.
const FIRST_UNPRIVILEGED: u16 = 1024;

pub(super) fn check(facts: &CheckFacts<'_>) -> Vec<Finding> {
    let at = facts.config.http;
    at.map(|at| address(at, facts.writer.is_some(), facts.unit.is_some())).into_iter().collect()
}

/// `daemon_runs`: another process writes the mirror. `by_unit`: a unit reads this configuration, and it is not root's.
fn address(at: SocketAddr, daemon_runs: bool, by_unit: bool) -> Finding {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::finding::FindingState;

    #[test]
    fn an_address_that_cannot_be_listened_on_is_a_warning() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = taken.local_addr().unwrap();
        assert_eq!(address(at, false, false).state, FindingState::Warn);
        assert_eq!(address(at, true, false).state, FindingState::Ok, "the daemon itself may listen there");
        drop(taken);
        assert_eq!(address(at, false, true).state, FindingState::Ok);
        let elsewhere: SocketAddr = "192.0.2.1:8080".parse().unwrap();
        assert_eq!(address(elsewhere, false, false).state, FindingState::Warn);
        let privileged: SocketAddr = "127.0.0.1:873".parse().unwrap();
        assert_eq!(address(privileged, false, true).state, FindingState::Warn);
    }
}
