//! The schedules: the next time of each, in its time zone; and whether a daemon is running.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::Path;

use jiff::tz::TimeZone;

use super::finding::Finding;
use super::mirror;
use crate::config::{ChangesSchedule, Cron, SyncConfig};
use crate::model::Instant;
use crate::{exit::Exit, format};

/// Checks every schedule.
pub(super) fn check(sync: &SyncConfig, now: Instant) -> Vec<Finding> {
    let changes = match &sync.schedule {
        ChangesSchedule::Auto => Finding::ok(
            "schedule.changes",
            format!("\"auto\": as often as the budget allows, at most every {}", format::duration(sync.min_interval)),
        ),
        other => schedule("schedule.changes", other.cron(), &sync.time_zone, now),
    };
    let others = [("schedule.audits", &sync.audit_schedule), ("schedule.sweeps", &sync.sweep_schedule)];
    let others = others.into_iter().map(|(name, cron)| schedule(name, cron.as_ref(), &sync.time_zone, now));
    std::iter::once(changes).chain(others).collect()
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
            "correct the line, set it to \"off\", or set a different `sync.time_zone`",
        ),
    }
}

/// Whether a daemon answers at the control socket. `writer` is the process that writes the mirror.
pub(super) fn socket(path: &Path, writer: Option<Option<u32>>) -> Finding {
    let name = "daemon.socket";
    let shown = path.display();
    match UnixStream::connect(path) {
        Ok(_) => Finding::ok(name, format!("a daemon answers at {shown}")),
        Err(error) if error.kind() == ErrorKind::NotFound => match writer {
            None => Finding::ok(name, format!("no daemon is running: {shown} does not exist")),
            Some(pid) => Finding::ok(name, format!("{} is not a daemon: {shown} does not exist", mirror::process(pid))),
        },
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Finding::skip(name, format!("the current user cannot access the daemon at {shown}"))
        }
        Err(error) if error.kind() == ErrorKind::InvalidInput => Finding::warn(
            name,
            format!("{shown} is too long a path for a socket"),
            "set `daemon.socket` to a shorter path",
        ),
        Err(_) => Finding::warn(
            name,
            format!("{shown} exists, but no process answers"),
            "the daemon was killed or hangs: restart it; nothing is lost",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::finding::FindingState;
    use std::os::unix::net::UnixListener;

    #[test]
    fn next_time_is_shown_in_the_time_zone() {
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
    fn socket_without_a_listener_is_a_warning() {
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
