//! The daemon's loop: it gathers what happens, asks [`super::state`] what that means, and does it.
//!
//! The loop itself tells systemd that it is alive, so a loop that is stuck is restarted. It looks at the clock at least
//! every ten seconds: a clock that was set, and a machine that slept, show in that.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant as Monotonic};

use futures_util::FutureExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::control::{self, Control, Server};
use super::endings::Endings;
use super::error::DaemonError;
use super::event::{Answer, Effect, Event};
use super::job::{End, Failing, Job};
use super::message::{Message, RunEnded};
use super::page::Page;
use super::schedule::Scheduler;
use super::signals::Signals;
use super::socket::Socket;
use super::state::State;
use super::told::Told;
use super::voice::Voice;
use super::workshop::{Before, Workshop};
use super::{describe, edits, notify};
use crate::config::{Config, Sources};
use crate::error_chain::error_chain;
use crate::model::{Clock, Instant};

/// The longest between two looks at the clock.
const LOOK: Duration = Duration::from_secs(10);

/// What the clock may differ from the time that has passed before it counts as moved.
const MOVED: Duration = Duration::from_secs(5);

/// How long a request under way may take to end once the daemon is asked to. What it brings is asked for again.
const GRACE: Duration = Duration::from_millis(3500);

/// Messages that may wait for the loop.
const INBOX: usize = 64;

/// Runs the daemon until it is asked to end.
///
/// # Errors
/// Why it cannot begin, or cannot go on.
pub async fn run(sources: Sources, clock: Arc<dyn Clock>) -> Result<(), DaemonError> {
    let signals = Signals::listen().map_err(DaemonError::Signals)?;
    let config = Config::load(&sources)?;
    let voice = Voice::new();
    let workshop = Workshop::open(sources, config, clock.clone(), Arc::new(voice.clone())).await?;
    let ended = with_workshop(workshop, clock, voice, signals).await;
    notify::stopping();
    ended
}

async fn with_workshop(
    workshop: Workshop,
    clock: Arc<dyn Clock>,
    voice: Voice,
    signals: Signals,
) -> Result<(), DaemonError> {
    match Daemon::begin(&workshop, clock, voice).await {
        Ok((daemon, inbox)) => daemon.live(workshop, inbox, signals).await,
        Err(error) => {
            workshop.close().await;
            Err(error)
        }
    }
}

struct Daemon {
    state: State,
    clock: Arc<dyn Clock>,
    since: Instant,
    /// This mirror's part of `sync.jitter`.
    part: f64,
    voice: Voice,
    scheduler: Scheduler,
    outbox: mpsc::Sender<Message>,
    socket: Socket,
    control: Control,
    server: Server,
    page: Option<Page>,
    edits: Option<edits::Watch>,
    waiting: HashMap<u64, oneshot::Sender<Answer>>,
    next_reply: u64,
    running: Option<JoinHandle<()>>,
    endings: Endings,
    status: String,
    last_look: (Instant, Monotonic),
    failure: Option<DaemonError>,
}

impl Daemon {
    async fn begin(
        workshop: &Workshop,
        clock: Arc<dyn Clock>,
        voice: Voice,
    ) -> Result<(Daemon, mpsc::Receiver<Message>), DaemonError> {
        let config = workshop.config();
        let now = clock.now();
        let before = Before::read(&config.database, now)?;
        let part = fastrand::f64();
        let timetable = super::Timetable::new(&config.sync, part);
        let (outbox, inbox) = mpsc::channel(INBOX);
        let (socket, listener) = Socket::bind(&config.socket)?;
        let control = Control::new(outbox.clone(), voice.clone(), config.clone(), clock.clone());
        let page = match config.http {
            Some(at) => Some(Page::serve(at, control.clone()).await?),
            None => None,
        };
        let server = control::serve(control.clone(), listener);
        let mut scheduler = Scheduler::start(outbox.clone()).await?;
        scheduler.set(&timetable, now).await?;
        let edits = config.write_back.then(|| edits::Watch::start(config.database.clone(), outbox.clone()));
        let daemon = Daemon {
            state: State::new(timetable, before.looked, before.paused_since, now),
            since: now,
            part,
            clock,
            endings: Endings::new(voice.clone()),
            voice,
            scheduler,
            outbox,
            socket,
            control,
            server,
            page,
            edits,
            waiting: HashMap::new(),
            next_reply: 0,
            running: None,
            status: String::new(),
            last_look: (now, Monotonic::now()),
            failure: None,
        };
        Ok((daemon, inbox))
    }

