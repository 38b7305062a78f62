//! The progress of a run: bars on a terminal, log lines elsewhere.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::daemon::progress_log::{self, ProgressLog};
use crate::format;
use crate::model::{Instant, Resource, Ru};
use crate::sync::{RunEvent, RunObserver};

/// The number of records from which the expected cost is reported in advance.
const WORTH_A_WORD: u64 = 1_000;

/// Shows the events of runs. Clones share the screen.
#[derive(Clone, Debug)]
pub struct ProgressView(Arc<ProgressOutput>);

#[derive(Debug)]
enum ProgressOutput {
    Bars {
        screen: MultiProgress,
        bars: Mutex<Bars>,
    },
    /// Whether the verb reports the result itself.
    Lines(Mutex<ProgressLog>, bool),
    Nothing,
}

impl ProgressView {
    pub fn of_process() -> ProgressView {
        ProgressView::bars_or(ProgressOutput::Lines(Mutex::default(), true))
    }

    pub fn bars_or_nothing() -> ProgressView {
        ProgressView::bars_or(ProgressOutput::Nothing)
    }

    fn bars_or(other: ProgressOutput) -> ProgressView {
        let bars = || ProgressOutput::Bars { screen: MultiProgress::new(), bars: Mutex::default() };
        ProgressView(Arc::new(if io::stderr().is_terminal() { bars() } else { other }))
    }

    pub fn lines() -> ProgressView {
        ProgressView(Arc::new(ProgressOutput::Lines(Mutex::default(), false)))
    }

    pub fn nothing() -> ProgressView {
        ProgressView(Arc::new(ProgressOutput::Nothing))
    }

    /// Whether the log reports how a run ended. If bars are shown, or the verb reports the result itself, a log line
    /// would repeat it, unless the log is for programs, which want the fields.
    pub(in crate::cli) fn logs_ends(&self, is_for_programs: bool) -> bool {
        matches!(*self.0, ProgressOutput::Lines(_, is_reported) if is_for_programs || !is_reported)
    }

    pub(in crate::cli) fn aside<R>(&self, write: impl FnOnce() -> R) -> R {
        match &*self.0 {
            ProgressOutput::Bars { screen, .. } => screen.suspend(write),
            ProgressOutput::Lines(..) | ProgressOutput::Nothing => write(),
        }
    }
}

impl RunObserver for ProgressView {
    fn on(&self, event: RunEvent) {
        match &*self.0 {
            _ if matches!(event, RunEvent::Warning { .. }) => progress_log::log(&event, None),
            ProgressOutput::Bars { screen, bars } => {
                bars.lock().unwrap_or_else(PoisonError::into_inner).draw(screen, &event)
            }
            ProgressOutput::Lines(lines, _) => {
                let line = lines.lock().unwrap_or_else(PoisonError::into_inner).line(&event, Instant::system_now());
                progress_log::log(&event, line);
            }
            ProgressOutput::Nothing => {}
        }
    }
}

#[derive(Debug, Default)]
struct Bars {
    work: HashMap<Resource, ProgressBar>,
    hold: Option<(Instant, ProgressBar)>,
}

impl Bars {
    fn draw(&mut self, screen: &MultiProgress, event: &RunEvent) {
        match event {
            RunEvent::Begins { resource, work, total } => {
                let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
                bar.set_style(style(*total));
                bar.set_prefix(format!("{resource}: {work}"));
                if let Some(total) = total {
                    bar.set_length(*total);
                }
                // Added only now, because adding draws it.
                self.work.insert(*resource, screen.add(bar));
            }
            RunEvent::Total { resource, total } => {
                if let Some(bar) = self.work.get(resource) {
                    if bar.length().is_none() && *total >= WORTH_A_WORD {
                        let _ = screen.println(spending(*resource, *total));
                    }
                    bar.set_style(style(Some(*total)));
                    bar.set_length(*total);
                }
            }
            RunEvent::Stored { resource, rows, ru } => {
                self.end_hold();
                if let Some(bar) = self.work.get(resource) {
                    bar.set_message(format!(", {}", format::ru(*ru)));
                    // Pages repeat rows, and rows are created meanwhile: there are no more than were counted.
                    bar.set_position(bar.length().map_or(*rows, |length| length.min(*rows)));
                }
            }
            RunEvent::Ends { resource } => {
                if let Some(bar) = self.work.remove(resource) {
                    let (rows, took) = (bar.position(), bar.elapsed());
                    let name = bar.prefix();
                    bar.finish_and_clear();
                    screen.remove(&bar);
                    if rows > 0 {
                        // A permanent line, which later bars do not move.
                        let rows = format::counted(rows, "row", "rows");
                        let _ = screen.println(format!("{name:24} {rows} in {}", format::duration(took)));
                    }
                }
            }
            RunEvent::Holding { until } => self.count_down(screen, *until),
            RunEvent::Warning { .. } => {}
        }
    }

