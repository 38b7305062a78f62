//! Tells people about trouble: one message when an episode begins, with what helps, and one when it is over.
//!
//! `episodes` decides, `delivery` sends to a command or a webhook. What was told is stored in the mirror after the delivery,
//! so a restart repeats nothing, and a message that could not be delivered is sent again after a growing delay.
//!
//! # Invariants
//! - Nothing waits for a delivery: mirroring goes on, whatever the receiver does.
//! - No message and no log line contains a secret, the address of the webhook or a value of a record.

mod delivery;
mod episodes;

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use self::episodes::{Episode, Lasting, Notice, Subject, Told};
use super::handler_state::Control;
use super::status_reply::StatusReply;
use crate::app::Mirror;
use crate::config::Config;
use crate::error_chain::error_chain;
use crate::model::{Instant, Resource};
use crate::store::{StateKey, Store, StoreError, report};

/// How often it is asked whether anything changed.
const EVERY: Duration = Duration::from_secs(1);

/// The interval between two looks at the status while nothing changes: some episodes begin because time passes.
const UNCHANGED: Duration = Duration::from_secs(10);

/// The first and the longest delay after a delivery failed; the delay doubles in between.
const DELAYS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));

/// The task that tells people. It ends with the mirror.
#[derive(Debug)]
pub(super) struct Notifier(JoinHandle<()>);

impl Notifier {
    /// Starts to watch the status. The configuration is that of the daemon at each look.
    pub(super) fn start(control: Control, mirror: &Arc<Mirror>) -> Notifier {
        let mirror = Arc::downgrade(mirror);
        Notifier(tokio::spawn(async move {
            let mut every = tokio::time::interval(EVERY);
            every.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let (mut pace, mut lasting) = (DeliveryPace::default(), Lasting::default());
            let mut seen = None;
            loop {
                every.tick().await;
                let (config, now) = (control.config(), control.now());
                if !config.notify.is_on() || !pace.is_due(now) {
                    continue;
                }
                let Ok(version) = control.cache().version(config.clone()).await else { continue };
                let state = (version, control.cache().daemon());
                let is_recent = |at: Instant| now.since(at).max(at.since(now)) < UNCHANGED;
                if seen.as_ref().is_some_and(|(before, at)| *before == state && is_recent(*at)) {
                    continue;
                }
                let Ok(reply) = control.status().await else { continue };
                let Some(store) = store_of(&mirror) else { return };
                match tell(&store, &config, &reply, &mut lasting, control.now()).await {
                    Ok(()) => (pace, seen) = (DeliveryPace::default(), Some((state, now))),
                    Err(error) => {
                        pace.failed(&error, control.now());
                        seen = None;
                    }
                }
            }
        }))
    }

    /// Ends the task.
    pub(super) async fn end(self) {
        self.0.abort();
        let _ = self.0.await;
    }
}

fn store_of(mirror: &Weak<Mirror>) -> Option<Store> {
    mirror.upgrade().map(|mirror| mirror.store())
}

/// Delivers what is due, and stores that it was delivered.
async fn tell(
    store: &Store,
    config: &Config,
    reply: &StatusReply,
    lasting: &mut Lasting,
    now: Instant,
) -> Result<(), String> {
    let stored = |error: StoreError| error_chain(&error);
    let read = store.read(|tx| tx.state::<Told>(&StateKey::Told)).await.map_err(stored)?;
    let mut told = read.clone().unwrap_or_default();
    let mut found = episodes::now(reply, config, now);
    lasting.long_enough(&mut found, &told, now);
    let mut notices = episodes::due(&told, &found, has_run(reply), config, now);
    let is_copied = reply.status.objects.iter().all(|object| match object.object {
        Resource::Contacts | Resource::Companies if config.mirrors(object.object) => object.changes_as_of.is_some(),
        _ => true,
    });
    if is_copied {
        let after = told.fields_after;
        let (newest, changed) = store.read(move |tx| report::schema_changes(tx, after)).await.map_err(stored)?;
        // The fields of the first copy are not new.
        told.fields_after = Some(newest);
        notices.extend(fields(config, &changed, now).filter(|_| after.is_some()));
    }
    for notice in notices {
        delivery::deliver(&config.notify, &notice).await?;
        told.delivered(&notice);
        let told = told.clone();
        store.write(move |tx| tx.set_state(&StateKey::Told, &told)).await.map_err(stored)?;
    }
    if read.is_none() && told.fields_after.is_some() {
        store.write(move |tx| tx.set_state(&StateKey::Told, &told)).await.map_err(stored)?;
    }
    Ok(())
}

/// Whether a run has ended since the daemon started.
fn has_run(reply: &StatusReply) -> bool {
    let Some(daemon) = &reply.daemon else { return false };
    let ended = |started: &str| started.parse().is_ok_and(|at: Instant| at >= daemon.since);
    reply.status.runs.iter().any(|run| run.outcome.is_some() && ended(&run.started_at))
}

/// The message about fields that are new or archived.
fn fields(config: &Config, changed: &[report::SchemaChange], now: Instant) -> Option<Notice> {
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
    let episode = Episode::new(text, config.command("describe"));
    (!parts.is_empty()).then(|| Notice::begins(config, Subject::Fields, &episode, now))
}

/// When the next delivery may be tried.
#[derive(Debug, Default)]
struct DeliveryPace {
    failures: u32,
    next: Option<Instant>,
}

impl DeliveryPace {
    fn is_due(&self, now: Instant) -> bool {
        // A clock that was set back delays nothing for longer than the longest delay.
        self.next.is_none_or(|next| now >= next || next.since(now) > DELAYS.1)
    }

    fn failed(&mut self, error: &str, now: Instant) {
        if self.failures == 0 {
            tracing::warn!("A notification could not be delivered and is sent again: {error}");
        }
        let delay = DELAYS.0.saturating_mul(1 << self.failures.min(10)).min(DELAYS.1);
        self.failures = self.failures.saturating_add(1);
        self.next = Some(now.plus(delay));
    }
}
