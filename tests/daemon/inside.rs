//! The daemon in this process with a manual clock, so that days pass within a test.
//!
//! Its loop reads the clock when something happens; a request to the socket that changes nothing triggers that.

use std::path::PathBuf;
use std::process::Command;

use crm_mirror::config::{Environment, Sources};
use crm_mirror::daemon;
use crm_mirror::model::Clock;
use crm_mirror::sandbox::World;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::socket::{self, Events, Reply};
use crate::support::{Crm, Mirror};

pub struct Inside {
    pub crm: Crm,
    pub mirror: Mirror,
    pub socket: PathBuf,
    daemon: Option<Runtime>,
    // A runtime apart from the daemon's: a blocked service must not block the daemon.
    _service: Runtime,
}

impl Inside {
    /// A started daemon without a schedule except for these settings.
    pub fn start(world: World, settings: &[(&str, &str)]) -> Inside {
        let (service, runtime) = (Runtime::new().unwrap(), Runtime::new().unwrap());
        let crm = service.block_on(Crm::serve(world));
        let mirror = Mirror::empty();
        let socket = mirror.dir.path().join("control.sock");
        let path = |path: &std::path::Path| path.display().to_string();
        let mut all = vec![
            ("CRM_MIRROR_API__BASE_URL".to_string(), crm.base_url().to_string()),
            ("CRM_MIRROR_API__KEY".into(), crm.key.clone()),
            ("CRM_MIRROR_DATABASE__PATH".into(), path(&mirror.path)),
            ("CRM_MIRROR_DAEMON__SOCKET".into(), path(&socket)),
            ("CRM_MIRROR_SYNC__SCHEDULE".into(), "off".into()),
            ("CRM_MIRROR_SYNC__AUDIT_SCHEDULE".into(), "off".into()),
            ("CRM_MIRROR_SYNC__SWEEP_SCHEDULE".into(), "off".into()),
            ("CRM_MIRROR_BUDGET__LIMIT".into(), "1000000000".into()),
        ];
        all.extend(settings.iter().map(|(name, text)| (format!("CRM_MIRROR_{name}"), text.to_string())));
        let sources = Sources {
            file: None,
            default_file: "/nowhere".into(),
            environment: all.into_iter().collect::<Environment>(),
            flags: Vec::new(),
        };
        let clock = std::sync::Arc::new(crm.clock.clone());
        runtime.spawn(async move {
            let signals = daemon::DaemonSignals::listen().unwrap();
            daemon::run(sources, clock, signals).await.unwrap()
        });
        let inside = Inside { crm, mirror, socket, daemon: Some(runtime), _service: service };
        socket::until("the daemon works", || {
            // Its file is there a moment before it listens.
            let listens = std::os::unix::net::UnixStream::connect(&inside.socket).is_ok();
            (listens && socket::ask(&inside.socket, "GET", "/status", b"").status == 200).then_some(())
        });
        socket::until("the mirror is open", || inside.status()["daemon"]["waiting_for"].is_null().then_some(()));
        inside
    }

    pub fn post(&self, path: &str, body: &Value) -> Reply {
        socket::ask(&self.socket, "POST", path, body.to_string().as_bytes())
    }

    pub fn status(&self) -> Value {
        socket::ask(&self.socket, "GET", "/status", b"").with(200).json()
    }

    /// Runs a verb of the program on the mirror.
    #[track_caller]
    pub fn verb(&self, args: &[&str], settings: &[(&str, &str)]) {
        let ended = self.command(args, settings).output().unwrap();
        assert!(ended.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ended.stderr));
    }

    pub fn command(&self, args: &[&str], settings: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crm-mirror"));
        command.args(args).env_clear().current_dir(self.mirror.dir.path());
        command.env("CRM_MIRROR_DATABASE__PATH", &self.mirror.path).env("CRM_MIRROR_DAEMON__SOCKET", &self.socket);
        settings.iter().for_each(|(name, value)| _ = command.env(format!("CRM_MIRROR_{name}"), value));
        command
    }

    /// What Prometheus scrapes.
    pub fn metrics(&self) -> String {
        socket::ask(&self.socket, "GET", "/metrics", b"").with(200).body
    }

    pub fn events(&self) -> Events {
        Events::listen(&self.socket, "*/*")
    }

    /// Requests a job and waits for its end, which it returns.
    pub fn job(&self, path: &str) -> Value {
        let mut events = self.events();
        let job = self.post(path, &json!({})).with(202).json()["job"].clone();
        events.finished(&job).0
    }

    /// Makes the daemon read the clock.
    pub fn nudge(&self) {
        self.post("/resume", &json!({})).with(200);
    }

    /// Makes the daemon read the clock and waits until everything that started has ended.
    pub fn settle(&self) {
        self.nudge();
        socket::until("the run under way", || self.status()["daemon"]["running"].is_null().then_some(()));
    }

    /// Advances the clock and waits until everything that started has ended.
    pub fn pass(&self, seconds: u64) {
        self.crm.wait(seconds);
        self.settle();
    }

    pub fn now(&self) -> crm_mirror::model::Instant {
        self.crm.clock.now()
    }

    /// The number of recorded runs with this outcome.
    pub fn runs(&self, outcome: &str) -> i64 {
        self.mirror.count(&format!("sync_runs WHERE outcome = '{outcome}'"))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if let Some(runtime) = self.daemon.take() {
            runtime.shutdown_timeout(std::time::Duration::from_secs(5));
        }
    }
}
