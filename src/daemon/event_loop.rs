//! The daemon's loop: it receives inputs, passes them to [`super::state_machine`], and executes the resulting effects.
//!
//! It never waits for the mirror, a request or the disk: long work runs in tasks that send a message when done.
//! So requests and signals are answered at once, and systemd's watchdog detects a loop that is stuck. It reads the
//! clock at least every ten seconds, which detects a clock that was set and a machine that slept.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant as Monotonic};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::error::DaemonError;
use super::event::Event;
use super::handler_state::{Control, LoopMessage};
use super::inputs_and_effects::{DaemonAnswer, Effect, Input};
use super::job::JobResult;
use super::runner::{self, Runner};
use super::state_machine::{PastRuns, StateMachine};
use super::systemd::DaemonSignals;
use super::timetable::Timetable;
use super::watches::CronTicks;
use super::{status_reply, systemd};
use crate::app::Summary;
use crate::config::Config;
use crate::format;
use crate::model::Instant;

const LOOK: Duration = Duration::from_secs(10);

/// The clock counts as moved if it differs from the elapsed time by more than this.
const MOVED: Duration = Duration::from_secs(5);

/// How long a request in flight may take to finish once the daemon is asked to stop. An unfinished one is sent again later.
const GRACE: Duration = Duration::from_millis(3300);

pub(super) struct EventLoop {
    state: StateMachine,
    part: f64,
    scheduler: CronTicks,
    control: Control,
    runner: Runner,
    /// Who sent the request that is being processed.
    asking: Option<oneshot::Sender<DaemonAnswer>>,
    running: Option<JoinHandle<()>>,
    /// The result of the run that ended last.
    ended: Option<JobResult>,
    /// The summaries of the earlier runs of the jobs that were preempted.
    earlier: HashMap<u64, Box<Summary>>,
    status: String,
    /// What was logged to be waited for.
    wait: Option<String>,
    failure: Option<DaemonError>,
    last_look: (Instant, Monotonic),
}

impl EventLoop {
    pub(super) async fn begin(runner: Runner, past: PastRuns, control: Control, scheduler: CronTicks) -> EventLoop {
        let (config, now, part) = (control.config(), control.now(), past.part);
        let mut event_loop = EventLoop {
            state: StateMachine::new(Timetable::new(&config.sync, part), past, now),
            part,
            ended: None,
            earlier: HashMap::new(),
            scheduler,
            control,
            runner,
            asking: None,
            running: None,
            status: String::new(),
            wait: None,
            failure: None,
            last_look: (now, Monotonic::now()),
        };
        event_loop.reschedule().await;
        event_loop
    }

    async fn reschedule(&mut self) {
        if let Err(error) = self.scheduler.set(&self.state.timetable, self.control.now()).await {
            tracing::error!("The scheduler could not be configured: {error}; the timetable is still checked");
        }
    }

    /// Runs until the daemon is asked to stop. Returns the runner, and the time of the request.
    pub(super) async fn run_until_stopped(
        mut self,
        inbox: &mut mpsc::Receiver<LoopMessage>,
        signals: &mut DaemonSignals,
    ) -> (Result<(), DaemonError>, Runner, Monotonic) {
        let config = self.control.config();
        tracing::info!(
            pid = std::process::id(),
            "The daemon is ready: mirror {}, control socket {}",
            config.database.display(),
            config.socket.display()
        );
        let mut stopped_at: Option<Monotonic> = None;
        // Due jobs start before systemd is notified that the daemon is ready: the first status line shows the running job.
        let mut continues = self.on(Input::Tick).await;
        systemd::tell("READY=1");
        while continues {
            self.publish_status();
            let now = self.control.now();
            let wake = self.state.wakes_at(now).map_or(LOOK, |at| at.since(now).min(LOOK));
            // A running job stops at a page boundary, within this time.
            let grace = stopped_at.map(|at| GRACE.saturating_sub(at.elapsed()));
            let input = tokio::select! {
                biased;
                ends = signals.ends(), if stopped_at.is_none() => Some(if ends { Input::Stop } else { Input::Reload }),
                message = inbox.recv() => match message {
                    Some(message) => self.receive(message),
                    None => break,
                },
                () = tokio::time::sleep(grace.unwrap_or_default()), if grace.is_some() => {
                    tracing::warn!("A request is still in flight; its data is read again after the restart");
                    break;
                }
                () = tokio::time::sleep(wake) => Some(Input::Tick),
            };
            if input == Some(Input::Stop) && stopped_at.is_none() {
                stopped_at = Some(Monotonic::now());
                tracing::info!("Stopping");
                systemd::tell("STOPPING=1");
                self.control.tell(&Event::Stopping);
            }
            if let Some(moved) = self.look_at_the_clock() {
                continues &= self.on(moved).await;
            }
            let is_key_refused = self.state.trouble.as_ref().is_some_and(|trouble| trouble.is_of_key);
            let has_changed = || runner::changed_key(&self.runner.mirror, &self.control).is_some();
            if is_key_refused && self.state.running().is_none() && has_changed() {
                continues &= self.on(Input::NewKey).await;
            }
            if let Some(input) = input.filter(|_| continues) {
                continues = self.on(input).await;
            }
        }
        let EventLoop { scheduler, running, runner, failure, .. } = self;
        if let Some(running) = running {
            // The daemon was asked to stop and the run did not: it is aborted, as by a kill.
            running.abort();
            let _ = running.await;
        }
        scheduler.end().await;
        (failure.map_or(Ok(()), Err), runner, stopped_at.unwrap_or_else(Monotonic::now))
    }

