//! The schedules: when each is due next, in its zone; and whether a daemon is there to keep them.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::Path;

use jiff::tz::TimeZone;

use super::finding::Finding;
use super::mirror;
use crate::config::{Cron, SyncConfig};
use crate::model::Instant;
use crate::{exit::Exit, format};

/// Looks at every schedule.
pub fn check(sync: &SyncConfig, now: Instant) -> Vec<Finding> {
    [
        ("schedule.changes", &sync.schedule),
        ("schedule.audits", &sync.audit_schedule),
        ("schedule.sweeps", &sync.sweep_schedule),
    ]
    .into_iter()
    .map(|(name, cron)| schedule(name, cron.as_ref(), &sync.time_zone, now))
    .collect()
}

fn schedule(name: &'static str, cron: Option<&Cron>, zone: &TimeZone, now: Instant) -> Finding {
    let Some(cron) = cron else {
        return Finding::ok(name, "off");
    };
    match cron.due_after(now, zone).next() {
        Some(next) => {
            let local = next.timestamp().to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string();
            Finding::ok(name, format!("\"{cron}\": next at {local} ({})", format::when(next, now)))
        }
        None => Finding::fail(
            name,
            Exit::Config,
            format!("\"{cron}\" is never due in this time zone"),
            "correct the line, set it to \"off\", or name another `sync.time_zone`",
        ),
    }
}

/// Whether somebody answers at the control socket. `writer` is who writes the mirror.
pub fn socket(path: &Path, writer: Option<Option<u32>>) -> Finding {
    let name = "daemon.socket";
    let shown = path.display();
    match UnixStream::connect(path) {
        Ok(_) => Finding::ok(name, format!("a daemon answers at {shown}")),
        Err(error) if error.kind() == ErrorKind::NotFound => match writer {
            None => Finding::ok(name, format!("no daemon runs here: there is no {shown}")),
            Some(pid) => Finding::ok(name, format!("{} is no daemon: there is no {shown}", mirror::process(pid))),
        },
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Finding::skip(name, format!("this user may not ask the daemon at {shown}"))
        }
        Err(error) if error.kind() == ErrorKind::InvalidInput => Finding::warn(
            name,
            format!("{shown} is too long a path for a socket"),
            "name a shorter one with `daemon.socket`",
        ),
        Err(_) => Finding::warn(
            name,
            format!("{shown} is there, and nobody answers"),
            "the daemon was killed or hangs: start it again; nothing is lost",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::finding::FindingState;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_next_time_is_told_in_the_zone() {
        let now = "2026-07-02T03:04:05Z".parse().unwrap();
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let cron = Cron::parse("0 0 12 * * *").unwrap();
        let line = schedule("schedule.changes", Some(&cron), &zone, now);
        assert_eq!(line.message, "\"0 0 12 * * *\": next at 2026-07-02 12:00:00 CEST (in 6 h)");
        let never = Cron::parse("0 0 0 30 2 *").unwrap();
        let line = schedule("schedule.changes", Some(&never), &zone, now);
        assert_eq!((line.state, line.exit), (FindingState::Fail, Exit::Config));
        assert_eq!(schedule("schedule.changes", None, &zone, now).message, "off");
    }

    #[test]
    fn a_socket_without_anybody_behind_it_is_a_warning() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        assert_eq!(socket(&path, None).state, FindingState::Ok);
        let listener = UnixListener::bind(&path).unwrap();
        assert!(socket(&path, None).message.starts_with("a daemon answers"));
        assert!(socket(&dir.path().join("s".repeat(200)), None).message.contains("too long"));
        drop(listener);
        assert_eq!(socket(&path, None).state, FindingState::Warn);
    }
}
