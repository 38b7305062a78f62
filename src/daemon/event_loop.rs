//! The daemon's loop: it receives inputs, passes them to [`super::state_machine`], and executes the resulting effects.
//!
//! The loop itself never waits for the mirror, a request or the disk: long work runs in tasks that send a message when
//! they are done. So status, pauses and signals are answered at once, and systemd's watchdog detects a loop that is
//! stuck. The loop reads the clock at least every ten seconds, which detects a clock that was set and a machine that
//! slept.

use std::sync::Arc;
use std::time::{Duration, Instant as Monotonic};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::bus::{Event, JobResults};
use super::error::DaemonError;
use super::handler_state::{Control, LoopMessage};
use super::inputs_and_effects::{DaemonAnswer, Effect, Input};
use super::job::{FailureKind, JobRunEnd, RunEnd};
use super::runner::Runner;
use super::state_machine::{DaemonHold, HoldReason, PastRuns, StateMachine};
use super::systemd::DaemonSignals;
use super::timetable::Timetable;
use super::watches::CronTicks;
use super::{status_reply, systemd};
use crate::config::Config;
use crate::error_chain::error_chain;
use crate::format;
use crate::model::Instant;

const LOOK: Duration = Duration::from_secs(10);

/// The same during a run, whose progress the status line shows.
const LOOK_AT_RUN: Duration = Duration::from_secs(2);

/// The clock counts as moved if it differs from the elapsed time by more than this.
const MOVED: Duration = Duration::from_secs(5);

/// A hold, or holds that follow each other, that keep the mirror from being updated for longer than this are a warning.
const LONG_HOLD: Duration = Duration::from_secs(1800);

/// How long a request in flight may take to finish once the daemon is told to stop. An unfinished one is sent again
/// later.
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
    results: JobResults,
    status: String,
    hold: Option<DaemonHold>,
    /// When the first of the holds began between which no run completed.
    held_since: Option<Instant>,
    failure: Option<DaemonError>,
    /// Reloads again, if the mirror's file did not take the last configuration.
    owed_reload: Option<JoinHandle<()>>,
    last_look: (Instant, Monotonic),
}

impl EventLoop {
    pub(super) async fn begin(runner: Runner, past: PastRuns, control: Control, scheduler: CronTicks) -> EventLoop {
        let (config, now, part) = (control.config(), control.now(), past.part);
        let mut event_loop = EventLoop {
            state: StateMachine::new(Timetable::new(&config.sync, part), past, now),
            part,
            results: JobResults::new(control.bus.clone()),
            scheduler,
            control,
            runner,
            asking: None,
            running: None,
            status: String::new(),
            hold: None,
            held_since: None,
            failure: None,
            owed_reload: None,
            last_look: (now, Monotonic::now()),
        };
        event_loop.reschedule().await;
        event_loop
    }

    async fn reschedule(&mut self) {
        if let Err(error) = self.scheduler.set(self.state.timetable(), self.control.now()).await {
            tracing::error!("The scheduler could not be configured: {error}; the timetable is still checked");
        }
    }

