//! The log: on stderr, so that stdout is the answer's alone.
//!
//! Under systemd an event goes to the journal as a message with fields: `run = 7` is `CRM_RUN=7`, so
//! `journalctl CRM_RUN=7 -o json` finds and shows it. Plain `journalctl` and a terminal show the message alone, which is
//! why every message carries its numbers in words. Where the journal cannot be reached, lines begin with their priority
//! in angle brackets, which whoever collects them understands.
//!
//! # Always true
//! - Of the libraries only warnings are told, whatever was asked for: at finer levels they show headers and bodies, and
//!   so the key and people's data.
//! - An event is one line, whatever its values hold.

use std::fmt;
use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;

use tracing::field::Field;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::format::{Format, FormatEvent, FormatFields, Full, Writer, debug_fn};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt as lines};

use crate::cli::ui::progress::ProgressView;
use crate::config::{LogConfig, LogFormat};
use crate::sync::RUN_LINE;

/// What our fields are called in the journal: `ru_left` is `CRM_RU_LEFT`.
const PREFIX: &str = "CRM";

/// Starts the log of this process, written between the bars of `progress`. A second call changes nothing.
pub fn start(config: &LogConfig, progress: &ProgressView) {
    let told = match config.format {
        LogFormat::Json => json(Between(progress.clone())),
        LogFormat::Auto if in_the_journal() => journal().unwrap_or_else(|_| with_priorities(Between(progress.clone()))),
        LogFormat::Auto | LogFormat::Text => text(Between(progress.clone()), colours()),
    };
    // An error means that a log is running already, as in tests: that one goes on.
    let _ = tracing_subscriber::registry()
        .with(told)
        .with(filter(&config.level, progress.logs_ends()))
        .with(filter_fn(tells_no_secret))
        .try_init();
}

/// A plain level is about this program; of its libraries only warnings are of interest. The line that ends a run is for
/// those who see nothing else of it.
fn filter(level: &str, ends: bool) -> EnvFilter {
    match level.parse::<Level>() {
        Ok(Level::INFO) if !ends => EnvFilter::new(format!("warn,crm_mirror=info,{RUN_LINE}=warn")),
        Ok(level) if level > Level::WARN => EnvFilter::new(format!("warn,crm_mirror={level}")),
        _ => EnvFilter::new(level),
    }
}

/// Libraries show what they send and receive at their finer levels: those are shut, whatever the filter says.
fn tells_no_secret(metadata: &Metadata<'_>) -> bool {
    let crate_name = metadata.target().split("::").next();
    crate_name == Some("crm_mirror") || *metadata.level() <= Level::WARN
}

/// Whether stderr is the journal: systemd names the stream's device and inode.
fn in_the_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    let told = stream.split_once(':').and_then(|(dev, ino)| Some((dev.parse().ok()?, ino.parse().ok()?)));
    let ours = std::fs::metadata("/proc/self/fd/2").map(|meta| (meta.dev(), meta.ino()));
    told.is_some_and(|told: (u64, u64)| ours.is_ok_and(|ours| ours == told))
}

/// What a program says on stderr as it fails: in the journal, each line with the priority of an error.
pub fn as_error(text: String) -> String {
    if in_the_journal() { prioritised(&text) } else { text }
}

fn prioritised(text: &str) -> String {
    text.lines().map(|line| format!("<{}>{line}\n", priority(Level::ERROR))).collect()
}

fn colours() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

type LogEvent = Box<dyn Layer<Registry> + Send + Sync>;

/// Messages with fields, sent to the journal itself.
fn journal() -> io::Result<LogEvent> {
    let priorities =
        PriorityMappings { info: Priority::Informational, debug: Priority::Debug, ..PriorityMappings::new() };
    let layer = tracing_journald::layer()?
        .with_syslog_identifier("crm-mirror".into())
        .with_field_prefix(Some(PREFIX.into()))
        .with_priority_mappings(priorities);
    Ok(Box::new(layer))
}

/// A document a line.
fn json(writer: impl for<'a> MakeWriter<'a> + Send + Sync + 'static) -> LogEvent {
    let layer = lines::layer().with_writer(writer).json().flatten_event(true);
    Box::new(layer.with_current_span(false).with_span_list(false))
}

/// Lines for people.
fn text(writer: impl for<'a> MakeWriter<'a> + Send + Sync + 'static, colours: bool) -> LogEvent {
    let layer = lines::layer().with_writer(writer).with_target(false).with_ansi(colours);
    Box::new(layer.fmt_fields(debug_fn(message_alone)))
}