    async fn live(
        mut self,
        mut workshop: Workshop,
        mut inbox: mpsc::Receiver<Message>,
        mut signals: Signals,
    ) -> Result<(), DaemonError> {
        let config = workshop.config();
        tracing::info!(
            pid = std::process::id(),
            "The daemon is ready: mirror {}, control socket {}",
            config.database.display(),
            config.socket.display()
        );
        let watchdog = notify::heartbeat();
        let heartbeat = watchdog.unwrap_or(LOOK).min(LOOK);
        let mut said_alive: Option<Monotonic> = None;
        // What is due at once is begun before systemd is told: its first line says what goes on.
        let mut going = self.on(Event::Tick, &mut workshop).await;
        notify::ready();
        while going {
            self.say_status();
            // Not with every event: telling waits where systemd is busy and does not listen.
            if let Some(every) = watchdog
                && said_alive.is_none_or(|at| at.elapsed() >= every / 2)
            {
                notify::alive();
                said_alive = Some(Monotonic::now());
            }
            let wake =
                self.state.wakes_at(self.clock.now()).map_or(heartbeat, |at| at.since(self.clock.now()).min(heartbeat));
            let event = tokio::select! {
                biased;
                ends = signals.ends() => Some(if ends { Event::Stop } else { Event::Reload }),
                message = inbox.recv() => message.and_then(|message| self.receive(message)),
                () = tokio::time::sleep(wake) => Some(Event::Tick),
            };
            if let Some(moved) = self.look_at_the_clock() {
                going &= self.on(moved, &mut workshop).await;
            }
            if self.state.key_is_refused() && self.state.running().is_none() {
                going &= self.look_for_a_new_key(&mut workshop).await;
            }
            match event {
                Some(Event::Stop) => {
                    tracing::info!("Asked to end");
                    notify::stopping();
                    self.voice.say(&Told::Stopping);
                    going &=
                        self.on(Event::Stop, &mut workshop).await && self.end_the_run(&mut inbox, &mut workshop).await;
                }
                Some(event) if going => going = self.on(event, &mut workshop).await,
                _ => {}
            }
        }
        let Daemon { scheduler, socket, server, page, edits, running, failure, .. } = self;
        if let Some(running) = running {
            // Asked to end and not ended: what is in hand is left, as after a kill.
            running.abort();
            let _ = running.await;
        }
        if let Some(edits) = edits {
            edits.end().await;
        }
        scheduler.end().await;
        drop(socket);
        if let Some(page) = page {
            page.end().await;
        }
        server.end().await;
        workshop.close().await;
        failure.map_or(Ok(()), Err)
    }

    /// Waits for the run under way to end at a page's boundary, for as long as that may take. Gives whether to go on.
    async fn end_the_run(&mut self, inbox: &mut mpsc::Receiver<Message>, workshop: &mut Workshop) -> bool {
        let until = tokio::time::Instant::now() + GRACE;
        loop {
            match tokio::time::timeout_at(until, inbox.recv()).await {
                Ok(Some(message)) => {
                    if let Some(event) = self.receive(message)
                        && !self.on(event, workshop).await
                    {
                        return false;
                    }
                }
                Ok(None) => return false,
                Err(_) => {
                    tracing::warn!(
                        "A request is still under way; what it would have brought is asked for after the restart"
                    );
                    return false;
                }
            }
        }
    }

