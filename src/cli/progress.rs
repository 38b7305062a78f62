//! What a run shows while it works: bars on a terminal, now and then a log line elsewhere.
//!
//! Whoever works tells [`Event`]s and does not care which it is.

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::human;
use crate::model::{Resource, Ru};

/// Rows between two log lines about the same work.
const ROWS_PER_LINE: u64 = 10_000;

/// What is being counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// The list of a resource.
    List(Resource),
    /// The details of a resource's records.
    Details(Resource),
}

impl std::fmt::Display for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Work::List(resource) => write!(f, "{resource}"),
            Work::Details(resource) => write!(f, "details of {resource}"),
        }
    }
}

/// Something that a person waiting wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A page, or a detail, was stored.
    Page {
        /// What it was a page of.
        work: Work,
        /// Rows so far.
        rows: u64,
        /// Rows in all, where that is known.
        total: Option<u64>,
        /// Request units spent by this run so far.
        ru: Ru,
    },
    /// A piece of work is finished.
    Finished {
        /// Which.
        work: Work,
        /// Its rows.
        rows: u64,
    },
    /// Nothing may be sent for so long: a hold.
    Waiting {
        /// What is left of the wait.
        left: Duration,
    },
    /// The wait is over.
    Resumed,
}

/// Shows events. Clones show on the same screen.
#[derive(Clone, Debug)]
pub struct Progress(Arc<Shown>);

#[derive(Debug)]
enum Shown {
    Bars {
        screen: MultiProgress,
        bars: Mutex<HashMap<Work, ProgressBar>>,
        wait: Mutex<Option<ProgressBar>>,
    },
    Lines(Mutex<HashMap<Work, u64>>),
}

impl Progress {
    /// Bars if stderr is a terminal, log lines if not.
    pub fn of_process() -> Progress {
        if io::stderr().is_terminal() {
            Progress::bars()
        } else {
            Progress::lines()
        }
    }

    /// Bars on stderr.
    pub fn bars() -> Progress {
        Progress(Arc::new(Shown::Bars {
            screen: MultiProgress::new(),
            bars: Mutex::default(),
            wait: Mutex::default(),
        }))
    }

    /// Log lines.
    pub fn lines() -> Progress {
        Progress(Arc::new(Shown::Lines(Mutex::default())))
    }

    /// Shows an event.
    pub fn tell(&self, event: Event) {
        match &*self.0 {
            Shown::Bars { screen, bars, wait } => {
                let mut bars = bars.lock().unwrap_or_else(PoisonError::into_inner);
                let mut wait = wait.lock().unwrap_or_else(PoisonError::into_inner);
                draw(screen, &mut bars, &mut wait, event);
            }
            Shown::Lines(told) => {
                let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(line) = line(&mut told, event) {
                    tracing::info!("{line}");
                }
            }
        }
    }

    /// Runs something that writes to stderr, with the bars out of its way.
    pub(super) fn aside<R>(&self, write: impl FnOnce() -> R) -> R {
        match &*self.0 {
            Shown::Bars { screen, .. } => screen.suspend(write),
            Shown::Lines(_) => write(),
        }
    }
}

fn draw(screen: &MultiProgress, bars: &mut HashMap<Work, ProgressBar>, wait: &mut Option<ProgressBar>, event: Event) {
    match event {
        Event::Page { work, rows, total, ru } => {
            let bar = bars.entry(work).or_insert_with(|| screen.add(ProgressBar::no_length()));
            bar.set_style(style(if total.is_some() {
                "{prefix:24} [{bar:30}] {human_pos} of {human_len}, {per_sec}, {msg}, {eta} left"
            } else {
                "{prefix:24} {spinner} {human_pos}, {per_sec}, {msg}"
            }));
            if let Some(total) = total {
                // Rows are created while they are read: a bar never runs past its end.
                bar.set_length(total.max(rows));
            }
            bar.set_prefix(work.to_string());
            bar.set_message(human::ru(ru));
            bar.set_position(rows);
        }
        Event::Finished { work, rows } => {
            if let Some(bar) = bars.remove(&work) {
                bar.set_style(style("{prefix:24} {human_pos} in {elapsed}"));
                bar.set_position(rows);
                bar.finish();
            }
        }
        Event::Waiting { left } => {
            let bar = wait.get_or_insert_with(|| {
                let bar = screen.add(ProgressBar::no_length());
                bar.set_style(style("{msg}"));
                bar
            });
            bar.set_message(format!("the service asked to wait: {} left", human::duration(left)));
        }
        Event::Resumed => {
            if let Some(bar) = wait.take() {
                bar.finish_and_clear();
            }
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates above are constants that parse; a plain bar is better than none should one not.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// The line for an event, if it is worth one: every so many rows, and ends.
fn line(told: &mut HashMap<Work, u64>, event: Event) -> Option<String> {
    match event {
        Event::Page { work, rows, total, ru } => {
            let step = rows / ROWS_PER_LINE;
            let last = told.insert(work, step).unwrap_or(0);
            (step > last).then(|| match total {
                Some(total) => {
                    let (rows, total) = (human::count(rows), human::count(total));
                    format!("{work}: {rows} of {total} rows, {} so far", human::ru(ru))
                }
                None => format!("{work}: {} rows, {} so far", human::count(rows), human::ru(ru)),
            })
        }
        Event::Finished { work, rows } => {
            told.remove(&work);
            Some(format!("{work}: {} rows, finished", human::count(rows)))
        }
        Event::Waiting { left } => Some(format!("the service asked to wait: {} left", human::duration(left))),
        Event::Resumed => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: Work = Work::List(Resource::Contacts);

    fn page(rows: u64, total: Option<u64>) -> Event {
        let ru = Ru::new(rows / 100);
        Event::Page {
            work: WORK,
            rows,
            total,
            ru,
        }
    }

    #[test]
    fn lines_come_now_and_then() {
        let mut told = HashMap::new();
        let lines: Vec<String> = (1..=250)
            .filter_map(|n| line(&mut told, page(n * 100, Some(25_000))))
            .collect();
        assert_eq!(
            lines,
            [
                "contacts: 10,000 of 25,000 rows, 100 RU so far",
                "contacts: 20,000 of 25,000 rows, 200 RU so far"
            ]
        );
        let end = Event::Finished {
            work: WORK,
            rows: 25_000,
        };
        assert_eq!(line(&mut told, end).unwrap(), "contacts: 25,000 rows, finished");
        let other = Work::Details(Resource::Companies);
        let end = Event::Finished { work: other, rows: 3 };
        assert_eq!(line(&mut told, end).unwrap(), "details of companies: 3 rows, finished");
    }

    #[test]
    fn bars_take_every_event() {
        let progress = Progress::bars();
        let left = Duration::from_secs(3);
        for event in [
            page(100, None),
            page(200, Some(150)),
            Event::Waiting { left },
            Event::Resumed,
        ] {
            progress.tell(event);
        }
        progress.tell(Event::Finished { work: WORK, rows: 200 });
        assert_eq!(progress.aside(|| 7), 7);
    }
}