    fn count_down(&mut self, screen: &MultiProgress, until: Instant) {
        if self.hold.as_ref().is_some_and(|(known, _)| *known == until) {
            return;
        }
        self.end_hold();
        let bar = screen.add(ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()));
        let left = move |_: &ProgressState, line: &mut dyn fmt::Write| {
            let left = until.since(Instant::system_now());
            // Rounded up, so that the last second is not shown as zero.
            let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
            let _ = line.write_str(&format::duration(Duration::from_secs(seconds)));
        };
        bar.set_style(template("the service asked to wait: {left} left").with_key("left", left));
        bar.enable_steady_tick(Duration::from_millis(250));
        self.hold = Some((until, bar));
    }

    fn end_hold(&mut self) {
        if let Some((_, bar)) = self.hold.take() {
            bar.finish_and_clear();
        }
    }
}

fn style(total: Option<u64>) -> ProgressStyle {
    let rate = |state: &ProgressState, line: &mut dyn fmt::Write| {
        let _ = write!(line, "{} rows/s", format::count(state.per_sec().round() as u64));
    };
    // Nothing is known of the rest before the first rows.
    let left = |state: &ProgressState, line: &mut dyn fmt::Write| {
        if state.pos() > 0 {
            let _ = write!(line, ", {} left", format::duration(Duration::from_secs(state.eta().as_secs())));
        }
    };
    template(if total.is_some() {
        "{prefix:24} [{wide_bar}] {human_pos}/{human_len}{msg}{left}"
    } else {
        "{prefix:24} {spinner} {human_pos}, {rate}{msg}"
    })
    .with_key("rate", rate)
    .with_key("left", left)
}

fn template(text: &str) -> ProgressStyle {
    // The templates are valid constants; if one does not parse, a plain bar is shown.
    ProgressStyle::with_template(text).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// The expected cost of reading so many records, reported before most of it is spent.
fn spending(resource: Resource, total: u64) -> String {
    format!(
        "{resource}: {} records, about {} for lists and up to {} for details",
        format::count(total),
        format::ru(Ru::new(total.div_ceil(100))),
        format::ru(Ru::new(total)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESOURCE: Resource = Resource::Contacts;

    fn begins(total: Option<u64>) -> RunEvent {
        RunEvent::Begins { resource: RESOURCE, work: "full copy".into(), total }
    }

    fn stored(rows: u64) -> RunEvent {
        RunEvent::Stored { resource: RESOURCE, rows, ru: Ru::new(rows / 100) }
    }

    #[test]
    fn large_cost_is_reported_in_advance() {
        assert_eq!(
            spending(RESOURCE, 20_050),
            "contacts: 20,050 records, about 201 RU for lists and up to 20,050 RU for details"
        );
    }

    #[test]
    fn bars_handle_every_event() {
        let output = ProgressOutput::Bars { screen: MultiProgress::new(), bars: Mutex::default() };
        let progress = ProgressView(Arc::new(output));
        let until = Instant::EPOCH;
        let total = RunEvent::Total { resource: RESOURCE, total: 150 };
        let hold = RunEvent::Holding { until };
        let ends = RunEvent::Ends { resource: RESOURCE };
        for event in [begins(None), stored(100), total, hold.clone(), hold, stored(200), ends] {
            progress.on(event);
        }
        assert_eq!(progress.aside(|| 7), 7);
    }
}
