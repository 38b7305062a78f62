//! Tells people about trouble: one message when an episode begins, with what helps, and one when it is over.
//!
//! `episodes` finds what lasts, `reported` decides what is said, and this module sends it to a command or a webhook. What was
//! reported is in memory and stored in the mirror, so neither a restart nor a file that cannot be written repeats anything; a
//! message that could not be delivered is sent again after a growing delay.
//!
//! # Invariants
//! - Nothing waits for a delivery: mirroring goes on, whatever the receiver does.
//! - No message and no log line contains a secret, the address of the webhook or a value of a record.

mod episodes;
mod reported;

use std::process::Stdio;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use self::reported::{Episode, Notice, Reported, Subject};
use super::handler_state::{ALIVE_WITHIN, Control};
use super::status_reply::StatusReply;
use crate::api::transport::install_tls;
use crate::app::Mirror;
use crate::config::{Config, NotifyConfig};
use crate::model::{Instant, growing};
use crate::store::{ColumnEvent, StateKey, Store, StoreError, report};

const EVERY: Duration = Duration::from_secs(1);

/// The interval between two looks at the status while nothing changes: some episodes begin because time passes.
const UNCHANGED: Duration = Duration::from_secs(10);

const DELAYS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));

/// Watches the mirror for as long as its file exists, and tells people. Each look uses the daemon's current configuration.
pub(super) async fn tell(control: Control, mirror: Weak<Mirror>) {
    let (mut failures, mut next, mut known, mut seen) = (0_u32, Instant::EPOCH, None, None);
    loop {
        tokio::time::sleep(EVERY).await;
        let (config, now) = (control.config(), control.now());
        // A clock that was set back delays nothing for longer than the longest delay.
        if !config.notify.is_on() || (next > now && next.since(now) <= DELAYS.1) {
            continue;
        }
        let Some(book) = &mut known else {
            // A file that cannot be read now is read by the next look.
            known =
                control.with_reader(|reader, _| reader.begin()?.state(&StateKey::Reported)).await.ok().map(Book::new);
            continue;
        };
        // It changes with each commit; rarely, another file has the version of the last one.
        let Ok(version) = control.with_reader(|reader, _| reader.data_version()).await else { continue };
        let state = (version, control.daemon());
        let is_recent = |at: Instant| now.since(at).max(at.since(now)) < UNCHANGED;
        if seen.as_ref().is_some_and(|(before, at)| *before == state && is_recent(*at)) {
            continue;
        }
        // Asked before the status, which then shows how that run ended.
        let has_run = control.known().has_run;
        let Ok(reply) = control.status().await else { continue };
        let Some(store) = mirror.upgrade().map(|mirror| mirror.store()) else { return };
        match book.tell(&control, &store, &config, &reply, (has_run, control.now())).await {
            Ok(()) => {
                (failures, next, seen) = (0, Instant::EPOCH, (book.reported == book.stored).then_some((state, now)));
            }
            Err(error) => {
                if failures == 0 {
                    tracing::warn!("A notification could not be delivered and is sent again: {error}");
                }
                failures = failures.saturating_add(1);
                (next, seen) = (control.now().plus(growing(DELAYS, failures)), None);
            }
        }
    }
}

struct Book {
    reported: Reported,
    stored: Reported,
    /// What is being stored: one write waits for the file, however long that is locked.
    storing: Option<(Reported, BoxFuture<'static, Result<(), StoreError>>)>,
}

impl Book {
    fn new(stored: Option<Reported>) -> Book {
        let stored = stored.unwrap_or_default();
        Book { reported: stored.clone(), stored, storing: None }
    }

    /// Delivers what is due, and stores what was reported. An error says why the receiver did not take a message.
    async fn tell(
        &mut self,
        control: &Control,
        store: &Store,
        config: &Arc<Config>,
        reply: &StatusReply,
        (has_run, now): (bool, Instant),
    ) -> Result<(), String> {
        let after = self.reported.fields_after;
        let read = control.with_reader(move |reader, _| report::schema_changes(&reader.begin()?, after));
        // A file that cannot be read now is read by the next look.
        let Ok((newest, changed)) = read.await else { return Ok(()) };
        let found = episodes::now(reply, config, &self.reported, now);
        self.reported.observe(&found, now);
        let mut notices = self.reported.due(&found, has_run, now);
        let records = reply.status.mirrored(config).filter(|object| object.removed.is_some());
        let is_copied =
            records.map(|object| object.changes_as_of.is_some()).reduce(|all, one| all && one) == Some(true);
        // The fields of the first copy are not new.
        notices.extend(fields(config, &changed, now).filter(|_| is_copied));
        for notice in notices {
            deliver(&config.notify, notice.document(config).to_string()).await?;
            self.reported.delivered(&notice);
            self.store(store).await;
        }
        if is_copied {
            self.reported.fields_after = Some(newest);
        }
        self.store(store).await;
        Ok(())
    }