    /// Turns a message into an event, where it is one for the state.
    fn receive(&mut self, message: Message) -> Option<Event> {
        match message {
            Message::Tick => Some(Event::Tick),
            Message::Edited => Some(Event::Edited),
            Message::Ask(request, answer) => {
                self.next_reply += 1;
                self.waiting.insert(self.next_reply, answer);
                Some(Event::Asked(self.next_reply, request))
            }
            Message::Status(answer) => {
                // Whoever asked may have gone.
                let _ = answer.send(describe::status(&self.state, self.since, self.clock.now()));
                None
            }
            Message::Ended(ended) => {
                self.running = None;
                let event = Event::Ended(ended.outcome.clone());
                self.log_end(&ended);
                self.endings.take(*ended);
                Some(event)
            }
        }
    }

    /// Whether the clock was moved, or the zone's offset, since the last look.
    fn look_at_the_clock(&mut self) -> Option<Event> {
        let (now, passed) = (self.clock.now(), Monotonic::now());
        let (then, before) = std::mem::replace(&mut self.last_look, (now, passed));
        let should = then.plus(passed.duration_since(before));
        let off = now.since(should).max(should.since(now));
        if off > MOVED {
            tracing::info!(
                off_s = off.as_secs(),
                "The clock was moved, or the machine slept: off by {}",
                crate::format::duration(off)
            );
        }
        (off > MOVED || self.scheduler.is_stale(self.state.timetable(), now)).then_some(Event::ClockMoved)
    }

    /// Takes up a key that has taken the place of a refused one: nobody need wait for the next try. Gives whether the
    /// daemon goes on.
    async fn look_for_a_new_key(&mut self, workshop: &mut Workshop) -> bool {
        match workshop.take_new_key().await {
            Ok(true) => {
                tracing::info!("The API key is another now; it is in force");
                self.on(Event::NewKey, workshop).await
            }
            Ok(false) => true,
            Err(error) => {
                tracing::warn!(%error, "The API key is another now and could not be taken up: {error}");
                true
            }
        }
    }

    /// Lets the state take an event, and does what follows. Gives whether the daemon goes on.
    async fn on(&mut self, event: Event, workshop: &mut Workshop) -> bool {
        let mut effects = self.state.on(event, self.clock.now());
        let mut going = true;
        // What an effect brings about may have effects of its own.
        while !effects.is_empty() {
            for effect in std::mem::take(&mut effects) {
                match effect {
                    Effect::Start(job) => match self.start(&job, workshop).await {
                        Ok(None) => {}
                        Ok(Some(event)) => effects.extend(self.state.on(event, self.clock.now())),
                        Err(error) => {
                            let ended = RunEnded::could_not_begin(&error);
                            self.log_end(&ended);
                            let event = Event::Ended(ended.outcome.clone());
                            self.endings.take(ended);
                            effects.extend(self.state.on(event, self.clock.now()));
                        }
                    },
                    Effect::LetEnd => workshop.meter().stop(),
                    Effect::ClearHold => workshop.meter().clear_hold().await,
                    Effect::ForgetSweeps => workshop.forget_sweeps().await,
                    Effect::Queued(job) => self.voice.say(&Told::queued(&job)),
                    Effect::Yielded(job) => self.endings.yielded(&job),
                    Effect::Finished(job) => self.endings.finished(&job),
                    Effect::Dropped(job) => self.endings.dropped(&job),
                    Effect::Answer(reply, answer) => self.answer(reply, answer),
                    Effect::Remember(since) => {
                        self.voice.say(if since.is_some() { &Told::Paused } else { &Told::Resumed });
                        workshop.remember_pause(since).await;
                    }
                    Effect::Reload => {
                        let event = self.reload(workshop).await;
                        effects.extend(self.state.on(event, self.clock.now()));
                    }
                    Effect::Reschedule => {
                        let now = self.clock.now();
                        if let Err(error) = self.scheduler.set(self.state.timetable(), now).await {
                            tracing::error!(%error, "The scheduler was not set: {error}; the timetable is looked at every ten seconds");
                        }
                    }
                    Effect::Exit => going = false,
                }
            }
        }
        going
    }

