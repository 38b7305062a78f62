//! The log: on stderr, so that stdout is the answer's alone.
//!
//! Under systemd each line begins with its priority in angle brackets, which the journal understands, and has no time
//! of its own. The numbers of an event are part of its line: `journalctl` shows nothing else.

use std::fmt;
use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{Format, FormatEvent, FormatFields, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

use super::progress::Progress;
use crate::config::{LogConfig, LogFormat};

/// Starts the log of this process, written between the bars of `progress`. A second call changes nothing.
pub fn start(config: &LogConfig, progress: &Progress) {
    let terminal = io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(&config.level))
        .with_writer(Between(progress.clone()))
        .with_target(false);
    let colours = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    // An error means that a log is running already, as in tests: that one goes on.
    let _ = match config.format {
        LogFormat::Json => builder.json().flatten_event(true).with_target(true).try_init(),
        LogFormat::Auto if in_the_journal() => builder.with_ansi(false).event_format(Journal::default()).try_init(),
        LogFormat::Auto | LogFormat::Text => builder.with_ansi(colours).try_init(),
    };
}

/// A plain level is about this program; of its libraries only warnings are of interest.
fn filter(level: &str) -> EnvFilter {
    match level.parse::<Level>() {
        Ok(level) if level > Level::WARN => EnvFilter::new(format!("warn,crm_mirror={level}")),
        _ => EnvFilter::new(level),
    }
}

/// Whether stderr is the journal: systemd names the stream's device and inode.
fn in_the_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    let told = stream
        .split_once(':')
        .and_then(|(dev, ino)| Some((dev.parse().ok()?, ino.parse().ok()?)));
    let ours = std::fs::metadata("/proc/self/fd/2").map(|meta| (meta.dev(), meta.ino()));
    told.is_some_and(|told: (u64, u64)| ours.is_ok_and(|ours| ours == told))
}

/// Writes lines to stderr without tearing a progress bar.
struct Between(Progress);

impl<'a> MakeWriter<'a> for Between {
    type Writer = Line<'a>;
    fn make_writer(&'a self) -> Line<'a> {
        Line(&self.0)
    }
}

struct Line<'a>(&'a Progress);

impl io::Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.aside(|| io::stderr().write(bytes))
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The journal's form of a line.
struct Journal(Format<Full, ()>);

impl Default for Journal {
    fn default() -> Journal {
        Journal(
            Format::default()
                .without_time()
                .with_level(false)
                .with_target(false)
                .with_ansi(false),
        )
    }
}

impl<S, N> FormatEvent<S, N> for Journal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        write!(writer, "<{}>", priority(*event.metadata().level()))?;
        self.0.format_event(context, writer, event)
    }
}

/// The syslog priority of a level.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_plain_level_is_about_this_program() {
        assert_eq!(filter("debug").to_string(), "crm_mirror=debug,warn");
        assert_eq!(filter("error").to_string(), "error");
        assert_eq!(filter("off").to_string(), "off");
        assert_eq!(filter("info,hyper=debug").to_string(), "hyper=debug,info");
    }

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_for_the_journal_is_its_priority_and_its_text() {
        let kept = Kept::default();
        let writer = kept.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .event_format(Journal::default())
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || tracing::warn!(page = 7, "Page 7 is on hold"));
        let lines = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert_eq!(lines, "<4>Page 7 is on hold page=7\n");
    }

    #[test]
    fn priorities_are_those_of_syslog() {
        assert_eq!(
            [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG].map(priority),
            [3, 4, 6, 7]
        );
    }
}