    fn receive(&mut self, message: LoopMessage) -> Option<Input> {
        match message {
            LoopMessage::Input(input) => Some(input),
            LoopMessage::Ask(request, answer) => {
                self.asking = Some(answer);
                Some(Input::Asked(request))
            }
            LoopMessage::IsAlive(answer) => {
                // The client may have disconnected.
                let _ = answer.send(());
                None
            }
            LoopMessage::Ended(ended) => {
                self.running = None;
                let mut result = ended.result;
                let earlier = self.state.running().and_then(|(job, _)| self.earlier.remove(&job.id));
                // The runs of a job count as one. If the last one has no summary, the earlier ones do not say how it ended.
                if let (Some(summary), Some(earlier)) = (&mut result.summary, earlier) {
                    summary.add(&earlier);
                }
                self.ended = Some(result);
                Some(Input::Ended(ended.ending))
            }
            LoopMessage::Reloaded(reloaded) => Some(self.reloaded(*reloaded)),
            LoopMessage::Failed(error) => {
                self.failure = Some(error);
                Some(Input::Stop)
            }
        }
    }

    fn reloaded(&mut self, reloaded: Result<Arc<Config>, DaemonError>) -> Input {
        self.control.reloaded(reloaded.as_ref().err());
        systemd::tell("READY=1");
        Input::Reloaded(reloaded.ok().map(|config| Timetable::new(&config.sync, self.part)))
    }

    fn look_at_the_clock(&mut self) -> Option<Input> {
        let (now, passed) = (self.control.now(), Monotonic::now());
        let (then, before) = std::mem::replace(&mut self.last_look, (now, passed));
        let should = then.plus(passed.duration_since(before));
        let off = now.since(should).max(should.since(now));
        if off > MOVED {
            let by = format::duration(off);
            tracing::info!(off_s = off.as_secs(), "The clock was moved, or the machine slept: off by {by}");
        }
        (off > MOVED).then_some(Input::ClockMoved)
    }

    /// Passes an input to the state machine and executes the effects. Returns whether the daemon continues.
    async fn on(&mut self, input: Input) -> bool {
        let mut continues = true;
        let effects = self.state.on(input, self.control.now());
        // Before any answer, so that the status shows its effect.
        self.publish();
        for effect in effects {
            match effect {
                Effect::Start(job) => {
                    let (work, trigger) = (job.job.name().into(), job.trigger);
                    self.control.tell(&Event::Started { job: job.id, work, trigger });
                    self.running = Some(self.runner.start(&job));
                }
                Effect::Preempt => self.runner.mirror.meter().stop(),
                Effect::ClearHold => self.runner.clear_hold(),
                Effect::Queued(job) => {
                    self.control.tell(&Event::Queued { job: job.id, work: job.job.name().into() });
                }
                Effect::Preempted(job) => {
                    self.earlier.extend(self.ended.take().and_then(|ended| Some((job.id, ended.summary?))));
                    self.control.tell(&Event::Preempted { job: job.id });
                }
                Effect::Finished(job) => {
                    if let Some(result) = self.ended.take() {
                        self.control.known().has_run = true;
                        self.control.tell(&Event::Finished { job: job.id, result });
                    }
                }
                // The client may have disconnected.
                Effect::Answer(answer) => drop(self.asking.take().map(|client| client.send(answer))),
                Effect::StorePause(since) => {
                    self.control.tell(if since.is_some() { &Event::Paused } else { &Event::Resumed });
                    let (store, control) = (self.runner.mirror.store(), self.control.clone());
                    tokio::spawn(runner::store_pause(store, control, self.asking.take()));
                }
                Effect::Reload => {
                    systemd::reloading();
                    self.runner.reload();
                }
                Effect::Reschedule => self.reschedule().await,
                Effect::Exit => continues = false,
            }
        }
        continues
    }

    /// Publishes the status, and logs what is waited for when that begins, changes and ends.
    fn publish(&mut self) {
        let status = status_reply::status(&self.state, self.control.since, self.control.now());
        let (wait, is_locked) = (status.wait(), status.waiting_for.is_some());
        self.control.daemon.send_replace(status);
        // During a pause nobody finds out whether a lock is gone, so nothing is said about it.
        if wait != self.wait && (wait.is_some() || self.state.locked.is_none()) {
            match (&wait, &self.wait) {
                // Somebody has to end the other program's transaction.
                (Some(begins), _) if is_locked => tracing::warn!("{begins}"),
                (Some(begins), _) => tracing::info!("{begins}"),
                (None, Some(ended)) => tracing::info!("Over: {ended}"),
                (None, None) => {}
            }
            self.wait = wait;
        }
    }

    fn publish_status(&mut self) {
        self.publish();
        let line = self.control.line();
        if line != self.status {
            systemd::tell(&format!("STATUS={line}"));
            self.status = line;
        }
    }
}
