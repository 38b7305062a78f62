//! A handle to a sandbox, shared by the server that answers and the test or demo that inspects and changes it.

use std::sync::{Arc, Mutex, MutexGuard};

use super::exchange::{Answer, IncomingRequest, Log, LoggedRequest, REPLAYED, RequestLine};
use super::fault::{Fault, TakenFaults};
use super::faults::Faults;
use super::keys::SCOPES;
use super::service::{self, Memory, SandboxSettings};
use super::state::{DevelopmentError, locked};
use super::world::World;
use crate::model::{Clock, Ru};

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
        world.now = self.0.clock.now();
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
        self.memory().log.clone()
    }

    pub fn clear_log(&self) {
        self.memory().log = Log::default();
    }

    pub fn faults(&self) -> &Faults {
        &self.0.faults
    }

    pub fn add_key(&self, scopes: &[&str]) -> String {
        let secret = format!("crm_test_v1_{:032x}", fastrand::u128(..));
        self.set_key(&secret, scopes);
        secret
    }

    /// Adds a key with a chosen secret, or changes the scopes of that key.
    pub fn set_key(&self, secret: &str, scopes: &[&str]) {
        let scopes = scopes.iter().map(|scope| scope.to_string()).collect();
        self.memory().keys.insert(secret.to_string(), scopes);
    }

    pub fn full_key(&self) -> String {
        self.add_key(&SCOPES)
    }

    pub fn revoke_key(&self, secret: &str) {
        self.memory().keys.remove(secret);
    }

    pub fn configure(&self, change: impl FnOnce(&mut SandboxSettings)) {
        change(&mut self.memory().settings);
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, Memory> {
        locked(&self.0.memory)
    }

    /// Changes the world, and writes it into the state file.
    pub(super) fn write<T>(&self, change: impl FnOnce(&mut World, &mut Memory) -> T) -> Result<T, DevelopmentError> {
        let (mut world, mut memory) = (self.world(), self.memory());
        let changed = change(&mut world, &mut memory);
        memory.write(&world)?;
        Ok(changed)
    }

    /// The answer, `None` if the connection closes without one, and the faults on its way.
    pub(super) fn serve(&self, request: IncomingRequest) -> (Option<Answer>, TakenFaults, SandboxSettings) {
        let mut world = self.world();
        // The hook is taken out while it runs, so that it can use other handles of the sandbox.
        let hook = locked(&self.0.hook).take();
        if let Some(mut hook) = hook {
            hook(&mut world, &request.asked);
            locked(&self.0.hook).get_or_insert(hook);
        }
        let at = self.0.clock.now();
        let faults = self.0.faults.take(&request.asked, at);
        let mut memory = self.memory();
        let mut answer = service::execute(&mut world, &mut memory, &request, &faults);
        if let Err(error) = memory.write(&world) {
            tracing::warn!("{error}");
            answer = error.into();
        }
        let replayed =
            answer.headers.iter().find(|(name, _)| *name == REPLAYED).map(|(_, replayed)| replayed == "true");
        let ru = match replayed {
            // The reference does not specify the cost of a failed request, nor that of a replayed PATCH.
            _ if answer.status != 200 || matches!(faults.answer, Some(Fault::ErrorAfterApply(_))) => Ru::ZERO,
            Some(_) => Ru::PATCH,
            None => Ru::GET,
        };
        let answer = faults.deliver(answer);
        let status = answer.as_ref().map(|answer| answer.status);
        let shown = status.map_or_else(|| "no answer".to_string(), |status| status.to_string());
        tracing::debug!("{} {} {shown} {ru}", request.asked.method, request.asked.line());
        let is_patch = request.asked.method == "PATCH";
        let header = |name| request.header(name).map(String::from);
        let entry = LoggedRequest {
            at,
            if_match: header("if-match"),
            idempotency_key: header("idempotency-key"),
            body: is_patch.then(|| String::from_utf8_lossy(&request.body).into_owned()),
            status,
            ru,
            cut: answer.is_none() || matches!(faults.answer, Some(Fault::Truncated | Fault::TruncatedChunked)),
            replayed: replayed == Some(true),
            changed: replayed == Some(false) && faults.answer != Some(Fault::NotApplied),
            asked: request.asked,
        };
        let limit = memory.settings.log_limit;
        memory.log.push(entry, limit);
        (answer, faults, memory.settings.clone())
    }
}
