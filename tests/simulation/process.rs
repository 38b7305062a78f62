//! The process that writes the mirror, and what other programs and the disk do to it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use crm_mirror::api::{ApiKey, Client, ClientSettings};
use crm_mirror::model::{Clock, Instant};
use crm_mirror::store::{CommitHook, Store, StoreOptions};
use crm_mirror::sync::step_failures::StepFailures;
use crm_mirror::sync::walks::sweep;
use crm_mirror::sync::{BudgetMeter, Engine, Job, SyncError};
use rusqlite::Connection;

use crate::support::{Crm, Mirror};

/// How long another program holds the write lock, in real time: less than the writer waits for it.
const HELD: Duration = Duration::from_millis(20);

/// The open mirror.
pub struct Process {
    pub engine: Engine,
    store: Store,
    meter: Arc<BudgetMeter>,
}

impl Process {
    /// Opens the mirror; its writer dies before commit number `commits + 1`, if one is given.
    pub async fn open(mirror: &Mirror, crm: &Crm, commits: Option<u64>) -> Result<Process, SyncError> {
        let before_commit = commits.map(|mut left| -> CommitHook {
            Box::new(move || {
                let may_commit = left > 0;
                left = left.saturating_sub(1);
                may_commit
            })
        });
        let store = Store::open_with(&mirror.path, StoreOptions { before_commit, ..StoreOptions::default() })?;
        let clock: Arc<dyn Clock> = mirror.clock.clone().unwrap_or_else(|| Arc::new(crm.clock.clone()));
        let observer = mirror.observer.clone();
        let meter =
            BudgetMeter::open(store.clone(), clock.clone(), mirror.limits, mirror.patience, observer.clone()).await?;
        let meter = Arc::new(meter);
        let mut settings = ClientSettings::new(crm.base_url().parse().unwrap());
        settings.concurrency = mirror.settings.concurrency;
        settings.tries = mirror.tries;
        settings.jitter = mirror.jitter.clone();
        settings.max_body = mirror.max_body.unwrap_or(settings.max_body);
        let key = ApiKey::new(mirror.key.as_ref().unwrap_or(&crm.key)).unwrap();
        let client = Client::new(settings, key, clock.clone(), meter.clone()).unwrap();
        let engine = Engine::new(client, store.clone(), meter.clone(), clock, observer, mirror.settings);
        Ok(Process { engine, store, meter })
    }

    /// When the budget refills, if nothing of it is left.
    pub fn empty_until(&self) -> Option<Instant> {
        self.meter.empty_until()
    }

    /// When the schedule next attempts the steps at which the last run failed, and whether others were answered; `None` if
    /// there are none.
    pub async fn next_attempt_of_failed_steps(&self, now: Instant) -> Option<(Instant, bool)> {
        let failures = self.store.read(StepFailures::load).await.ok()?;
        let wait = failures.shortest_wait(self.meter.ledger().steady_time(), self.meter.limits())?;
        Some((now.plus(wait), !failures.are_of_everything()))
    }

    pub async fn is_stored(&self, job: Job) -> bool {
        self.store.read(move |tx| sweep::is_stored(tx, &job)).await.unwrap_or(false)
    }

    /// Ends the hold: a person knows that the service answers again.
    pub async fn clear_hold(&self) {
        // It may be killed meanwhile.
        let _ = self.meter.clone().clear_hold().await;
    }

    pub async fn close(self) {
        let Process { engine, store, meter } = self;
        drop((engine, meter));
        store.close().await;
    }
}

/// A disk on which no file of this process can grow beyond a size, until this is dropped.
pub struct FullDisk;

impl FullDisk {
    pub fn of(kib: u32) -> FullDisk {
        limit_files(&format!("{}:", u64::from(kib) * 1024));
        FullDisk
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        limit_files("unlimited:");
    }
}

/// Sets the soft limit of this process; a write beyond it fails.
fn limit_files(bytes: &str) {
    let pid = std::process::id().to_string();
    let set = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={bytes}")]).status();
    assert!(set.is_ok_and(|status| status.success()), "prlimit (of util-linux) is needed");
}

/// Writes beyond the limit are errors, and not a signal that ends this process.
pub fn survive_full_disks() {
    /// The same number on every Linux but MIPS.
    const SIGXFSZ: i32 = 25;
    let kind = tokio::signal::unix::SignalKind::from_raw(SIGXFSZ);
    // The handler stays when this listener goes.
    drop(tokio::signal::unix::signal(kind).unwrap());
}

/// Another program that holds the write lock for a moment; none where there is no mirror yet.
pub fn lock_for_a_moment(path: &Path) -> Option<JoinHandle<()>> {
    if !path.exists() {
        return None;
    }
    let path = PathBuf::from(path);
    let (held, holds) = mpsc::channel();
    let holder = std::thread::spawn(move || {
        let conn = Connection::open(&path).unwrap();
        let began = conn.execute_batch("BEGIN IMMEDIATE");
        let _ = held.send(());
        if began.is_ok() {
            std::thread::sleep(HELD);
            let _ = conn.execute_batch("COMMIT");
        }
    });
    let _ = holds.recv();
    Some(holder)
}

/// Another program that reads in one transaction until it is dropped.
pub fn read_for_long(path: &Path) -> Option<Connection> {
    if !path.exists() {
        return None;
    }
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let conn = Connection::open_with_flags(path, flags).ok()?;
    conn.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema").ok()?;
    Some(conn)
}
