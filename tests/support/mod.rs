//! Shared by the integration tests: a sandbox with a manual clock, a mirror in a temporary directory, and a
//! field-by-field comparison of both that shares no code with the mirror except the catalogue.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

pub mod bodies;
pub mod cases;
pub mod clock;
pub mod prepared;
pub mod searched;
pub mod shell;
pub mod truth;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crm_mirror::api::{ApiKey, ClientSettings, Jitter};
use crm_mirror::app::{EngineSettings, MirrorError, assemble_engine};
use crm_mirror::budget::Limits;
use crm_mirror::model::Object;
use crm_mirror::model::{Clock, Instant, Ru};
use crm_mirror::sandbox::{Sandbox, SandboxServer, World};
use crm_mirror::store::{CommitHook, Store, StoreOptions, ViewOptions};
use crm_mirror::sync::events::{RunObserver, Silent};
use crm_mirror::sync::{Engine, Findings, Forecast, Job, RunReport, SyncError, SyncSettings};

use clock::ManualClock;

/// The time at which every test begins.
pub fn noon() -> Instant {
    "2026-03-04T12:00:00Z".parse().unwrap()
}

/// Jitter that is the same each time.
pub fn seeded_jitter(seed: u64) -> Jitter {
    let numbers = Mutex::new(fastrand::Rng::with_seed(seed));
    Arc::new(move || numbers.lock().unwrap().f64())
}

/// A sandbox served on loopback, with a key that has all scopes.
pub struct Crm {
    pub sandbox: Sandbox,
    pub clock: ManualClock,
    pub key: String,
    base_url: String,
    running: Option<SandboxServer>,
}

impl Crm {
    /// Serves a world at [`noon`].
    pub async fn serve(world: World) -> Crm {
        Crm::serve_at(world, ManualClock::at(noon())).await
    }

    /// Serves a world at the time of a clock.
    pub async fn serve_at(world: World, clock: ManualClock) -> Crm {
        let sandbox = Sandbox::new(world, Arc::new(clock.clone()));
        let running = sandbox.start(0).await.unwrap();
        let key = sandbox.full_key();
        Crm { sandbox, clock, key, base_url: running.base_url.clone(), running: Some(running) }
    }

    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Stops serving: further connections are refused.
    pub fn stop(&mut self) {
        self.running = None;
    }

    /// Advances the clock.
    pub fn wait(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// Request units charged since the log was last cleared.
    pub fn charged(&self) -> u64 {
        self.sandbox.log().ru().get()
    }
}

/// A mirror in a temporary directory, and the settings of its runs.
pub struct Mirror {
    pub dir: tempfile::TempDir,
    pub path: PathBuf,
    pub settings: SyncSettings,
    pub limits: Limits,
    pub patience: Duration,
    pub tries: u32,
    /// The random part of the delays between attempts.
    pub jitter: Jitter,
    /// The largest accepted body, if not the default.
    pub max_body: Option<usize>,
    pub key: Option<String>,
    /// In the window in which a run begins, and in the next.
    pub reserve: [Ru; 2],
    pub observer: Arc<dyn RunObserver>,
    /// Settings of views, indexes and search, if not the default.
    pub views: Option<ViewOptions>,
    /// How long a run waits for a lock of another process, if not as long as by default.
    pub lock_wait: Option<Duration>,
    /// The mirror's clock, if not the service's.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Mirror {
    pub fn empty() -> Mirror {
        Mirror::empty_in(tempfile::tempdir().unwrap())
    }

    /// Like [`Mirror::empty`], in a given directory.
    pub fn empty_in(dir: tempfile::TempDir) -> Mirror {
        Mirror {
            path: dir.path().join("mirror.db"),
            dir,
            settings: SyncSettings::default(),
            limits: Limits { limit: Ru::new(1_000_000), window: Duration::from_secs(86_400), charge_failed: false },
            patience: Duration::from_secs(60),
            tries: 5,
            jitter: seeded_jitter(0),
            max_body: None,
            key: None,
            reserve: [Ru::ZERO; 2],
            observer: Arc::new(Silent),
            views: None,
            lock_wait: None,
            clock: None,
        }
    }

    /// One walker and one worker: requests are sent in the order of the log.
    pub fn one_at_a_time() -> Mirror {
        Mirror::one_at_a_time_in(tempfile::tempdir().unwrap())
    }

    /// Like [`Mirror::one_at_a_time`], in a given directory.
    pub fn one_at_a_time_in(dir: tempfile::TempDir) -> Mirror {
        let mut mirror = Mirror::empty_in(dir);
        mirror.settings.concurrency = 1;
        mirror
    }

    pub async fn run(&self, crm: &Crm, job: &Job) -> Result<RunReport, SyncError> {
        self.run_killed_after(crm, job, None).await
    }

    pub async fn sync(&self, crm: &Crm) -> RunReport {
        self.run(crm, &Job::sync()).await.unwrap()
    }

    pub async fn resync(&self, crm: &Crm) -> RunReport {
        self.run(crm, &Job::resync()).await.unwrap()
    }

    /// A scheduled run.
    pub async fn scheduled(&self, crm: &Crm, job: &Job) -> RunReport {
        self.try_scheduled(crm, job).await.unwrap()
    }

    /// A scheduled run that may fail.
    pub async fn try_scheduled(&self, crm: &Crm, job: &Job) -> Result<RunReport, SyncError> {
        let store = Store::open(&self.path).unwrap();
        let engine = self.engine(store.clone(), Arc::new(crm.clock.clone()), crm).await.unwrap();
        let report = engine.run(job, "schedule").await;
        drop(engine);
        store.close().await;
        report
    }