    /// Runs until the daemon is told to stop. Returns the runner, and the time of the request.
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
        let watchdog = systemd::heartbeat();
        let heartbeat = watchdog.unwrap_or(LOOK).min(LOOK);
        let mut alive_at: Option<Monotonic> = None;
        let mut stopped_at = Monotonic::now();
        // Due jobs start before systemd is notified that the daemon is ready: the first status line shows the running
        // job.
        let mut continues = self.on(Input::Tick).await;
        systemd::ready();
        while continues {
            self.publish_status();
            // Not with every event: a notification blocks if systemd is busy and does not read.
            if let Some(every) = watchdog
                && alive_at.is_none_or(|at| at.elapsed() >= every / 2)
            {
                systemd::alive();
                alive_at = Some(Monotonic::now());
            }
            let now = self.control.now();
            let look = if self.state.running().is_some() { heartbeat.min(LOOK_AT_RUN) } else { heartbeat };
            let wake = self.state.wakes_at(now).map_or(look, |at| at.since(now).min(look));
            let input = tokio::select! {
                biased;
                ends = signals.ends() => Some(if ends { Input::Stop } else { Input::Reload }),
                message = inbox.recv() => match message {
                    Some(message) => self.receive(message),
                    None => Some(Input::Stop),
                },
                () = tokio::time::sleep(wake) => Some(Input::Tick),
            };
            if let Some(moved) = self.look_at_the_clock() {
                continues &= self.on(moved).await;
            }
            if self.state.is_key_refused() && self.state.running().is_none() && self.runner.key_changed() {
                continues &= self.on(Input::NewKey).await;
            }
            match input {
                Some(Input::Stop) => {
                    stopped_at = Monotonic::now();
                    tracing::info!("Stopping");
                    systemd::stopping();
                    self.control.bus.publish(&Event::Stopping);
                    continues &= self.on(Input::Stop).await && self.end_the_run(inbox).await;
                }
                Some(input) if continues => continues = self.on(input).await,
                _ => {}
            }
        }
        let EventLoop { scheduler, running, runner, failure, .. } = self;
        if let Some(running) = running {
            // The daemon was told to stop and the run did not: it is aborted, as by a kill.
            running.abort();
            let _ = running.await;
        }
        scheduler.end().await;
        (failure.map_or(Ok(()), Err), runner, stopped_at)
    }

    /// Waits, within the time limit, for the running job to stop at a page boundary. Returns whether to continue.
    async fn end_the_run(&mut self, inbox: &mut mpsc::Receiver<LoopMessage>) -> bool {
        let until = tokio::time::Instant::now() + GRACE;
        loop {
            match tokio::time::timeout_at(until, inbox.recv()).await {
                Ok(Some(message)) => {
                    if let Some(input) = self.receive(message)
                        && !self.on(input).await
                    {
                        return false;
                    }
                }
                Ok(None) => return false,
                Err(_) => {
                    tracing::warn!("A request is still in flight; its data is read again after the restart");
                    return false;
                }
            }
        }
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
                if let Some((job, since)) = self.state.running() {
                    let took = self.control.now().since(since);
                    self.control.bus.known().durations.entry(job.job.kind()).or_default().record(took);
                }
                let input = Input::Ended(ended.ending.clone());
                self.log_end(&ended);
                self.results.take(ended.result);
                Some(input)
            }
            LoopMessage::Reloaded(reloaded) => Some(self.reloaded(*reloaded)),
            LoopMessage::Failed(error) => {
                self.failure = Some(error);
                Some(Input::Stop)
            }
        }
    }

    fn reloaded(&mut self, reloaded: Result<Arc<Config>, DaemonError>) -> Input {
        let is_owed = matches!(&reloaded, Err(error) if error.is_of_the_file());
        let owed = self.owed_reload.take().inspect(JoinHandle::abort);
        let timetable = match reloaded {
            Err(error) if is_owed => {
                // It is not invalid, whatever the one before was.
                self.control.bus.known().reload_failed = None;
                if owed.is_none() {
                    let why = error_chain(&error);
                    tracing::warn!("The new configuration is not active yet, and is tried again: {why}");
                }
                self.owed_reload = Some(self.runner.reload_again());
                None
            }
            Ok(config) => {
                self.control.bus.reloaded(None);
                Some(Timetable::new(&config.sync, self.part))
            }
            Err(error) => {
                self.control.bus.reloaded(Some(&error));
                None
            }
        };
        systemd::ready();
        Input::Reloaded(timetable)
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
        (off > MOVED || self.scheduler.is_stale(self.state.timetable(), now)).then_some(Input::ClockMoved)
    }

    /// Passes an input to the state machine and executes the effects. Returns whether the daemon continues.
    async fn on(&mut self, input: Input) -> bool {
        let mut continues = true;
        let ends = matches!(input, Input::Ended(_)).then(|| (self.trouble(), self.state.locked_since()));
        let effects = self.state.on(input, self.control.now());
        if let Some((trouble, locked)) = ends {
            self.log_change(trouble, locked);
        }
        // Before any answer, so that the status shows its effect.
        self.publish();
        for effect in effects {
            match effect {
                Effect::Start(job) => {
                    let (work, trigger) = (job.job.kind().into(), job.trigger);
                    self.control.bus.publish(&Event::Started { job: job.id, work, trigger });
                    self.running = Some(self.runner.start(&job));
                }
                Effect::Preempt => self.runner.stop(),
                Effect::ForgetSweeps => self.runner.forget_sweeps(),
                Effect::ClearHold => self.runner.clear_hold(),
                Effect::Queued(job) => {
                    self.control.bus.publish(&Event::Queued { job: job.id, work: job.job.kind().into() });
                }
                Effect::Preempted(job) => self.results.preempted(&job),
                Effect::Finished(job) => self.results.finished(&job),
                Effect::Withdrawn(job) => self.results.withdrawn(&job),
                // The client may have disconnected.
                Effect::Answer(answer) => drop(self.asking.take().map(|client| client.send(answer))),
                Effect::StorePause(since) => {
                    self.control.bus.publish(if since.is_some() { &Event::Paused } else { &Event::Resumed });
                    self.runner.store_pause(self.asking.take());
                }
                Effect::Reload => {
                    systemd::reloading();
                    self.runner.reload();
                }
                Effect::Reschedule => self.reschedule().await,
                Effect::Exit => continues = false,
            }
        }
        self.log_hold();
        continues
    }

    fn trouble(&self) -> Option<(Instant, u32)> {
        self.state.trouble().map(|trouble| (trouble.since, trouble.runs))
    }

    /// Logs that a run could not start, and since when runs fail. A run that began has logged its failure itself. The
    /// delays grow, so a service that is down for a day causes about thirty warnings.
    fn log_end(&mut self, ended: &JobRunEnd) {
        if ended.ending.end == RunEnd::Done && ended.ending.requested {
            self.held_since = None;
        }
        match (&ended.ending.end, self.trouble()) {
            (RunEnd::Failed { reason, .. }, _) if !ended.is_logged => {
                let hint = ended.result.hint.as_ref().map(|hint| format!(" ({hint})"));
                tracing::error!("A run failed: {reason}{}", hint.unwrap_or_default());
            }
            // The same failure as before.
            (RunEnd::Failed { kind: FailureKind::Partial { attempted: false, .. }, .. }, Some(_)) => {}
            (RunEnd::Failed { .. }, Some((since, runs))) => {
                let since = format::moment(since);
                tracing::info!(runs = runs + 1, "Runs have failed since {since}, {} in a row", runs + 1);
            }
            _ => {}
        }
    }

    /// Logs what the end of a run has changed: that runs succeed again, and that they wait for a locked mirror.
    fn log_change(&self, trouble: Option<(Instant, u32)>, locked: Option<Instant>) {
        if let (Some((since, runs)), None) = (trouble, self.state.trouble()) {
            let since = format::moment(since);
            tracing::info!(runs, "Runs succeed again; they had failed since {since}");
        }
        match (locked, self.state.locked_since()) {
            (None, Some(_)) => tracing::warn!(
                "Another program keeps the mirror locked, such as a shell with an open transaction; runs wait for its end"
            ),
            (Some(since), None) => {
                tracing::info!("The mirror is no longer locked, as it was since {}", format::moment(since));
            }
            _ => {}
        }
    }

    /// Logs the beginning of a hold with its reason, and its end. A series of holds that keeps the mirror from being
    /// updated for long is a warning: somebody has to act.
    fn log_hold(&mut self) {
        let now = self.control.now();
        let hold = self.state.hold(now);
        let before = std::mem::replace(&mut self.hold, hold);
        match (before, hold) {
            (before, Some(hold)) if before != Some(hold) => {
                let since = *self.held_since.get_or_insert(now);
                let (reason, until) = (hold.reason.to_string(), format::moment(hold.until));
                let why = match hold.reason {
                    HoldReason::RateLimit => "The service set a rate limit (429 or Retry-After)",
                    HoldReason::Budget => "The budget of this window is spent",
                };
                if hold.until.since(since) > LONG_HOLD {
                    let since = format::moment(since);
                    tracing::warn!(hold = reason, "{why}: no request is sent until {until}; held since {since}");
                } else {
                    tracing::info!(hold = reason, "{why}: no request is sent until {until}");
                }
            }
            (Some(_), None) => tracing::info!("The hold is over; requests are sent again"),
            _ => {}
        }
    }

    fn publish(&self) {
        self.control.publish(status_reply::status(&self.state, self.control.since, self.control.now()));
    }

    fn publish_status(&mut self) {
        self.publish();
        let work = self.control.bus.known().log.work.clone();
        let line = status_reply::line(&self.state, work, self.control.is_up_to_date(), self.control.now());
        let line = self.control.bus.after_invalid(line);
        if line != self.status {
            systemd::status(&line);
            self.status = line;
        }
    }
}