/// Lines for whoever reads priorities.
fn with_priorities(writer: impl for<'a> MakeWriter<'a> + Send + Sync + 'static) -> LogEvent {
    let layer = lines::layer().with_writer(writer).with_ansi(false).event_format(Prioritised::default());
    Box::new(layer.fmt_fields(debug_fn(message_alone)))
}

/// Writes the message, which says everything in words, and no other field. What would end the line or steer a terminal
/// is spelled out: a message may hold what the service said.
fn message_alone(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    if field.name() != "message" {
        return Ok(());
    }
    for c in format!("{value:?}").chars() {
        match c {
            c if c.is_control() => write!(writer, "{}", c.escape_default())?,
            c => writer.write_char(c)?,
        }
    }
    Ok(())
}

/// Writes lines to stderr without tearing a progress bar.
struct Between(ProgressView);

impl<'a> MakeWriter<'a> for Between {
    type Writer = LogLine<'a>;
    fn make_writer(&'a self) -> LogLine<'a> {
        LogLine(&self.0)
    }
}

struct LogLine<'a>(&'a ProgressView);

impl io::Write for LogLine<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.aside(|| io::stderr().write(bytes))
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A line that begins with its priority and has no time of its own.
struct Prioritised(Format<Full, ()>);

impl Default for Prioritised {
    fn default() -> Prioritised {
        Prioritised(Format::default().without_time().with_level(false).with_target(false).with_ansi(false))
    }
}

impl<S, N> FormatEvent<S, N> for Prioritised
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
        assert_eq!(filter("debug", true).to_string(), "crm_mirror=debug,warn");
        assert_eq!(filter("error", true).to_string(), "error");
        assert_eq!(filter("off", true).to_string(), "off");
        assert_eq!(filter("info,hyper=debug", true).to_string(), "hyper=debug,info");
    }

    #[test]
    fn whoever_sees_a_summary_is_not_told_twice_how_a_run_ended() {
        let summed_up = filter("info", false).to_string();
        assert!(summed_up.contains("crm_mirror::sync::run_line=warn"), "{summed_up}");
        assert!(!filter("info", true).to_string().contains("run_line"));
        assert!(!filter("debug", false).to_string().contains("run_line"));
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

    impl<'a> MakeWriter<'a> for Kept {
        type Writer = Kept;
        fn make_writer(&'a self) -> Kept {
            self.clone()
        }
    }

    /// What is told of some events.
    fn told(layer: impl FnOnce(Kept) -> LogEvent, filter: &str, events: impl FnOnce()) -> String {
        let kept = Kept::default();
        let subscriber = tracing_subscriber::registry()
            .with(layer(kept.clone()))
            .with(EnvFilter::new(filter))
            .with(filter_fn(tells_no_secret));
        tracing::subscriber::with_default(subscriber, events);
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_line_with_its_priority_is_its_message() {
        let lines = told(with_priorities, "trace", || {
            tracing::warn!(page = 7, "Page 7 is on hold");
            tracing::info!("a line\n<0>and \u{1b}[31manother");
        });
        assert_eq!(lines, "<4>Page 7 is on hold\n<6>a line\\n<0>and \\u{1b}[31manother\n");
    }

    #[test]
    fn a_line_for_people_is_its_message_and_a_document_has_the_fields() {
        let event = || tracing::info!(ru_left = 12, "12 RU are left");
        let line = told(|kept| text(kept, false), "trace", event);
        assert!(line.ends_with(" INFO 12 RU are left\n"), "{line}");
        let document: serde_json::Value = serde_json::from_str(&told(json, "trace", event)).unwrap();
        assert_eq!(document["ru_left"], 12);
        assert_eq!(document["message"], "12 RU are left");
        assert_eq!(document["level"], "INFO");
    }

    #[test]
    fn libraries_warn_and_tell_no_more_whatever_is_asked_for() {
        let lines = told(with_priorities, "trace,hyper=trace,crm_mirrored=trace", || {
            tracing::debug!(target: "hyper::proto", "authorization: Bearer secret");
            tracing::trace!(target: "crm_mirrored", "not ours either");
            tracing::warn!(target: "rustls", "a certificate is odd");
            tracing::trace!("ours");
        });
        assert_eq!(lines, "<4>a certificate is odd\n<7>ours\n");
    }

    #[test]
    fn last_words_are_errors_line_by_line() {
        assert_eq!(prioritised("error: no\nhint: do\n"), "<3>error: no\n<3>hint: do\n");
    }

    #[test]
    fn priorities_are_those_of_syslog() {
        assert_eq!([Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG].map(priority), [3, 4, 6, 7]);
    }
}
