//! The log: on stderr, so that stdout contains only the output of the verb.
//!
//! Under systemd an event goes to the journal as a message with fields: `run = 7` is `CRM_RUN=7`, so `journalctl
//! CRM_RUN=7 -o json` finds and shows it. Plain `journalctl` and a terminal show the message alone, so every message
//! contains its numbers.
//!
//! # Invariants
//! - Libraries log only warnings and errors, whatever the filter: at more verbose levels they log headers and bodies,
//!   which contain the key and personal data.
//! - An event is one line, whatever its values contain.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;

use tracing::field::Field;
use tracing::{Level, Metadata};
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::filter::{Targets, filter_fn};
use tracing_subscriber::fmt as lines;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogConfig, LogFormat};
use crate::sync::RUN_LINE;

/// Starts the log of a verb, which reports itself how a run ended: only programs want that as an event too.
pub fn start(config: &LogConfig) {
    begin(config, config.format != LogFormat::Auto || in_the_journal());
}

/// Starts the log, with the line that ends a run if it is not shown elsewhere. A second call has no effect.
pub fn begin(config: &LogConfig, ends: bool) {
    let layer = match config.format {
        LogFormat::Json => json(io::stderr),
        LogFormat::Auto if in_the_journal() => journal().unwrap_or_else(|_| text(io::stderr)),
        LogFormat::Auto | LogFormat::Text => text(io::stderr),
    };
    // An error means that a log is already running, as in tests: that one is kept.
    let _ = tracing_subscriber::registry()
        .with(layer)
        .with(filter(&config.level, ends))
        .with(filter_fn(is_safe_to_log))
        .try_init();
}

/// A plain level applies to this program; libraries log only warnings.
fn filter(level: &str, ends: bool) -> Targets {
    let targets = match level.parse::<Level>() {
        Ok(Level::INFO) if !ends => format!("warn,crm_mirror=info,{RUN_LINE}=off"),
        Ok(Level::WARN) if !ends => format!("warn,{RUN_LINE}=off"),
        Ok(level) if level > Level::WARN => format!("warn,crm_mirror={level}"),
        _ => level.to_string(),
    };
    // The configuration accepts no text that does not parse.
    targets.parse().unwrap_or_default()
}

fn is_safe_to_log(metadata: &Metadata<'_>) -> bool {
    let crate_name = metadata.target().split("::").next();
    crate_name == Some("crm_mirror") || *metadata.level() <= Level::WARN
}

/// Whether stderr is the journal: systemd names the stream's device and inode.
fn in_the_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    let journal = stream.split_once(':').and_then(|(dev, ino)| Some((dev.parse().ok()?, ino.parse().ok()?)));
    let ours = std::fs::metadata("/proc/self/fd/2").map(|meta| (meta.dev(), meta.ino()));
    journal.is_some_and(|journal: (u64, u64)| ours.is_ok_and(|ours| ours == journal))
}

/// An error message for stderr: in the journal, each line gets the priority of an error.
pub fn as_error(text: String) -> String {
    if in_the_journal() { prioritised(&text) } else { text }
}

fn prioritised(text: &str) -> String {
    text.lines().map(|line| format!("<3>{line}\n")).collect()
}

type LogEvent = Box<dyn Layer<Registry> + Send + Sync>;

fn journal() -> io::Result<LogEvent> {
    let priorities =
        PriorityMappings { info: Priority::Informational, debug: Priority::Debug, ..PriorityMappings::new() };
    let layer = tracing_journald::layer()?
        .with_syslog_identifier("crm-mirror".into())
        // `ru_left` is `CRM_RU_LEFT`.
        .with_field_prefix(Some("CRM".into()))
        .with_priority_mappings(priorities);
    Ok(Box::new(layer))
}

fn json(writer: impl for<'a> MakeWriter<'a> + Send + Sync + 'static) -> LogEvent {
    let layer = lines::layer().with_writer(writer).json().flatten_event(true);
    Box::new(layer.with_current_span(false).with_span_list(false))
}

fn text(writer: impl for<'a> MakeWriter<'a> + Send + Sync + 'static) -> LogEvent {
    let layer = lines::layer().with_writer(writer).with_target(false).with_ansi(false);
    Box::new(layer.fmt_fields(debug_fn(message_alone)))
}

/// Writes the message alone, with line breaks and control characters escaped: it may contain text of the service.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn plain_level_applies_to_this_program() {
        assert_eq!(filter("debug", true).to_string(), "crm_mirror=debug,warn");
        assert_eq!(filter("error", true).to_string(), "error");
        assert_eq!(filter("off", true).to_string(), "off");
        assert_eq!(filter("info,hyper=debug", true).to_string(), "hyper=debug,info");
    }

    #[test]
    fn end_of_a_run_is_not_logged_if_a_summary_shows_it() {
        let summed_up = filter("info", false).to_string();
        assert!(summed_up.contains("crm_mirror::sync::run_line=off"), "{summed_up}");
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

    fn logged(layer: impl FnOnce(Kept) -> LogEvent, filter: &str, events: impl FnOnce()) -> String {
        let kept = Kept::default();
        let subscriber = tracing_subscriber::registry()
            .with(layer(kept.clone()))
            .with(filter.parse::<Targets>().unwrap())
            .with(filter_fn(is_safe_to_log));
        tracing::subscriber::with_default(subscriber, events);
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn line_has_only_the_message() {
        let lines = logged(
            |kept| text(kept),
            "trace",
            || {
                tracing::warn!(page = 7, "Page 7 is on hold");
                tracing::info!("a line\n<0>and \u{1b}[31manother");
            },
        );
        let lines: Vec<&str> = lines.lines().map(|line| line.split_once("Z ").unwrap().1).collect();
        assert_eq!(lines, [" WARN Page 7 is on hold", " INFO a line\\n<0>and \\u{1b}[31manother"]);
    }

    #[test]
    fn text_line_has_the_message_and_json_has_the_fields() {
        let event = || tracing::info!(ru_left = 12, "12 RU are left");
        let line = logged(|kept| text(kept), "trace", event);
        assert!(line.ends_with(" INFO 12 RU are left\n"), "{line}");
        let document: serde_json::Value = serde_json::from_str(&logged(json, "trace", event)).unwrap();
        assert_eq!(document["ru_left"], 12);
        assert_eq!(document["message"], "12 RU are left");
        assert_eq!(document["level"], "INFO");
    }

    #[test]
    fn libraries_log_only_warnings_whatever_the_filter() {
        let lines = logged(
            |kept| text(kept),
            "trace,hyper=trace,crm_mirrored=trace",
            || {
                tracing::debug!(target: "hyper::proto", "authorization: Bearer secret");
                tracing::trace!(target: "crm_mirrored", "not ours either");
                tracing::warn!(target: "rustls", "a certificate is expired");
                tracing::trace!("ours");
            },
        );
        assert!(lines.lines().count() == 2 && lines.contains("a certificate is expired"), "{lines}");
        assert!(lines.ends_with("TRACE ours\n"), "{lines}");
    }

    #[test]
    fn error_message_has_error_priority_on_each_line() {
        assert_eq!(prioritised("error: no\nhint: do\n"), "<3>error: no\n<3>hint: do\n");
    }
}
