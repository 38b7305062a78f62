//! The log lines of a run, of the daemon or of a verb without a terminal: one after ten seconds of long work and then one per
//! minute, and the beginning of each rate limit.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::format;
use crate::model::{Instant, Resource};
use crate::sync::{RunEvent, RunObserver};

const FIRST: Duration = Duration::from_secs(10);

const EVERY: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub struct ProgressLog {
    work: Option<CurrentWork>,
    holding: Option<Instant>,
}

#[derive(Debug)]
struct CurrentWork {
    resource: Resource,
    /// "changes", "full copy", "sweep", "details".
    work: Cow<'static, str>,
    total: Option<u64>,
    began: Instant,
    next: Instant,
}

/// Logs the events of the runs of a verb.
#[derive(Debug, Default)]
pub struct ProgressLines(Mutex<ProgressLog>);

impl RunObserver for ProgressLines {
    fn on(&self, event: RunEvent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).log(&event, Instant::system_now());
    }
}

impl ProgressLog {
    pub fn log(&mut self, event: &RunEvent, now: Instant) {
        match (event, self.line(event, now)) {
            (RunEvent::Warning { text: warning }, _) => tracing::warn!("{warning}"),
            (_, Some(line)) => tracing::info!("{line}"),
            (_, None) => {}
        }
    }

    fn line(&mut self, event: &RunEvent, now: Instant) -> Option<String> {
        match event {
            RunEvent::Begins { resource, work, total } => {
                let (work, next) = (work.clone(), now.plus(FIRST));
                self.work = Some(CurrentWork { resource: *resource, work, total: *total, began: now, next });
            }
            RunEvent::Total { total, .. } => self.work.as_mut()?.total = Some(*total),
            RunEvent::Stored { rows, ru, .. } => {
                let work = self.work.as_mut()?;
                if work.next > now {
                    return None;
                }
                work.next = now.plus(EVERY);
                let of = work.total.map(|total| format!(" of {}", format::count(total))).unwrap_or_default();
                return Some(format!(
                    "{} of {}: {}{of} rows after {}, {} RU in this run",
                    work.work,
                    work.resource,
                    format::count(*rows),
                    format::duration(now.since(work.began)),
                    format::count(ru.get())
                ));
            }
            RunEvent::Ends { .. } => self.work = None,
            RunEvent::Holding { until } if self.holding.replace(*until) != Some(*until) => {
                let until = format::moment(*until);
                return Some(format!(
                    "The service set a rate limit (429 or Retry-After): no request is sent until {until}"
                ));
            }
            RunEvent::Holding { .. } | RunEvent::Warning { .. } => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Ru;

    fn at(seconds: u64) -> Instant {
        let noon: Instant = "2026-03-04T12:00:00Z".parse().unwrap();
        noon.plus(Duration::from_secs(seconds))
    }

    fn stored(rows: u64) -> RunEvent {
        RunEvent::Stored { resource: Resource::Contacts, rows, ru: Ru::new(rows / 100) }
    }

    #[test]
    fn long_work_is_logged_soon_and_every_minute_and_short_work_not() {
        let mut log = ProgressLog::default();
        let begins = RunEvent::Begins { resource: Resource::Contacts, work: "full copy".into(), total: Some(90_000) };
        assert_eq!(log.line(&begins, at(0)), None);
        let lines: Vec<String> = (1..=150).filter_map(|second| log.line(&stored(second * 100), at(second))).collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].starts_with("full copy of contacts: 1,000 of 90,000 rows after 10 s"), "{}", lines[0]);
        assert!(lines[1].starts_with("full copy of contacts: 7,000 of 90,000 rows after 1 min"), "{}", lines[1]);
        assert_eq!(log.line(&RunEvent::Ends { resource: Resource::Contacts }, at(151)), None);
        assert_eq!(log.line(&stored(1), at(900)), None);
    }

    #[test]
    fn rate_limit_is_logged_once() {
        let mut log = ProgressLog::default();
        let holding = RunEvent::Holding { until: at(30) };
        assert!(log.line(&holding, at(0)).unwrap().contains("until"));
        assert_eq!(log.line(&holding, at(1)), None, "every waiting request sends the event");
    }
}