    /// Stores what was reported. While another program locks the file, the write goes on, and so does reporting.
    async fn store(&mut self, store: &Store) {
        if self.storing.is_none() && self.reported != self.stored {
            let (store, state) = (store.clone(), self.reported.clone());
            let writing = async move { store.write(move |tx| tx.set_state(&StateKey::Reported, &state)).await };
            self.storing = Some((self.reported.clone(), writing.boxed()));
        }
        let Some((_, writing)) = &mut self.storing else { return };
        let Ok(ended) = tokio::time::timeout(ALIVE_WITHIN, writing).await else { return };
        if let (Some((reported, _)), Ok(())) = (self.storing.take(), ended) {
            self.stored = reported;
        }
    }
}

fn fields(config: &Config, changed: &[ColumnEvent], now: Instant) -> Option<Notice> {
    let of = |op: &str| {
        let columns = changed.iter().filter(|change| change.op == op);
        columns.map(|change| format!("{}.{}", change.object, change.column)).collect::<Vec<_>>().join(", ")
    };
    let parts: Vec<String> = [("new", of("added")), ("archived", of("archived"))]
        .into_iter()
        .filter(|(_, columns)| !columns.is_empty())
        .map(|(what, columns)| format!("{what}: {columns}"))
        .collect();
    let text = format!("custom fields are {}", parts.join("; "));
    let episode = Episode::new(Subject::Fields, "", text, config.command("describe"));
    (!parts.is_empty()).then_some(Notice { episode, since: now, is_over: false })
}

const WITHIN: Duration = Duration::from_secs(20);

/// Delivers a message as one JSON document. An error names neither the address nor the arguments, which may be secrets.
async fn deliver(config: &NotifyConfig, body: String) -> Result<(), String> {
    match (&config.command, &config.webhook) {
        (Some(command), _) => run(command, body, WITHIN).await,
        (None, Some(address)) => post(address, body).await,
        (None, None) => Ok(()),
    }
}

/// Runs a command with the message as its standard input, and without the secrets of this process.
async fn run(command: &[String], body: String, within: Duration) -> Result<(), String> {
    let [program, arguments @ ..] = command else { return Ok(()) };
    let is_ours = |name: &str| name.starts_with("CRM_MIRROR_") || name == "CREDENTIALS_DIRECTORY";
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // So that one that takes too long is ended together with what it started.
    command.process_group(0);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_ours(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    let mut child = command.spawn().map_err(|error| format!("{program} cannot be run: {error}"))?;
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let input = child.stdin.take();
    let ended = async {
        if let Some(mut input) = input {
            // A command that does not read its message is none the worse for it.
            let _ = input.write_all(format!("{body}\n").as_bytes()).await;
        }
        child.wait().await
    };
    match tokio::time::timeout(within, ended).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("the command ended with {status}")),
        Ok(Err(error)) => Err(format!("the command cannot be waited for: {error}")),
        Err(_) => {
            group.map(|group| kill_process_group(group, Signal::KILL));
            let _ = child.wait().await;
            Err("the command takes too long".to_string())
        }
    }
}

async fn post(address: &reqwest::Url, body: String) -> Result<(), String> {
    install_tls();
    let built = reqwest::Client::builder().timeout(WITHIN).redirect(reqwest::redirect::Policy::none()).build();
    let client = built.map_err(|error| error.without_url().to_string())?;
    let request = client.post(address.clone()).header("content-type", "application/json").body(body);
    let answer = request.send().await.map_err(|error| {
        let kind = if error.is_connect() { "no connection" } else { "no answer" };
        format!("the webhook gives {kind}")
    })?;
    if answer.status().is_success() { Ok(()) } else { Err(format!("the webhook answered {}", answer.status())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn command_that_takes_too_long_is_ended_with_what_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let made = Command::new("mkfifo").arg(&fifo).status().await.unwrap();
        assert!(made.success());
        // The one that is started keeps the pipe open for as long as it lives.
        let script = format!("(sleep 600; true) >{} & wait", fifo.display());
        let command = ["/bin/sh", "-c", &script].map(String::from);
        let open = tokio::task::spawn_blocking(move || std::fs::read(&fifo));
        let ended = run(&command, "{}".into(), Duration::from_millis(300)).await;
        assert_eq!(ended, Err("the command takes too long".to_string()));
        assert_eq!(open.await.unwrap().unwrap(), b"");
    }

    #[tokio::test]
    async fn command_that_does_not_read_a_message_larger_than_a_pipe_holds_nothing_up() {
        let command = ["/bin/sh", "-c", "exec sleep 600"].map(String::from);
        let ended = run(&command, "x".repeat(1 << 20), Duration::from_millis(300)).await;
        assert_eq!(ended, Err("the command takes too long".to_string()));
    }
}