    /// The estimated cost of a run.
    pub async fn forecast(&self, crm: &Crm, job: &Job) -> Forecast {
        let (store, engine) = self.open(crm, None).await.unwrap();
        let forecast = engine.forecast(job).await.unwrap();
        drop(engine);
        store.close().await;
        forecast
    }

    /// A run whose writer dies before commit number `commits + 1`, as after a kill.
    pub async fn run_killed_after(&self, crm: &Crm, job: &Job, commits: Option<u64>) -> Result<RunReport, SyncError> {
        let (store, engine) = self.open(crm, commits).await?;
        let ended = engine.run(job, "test").await;
        drop(engine);
        store.close().await;
        ended
    }

    /// The open mirror and an engine for several runs; the writer dies as in [`Mirror::run_killed_after`].
    pub async fn open(&self, crm: &Crm, commits: Option<u64>) -> Result<(Store, Engine), SyncError> {
        let before_commit: Option<CommitHook> = commits.map(|mut left| -> CommitHook {
            Box::new(move || {
                let commits = left > 0;
                left = left.saturating_sub(1);
                commits
            })
        });
        let options = StoreOptions { before_commit, views: self.views.clone(), lock_wait: self.lock_wait };
        let store = Store::open_with(&self.path, options)?;
        let clock = self.clock.clone().unwrap_or_else(|| Arc::new(crm.clock.clone()));
        let engine = self.engine(store.clone(), clock, crm).await?;
        Ok((store, engine))
    }

    /// A run on an open store, which stays open.
    pub async fn run_on_open(&self, store: Store, crm: &Crm, job: &Job) -> Result<RunReport, SyncError> {
        self.run_on(store, Arc::new(crm.clock.clone()), crm, job).await
    }

    async fn run_on(&self, store: Store, clock: Arc<dyn Clock>, crm: &Crm, job: &Job) -> Result<RunReport, SyncError> {
        self.engine(store, clock, crm).await?.run(job, "test").await
    }

    /// Compares the mirror with the service.
    pub async fn verify(&self, crm: &Crm, job: &Job) -> (RunReport, Vec<(Object, Findings)>) {
        let report = self.run(crm, job).await.unwrap();
        let findings = report.findings.clone();
        (report, findings)
    }

    async fn engine(&self, store: Store, clock: Arc<dyn Clock>, crm: &Crm) -> Result<Engine, SyncError> {
        let mut client = ClientSettings::new(crm.base_url().parse().unwrap());
        client.concurrency = self.settings.concurrency;
        client.tries = self.tries;
        client.jitter = self.jitter.clone();
        client.max_body = self.max_body.unwrap_or(client.max_body);
        let settings = EngineSettings {
            client,
            key: ApiKey::new(self.key.as_ref().unwrap_or(&crm.key)).unwrap(),
            limits: self.limits,
            patience: self.patience,
            sync: self.settings,
        };
        let (meter, engine) = match assemble_engine(&store, settings, &clock, &self.observer).await {
            Ok(assembled) => assembled,
            Err(MirrorError::Store(error)) => return Err(error.into()),
            Err(error) => panic!("{error}"),
        };
        meter.set_reserve(self.reserve);
        Ok(engine)
    }

    /// A read-only connection, as users have.
    pub fn read(&self) -> rusqlite::Connection {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        rusqlite::Connection::open_with_flags(&self.path, flags).unwrap()
    }

    /// The first column of the first row as text.
    pub fn one(&self, sql: &str) -> String {
        self.read().query_row(sql, [], |row| row.get::<_, rusqlite::types::Value>(0)).map(truth::shown).unwrap()
    }

    pub fn count(&self, table: &str) -> i64 {
        self.read().query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    }

    /// Makes an entry of the private state unreadable and returns its name. Excludes the ledger, whose total cannot be
    /// recomputed.
    pub fn spoil_state(&self, which: u32) -> Option<String> {
        let conn = rusqlite::Connection::open(&self.path).unwrap();
        let mut stmt = conn.prepare("SELECT name FROM state WHERE name <> 'ledger' ORDER BY name").ok()?;
        let names: Vec<String> = stmt.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let name = names.get(which as usize % names.len().max(1))?;
        let junk = "UPDATE state SET value = '{\"from\": \"another version\"' WHERE name = ?1";
        conn.execute(junk, [name]).unwrap();
        Some(name.clone())
    }

    /// The ledger's total of all time.
    pub fn ledger_total(&self) -> u64 {
        let text: String =
            self.read().query_row("SELECT value FROM state WHERE name = 'ledger'", [], |row| row.get(0)).unwrap();
        let ledger: serde_json::Value = serde_json::from_str(&text).unwrap();
        ledger["total"].as_u64().unwrap()
    }

    /// Every difference between mirror and world, lists and details.
    pub fn differences(&self, crm: &Crm) -> Vec<String> {
        truth::differences(&self.read(), &crm.sandbox, true)
    }

    /// Like [`Mirror::assert_exact`], without details.
    #[track_caller]
    pub fn assert_exact_lists(&self, crm: &Crm) {
        let differences = truth::differences(&self.read(), &crm.sandbox, false);
        assert!(differences.is_empty(), "{}", differences[..differences.len().min(12)].join("\n"));
    }

    #[track_caller]
    pub fn assert_exact(&self, crm: &Crm) {
        let differences = self.differences(crm);
        assert!(
            differences.is_empty(),
            "{} differences:\n{}",
            differences.len(),
            differences[..differences.len().min(12)].join("\n")
        );
    }
}
