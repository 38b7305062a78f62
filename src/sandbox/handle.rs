//! A sandbox in the hand: shared by the server that answers and the test or the demo that looks on and meddles.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::model::Clock;

use super::asked::Asked;
use super::exchange::{IncomingRequest, Served};
use super::faults::Faults;
use super::keys::SCOPES;
use super::log::{Entry, Log};
use super::service::{self, Memory};
use super::settings::Settings;
use super::world::World;

type Hook = Box<dyn FnMut(&mut World, &Asked) + Send>;

/// The CRM with its keys, faults and log. Clones share everything.
#[derive(Clone)]
pub struct Sandbox(Arc<Shared>);

struct Shared {
    clock: Arc<dyn Clock>,
    faults: Faults,
    // Locked in this order, wherever more than one is.
    world: Mutex<World>,
    hook: Mutex<Option<Hook>>,
    memory: Mutex<Memory>,
    log: Mutex<(Log, u64)>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sandbox {
    /// A sandbox of this world, without keys.
    pub fn new(world: World, clock: Arc<dyn Clock>) -> Sandbox {
        Sandbox(Arc::new(Shared {
            clock,
            faults: Faults::default(),
            world: Mutex::new(world),
            hook: Mutex::new(None),
            memory: Mutex::new(Memory::default()),
            log: Mutex::new((Log::default(), 0)),
        }))
    }

    /// The world, at the clock's time. Requests wait while it is held, so do not hold it across an await: a `for` over
    /// `sandbox.world().ids(..)` does, [`Sandbox::with_world`] does not.
    pub fn world(&self) -> MutexGuard<'_, World> {
        let mut world = locked(&self.0.world);
        world.set_now(self.0.clock.now());
        world
    }

    /// Looks at the world or changes it.
    pub fn with_world<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        look(&mut self.world())
    }

    /// Runs before each request is answered: the world may change between two pages.
    pub fn before_request(&self, hook: impl FnMut(&mut World, &Asked) + Send + 'static) {
        *locked(&self.0.hook) = Some(Box::new(hook));
    }

    /// Requests leave the world alone again.
    pub fn clear_hook(&self) {
        *locked(&self.0.hook) = None;
    }

    /// The requests so far.
    pub fn log(&self) -> Log {
        locked(&self.0.log).0.clone()
    }

    /// Forgets the requests so far.
    pub fn clear_log(&self) {
        locked(&self.0.log).0.clear();
    }

    /// The plan of misbehaviour.
    pub fn faults(&self) -> &Faults {
        &self.0.faults
    }

    /// Adds a key with these scopes and returns its secret.
    pub fn add_key(&self, scopes: &[&str]) -> String {
        locked(&self.0.memory).keys.add(None, scopes)
    }

    /// Adds a key with a chosen secret, or gives the key of that secret other scopes.
    pub fn set_key(&self, secret: &str, scopes: &[&str]) {
        locked(&self.0.memory).keys.add(Some(secret), scopes);
    }

    /// Adds a key that may do everything.
    pub fn full_key(&self) -> String {
        self.add_key(&SCOPES)
    }

    /// Makes a key unknown.
    pub fn revoke_key(&self, secret: &str) {
        locked(&self.0.memory).keys.revoke(secret);
    }

    /// The switches as they stand.
    pub fn settings(&self) -> Settings {
        locked(&self.0.memory).settings.clone()
    }

    /// Turns switches.
    pub fn configure(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut locked(&self.0.memory).settings);
    }

    /// The clock that dates changes and answers.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    pub(crate) fn serve(&self, request: &IncomingRequest) -> (Served, u64) {
        let mut world = self.world();
        // The hook is taken out while it runs, so that it may itself use the sandbox's other handles.
        let hook = locked(&self.0.hook).take();
        if let Some(mut hook) = hook {
            hook(&mut world, &request.asked);
            locked(&self.0.hook).get_or_insert(hook);
        }
        let faults = self.0.faults.take(&request.asked, self.0.clock.now());
        let served = service::serve(&mut world, &mut locked(&self.0.memory), request, &faults);
        let status = served.status();
        let shown = status.map_or_else(|| "no answer".to_string(), |status| status.to_string());
        tracing::debug!("{} {} {shown} {}", request.asked.method, request.asked.line(), served.ru);
        let mut log = locked(&self.0.log);
        log.1 += 1;
        log.0.push(Entry {
            at: self.0.clock.now(),
            asked: request.asked.clone(),
            if_match: request.if_match.clone(),
            idempotency_key: request.idempotency_key.clone(),
            body: (request.asked.method == "PATCH").then(|| String::from_utf8_lossy(&request.body).into_owned()),
            status,
            ru: served.ru,
            key: served.key,
            cut: served.is_cut(),
            replayed: served.result.as_ref().is_ok_and(|s| s.replayed == Some(true)),
            changed: served.result.as_ref().is_ok_and(|s| s.replayed == Some(false)),
        });
        (served, log.1)
    }
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").field("clock", &self.0.clock).finish_non_exhaustive()
    }
}
