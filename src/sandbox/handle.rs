//! A handle to a sandbox, shared by the server that answers and the test or demo that inspects and changes it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::model::Clock;

use super::exchange::{IncomingRequest, Log, LoggedRequest, RequestLine, Served};
use super::fault::Fault;
use super::faults::{FaultLine, Faults};
use super::keys::SCOPES;
use super::origin::Origin;
use super::patch::Replays;
use super::service::{self, Memory, SandboxSettings};
use super::state::StateError;
use super::world::World;

type Hook = Box<dyn FnMut(&mut World, &RequestLine) + Send>;

/// Clones share everything.
#[derive(Clone)]
pub struct Sandbox(Arc<SandboxShared>);

struct SandboxShared {
    clock: Arc<dyn Clock>,
    faults: Faults,
    // Locks are taken in this order.
    world: Mutex<World>,
    hook: Mutex<Option<Hook>>,
    memory: Mutex<Memory>,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sandbox {
    pub fn new(world: World, clock: Arc<dyn Clock>) -> Sandbox {
        Sandbox(Arc::new(SandboxShared {
            clock,
            faults: Faults::default(),
            world: Mutex::new(world),
            hook: Mutex::new(None),
            memory: Mutex::new(Memory::default()),
        }))
    }

    /// The world, at the clock's time. Requests wait while the guard is held, so do not hold it across an await: a
    /// `for` over `sandbox.world().ids(..)` does, [`Sandbox::with_world`] does not.
    pub fn world(&self) -> MutexGuard<'_, World> {
        let mut world = locked(&self.0.world);
        world.set_now(self.0.clock.now());
        world
    }

    pub fn with_world<T>(&self, access: impl FnOnce(&mut World) -> T) -> T {
        access(&mut self.world())
    }

    /// Sets a hook that runs before each request: the world can change between two pages.
    pub fn before_request(&self, hook: impl FnMut(&mut World, &RequestLine) + Send + 'static) {
        *locked(&self.0.hook) = Some(Box::new(hook));
    }

    pub fn clear_hook(&self) {
        *locked(&self.0.hook) = None;
    }

    pub fn log(&self) -> Log {
        locked(&self.0.memory).log.clone()
    }

    pub fn clear_log(&self) {
        locked(&self.0.memory).log = Log::default();
    }

    pub fn faults(&self) -> &Faults {
        &self.0.faults
    }

    pub fn add_key(&self, scopes: &[&str]) -> String {
        locked(&self.0.memory).keys.add(None, scopes)
    }

    /// Adds a key with a chosen secret, or changes the scopes of that key.
    pub fn set_key(&self, secret: &str, scopes: &[&str]) {
        locked(&self.0.memory).keys.add(Some(secret), scopes);
    }

    pub fn full_key(&self) -> String {
        self.add_key(&SCOPES)
    }

    pub fn revoke_key(&self, secret: &str) {
        locked(&self.0.memory).keys.revoke(secret);
    }

    pub fn settings(&self) -> SandboxSettings {
        locked(&self.0.memory).settings.clone()
    }

    pub fn configure(&self, change: impl FnOnce(&mut SandboxSettings)) {
        change(&mut locked(&self.0.memory).settings);
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// Replaces the faults by those of a fault line.
    pub fn apply_faults(&self, line: &FaultLine) {
        self.faults().clear();
        line.rules.iter().for_each(|rule| self.faults().add(rule.clone()));
    }

    pub(crate) fn has_admin(&self) -> bool {
        locked(&self.0.memory).origin.is_some()
    }

    /// Changes the world, and writes what changed, or all of it, into the state file.
    fn write<T>(&self, whole: bool, change: impl FnOnce(&mut World, &mut Memory) -> T) -> Result<T, StateError> {
        let mut world = self.world();
        let mut memory = locked(&self.0.memory);
        let changed = change(&mut world, &mut memory);
        memory.write(&mut world, whole)?;
        Ok(changed)
    }

    /// Sets what a reset restores, and writes the state file for the first time.
    pub(crate) fn begin(&self, origin: Origin, replays: Replays) -> Result<(), StateError> {
        self.write(true, |world, memory| {
            world.touched = origin.file.is_some().then(BTreeSet::new);
            (memory.replays, memory.origin) = (replays, Some(origin));
        })
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> Result<T, StateError> {
        self.write(false, |world, _| change(world))
    }

    pub(crate) fn reset(&self) -> Result<(), StateError> {
        self.write(true, |world, memory| {
            let Some(origin) = &memory.origin else { return };
            // The fixture was valid when the sandbox started.
            if let Ok(begun) = origin.world() {
                *world = begun;
            }
            world.touched = origin.file.is_some().then(BTreeSet::new);
            origin.clock.set_advanced(Duration::ZERO);
            self.faults().seed(origin.development.seed);
            self.apply_faults(&origin.development.faults);
            memory.forget();
        })
    }

    pub(crate) fn advance(&self, by: Duration) -> Result<(), StateError> {
        self.write(false, |_, memory| {
            if let Some(Origin { clock, .. }) = &memory.origin {
                clock.set_advanced(clock.advanced() + by);
            }
        })
    }

    pub(crate) fn serve(&self, request: IncomingRequest) -> Served {
        let mut world = self.world();
        // The hook is taken out while it runs, so that it can use other handles of the sandbox.
        let hook = locked(&self.0.hook).take();
        if let Some(mut hook) = hook {
            hook(&mut world, &request.asked);
            locked(&self.0.hook).get_or_insert(hook);
        }
        let at = self.0.clock.now();
        let faults = self.0.faults.take(&request.asked, at);
        let mut memory = locked(&self.0.memory);
        let (key, mut result) = service::execute(&mut world, &mut memory, &request, &faults);
        if let Err(error) = memory.write(&mut world, false) {
            tracing::warn!("{error}");
            result = Err(error.into());
        }
        memory.requests += 1;
        let replayed = result.as_ref().ok().and_then(|success| success.replayed);
        let served = service::served(result, &faults, &memory.settings, memory.requests);
        let status = served.answer.as_ref().map(|answer| answer.status().as_u16());
        let shown = status.map_or_else(|| "no answer".to_string(), |status| status.to_string());
        tracing::debug!("{} {} {shown} {}", request.asked.method, request.asked.line(), served.ru);
        let is_patch = request.asked.method == "PATCH";
        let entry = LoggedRequest {
            at,
            asked: request.asked,
            if_match: request.if_match,
            idempotency_key: request.idempotency_key,
            body: is_patch.then(|| String::from_utf8_lossy(&request.body).into_owned()),
            status,
            ru: served.ru,
            key,
            cut: served.is_cut(),
            replayed: replayed == Some(true),
            changed: replayed == Some(false) && faults.answer != Some(Fault::NotApplied),
        };
        let limit = memory.settings.log_limit;
        memory.log.push(entry, limit);
        served
    }
}