    async fn start(&mut self, job: &Job, workshop: &mut Workshop) -> Result<Option<Event>, DaemonError> {
        let new_key = workshop.take_new_key().await?;
        if new_key {
            tracing::info!("The API key is another now; it is in force");
        }
        self.voice.say(&Told::started(job));
        let run = workshop.begin(job)?;
        let outbox = self.outbox.clone();
        self.running = Some(tokio::spawn(async move {
            // A mistake of ours ends the run that met it, and not the daemon's life.
            let ended = AssertUnwindSafe(run).catch_unwind().await;
            let ended = ended.unwrap_or_else(|_| RunEnded::broke_down());
            // A closed inbox belongs to a daemon that has ended.
            let _ = outbox.send(Message::Ended(Box::new(ended))).await;
        }));
        Ok(new_key.then_some(Event::NewKey))
    }

    async fn reload(&mut self, workshop: &mut Workshop) -> Event {
        notify::reloading();
        let event = match workshop.reload().await {
            Ok(()) => {
                let config = workshop.config();
                self.server.take(config.clone());
                self.show_page(&config).await;
                self.voice.say(&Told::Reloaded);
                tracing::info!("The configuration was read again and is in force");
                self.watch_edits(&config).await;
                Event::Reloaded(super::Timetable::new(&config.sync, self.part))
            }
            Err(error) => {
                let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
                tracing::error!(%error, "The configuration was not taken, and the one before stays in force: {error}{hint}");
                Event::Tick
            }
        };
        notify::ready();
        event
    }

    /// Serves the page where the configuration wants it now.
    async fn show_page(&mut self, config: &Config) {
        if self.page.as_ref().map(Page::wanted_at) == config.http {
            return;
        }
        let next = match config.http {
            None => None,
            Some(at) => match Page::serve(at, self.control.clone()).await {
                Ok(page) => Some(page),
                Err(error) => {
                    tracing::error!(
                        error = error_chain(&error),
                        hint = error.hint(),
                        "The status page stays as it was"
                    );
                    return;
                }
            },
        };
        if let Some(before) = std::mem::replace(&mut self.page, next) {
            before.end().await;
        }
    }

    async fn watch_edits(&mut self, config: &Config) {
        match (config.write_back, self.edits.take()) {
            (true, None) => self.edits = Some(edits::Watch::start(config.database.clone(), self.outbox.clone())),
            (false, Some(watch)) => watch.end().await,
            (_, watch) => self.edits = watch,
        }
    }

    fn answer(&mut self, reply: u64, answer: Answer) {
        if let Some(person) = self.waiting.remove(&reply) {
            // Whoever asked may have gone.
            let _ = person.send(answer);
        }
    }

    /// Logs that a run failed, since when runs fail, and that they succeed again. The waits grow, so a service that is
    /// down for a day is some thirty lines.
    fn log_end(&mut self, ended: &RunEnded) {
        let trouble = self.state.trouble().map(|trouble| (trouble.since, trouble.runs));
        if let End::Failed { failing: Failing::Config, why } = &ended.outcome.end {
            self.failure = Some(DaemonError::WrongWorkspace { why: why.clone() });
        }
        match (&ended.outcome.end, trouble) {
            (End::Failed { why, .. }, None) => {
                let hint = ended.hint.as_ref().map(|hint| format!(" ({hint})"));
                tracing::error!("A run failed: {why}{}", hint.unwrap_or_default());
            }
            (End::Failed { why, .. }, Some((since, runs))) => {
                let since = crate::format::moment(since);
                tracing::warn!(runs = runs + 1, "Runs have failed since {since}, {} in a row: {why}", runs + 1);
            }
            (_, Some((since, runs))) => {
                let since = crate::format::moment(since);
                tracing::info!(runs, "Runs succeed again; they had failed since {since}");
            }
            _ => {}
        }
    }

    /// Tells systemd how it stands, where that changed.
    fn say_status(&mut self) {
        let line = describe::line(&self.state, &self.voice, self.clock.now());
        if line != self.status {
            notify::status(&line);
            self.status = line;
        }
    }
}
