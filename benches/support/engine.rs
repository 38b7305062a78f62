//! The real engine: store, meter, client and engine, as the program puts them together.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crm_mirror::api::{ApiKey, Client, ClientSettings};
use crm_mirror::budget::Limits;
use crm_mirror::model::{Clock, Resource, Ru, SystemClock};
use crm_mirror::store::{RunOutcome, Store};
use crm_mirror::sync::events::{RunEvent, RunObserver, Silent};
use crm_mirror::sync::{BudgetMeter, Engine, Job, SyncSettings};

use super::{Measured, Outcome, peak_kib, processor_seconds, written_bytes};

/// Notes when the last page of the contacts' lists was stored.
struct Lists {
    began: std::time::Instant,
    stored: OnceLock<f64>,
}

impl RunObserver for Lists {
    fn on(&self, event: RunEvent) {
        if matches!(event, RunEvent::Ends { resource: Resource::Contacts }) {
            // Only the first end counts.
            let _ = self.stored.set(self.began.elapsed().as_secs_f64());
        }
    }
}

/// What a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchRun {
    /// A first copy of the lists where the file is new, else the changes.
    Sync,
    /// Every record again.
    Resync,
    /// The details too.
    Details,
}

/// One run on the contacts.
pub async fn run(base_url: &str, path: &Path, kind: BenchRun, concurrency: u32) -> Outcome<Measured> {
    let began = std::time::Instant::now();
    let store = Store::open(path)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let limits = Limits { limit: Ru::new(10_000_000), window: Duration::from_secs(86_400), charge_failed: true };
    let patience = Duration::from_secs(60);
    let meter = Arc::new(BudgetMeter::open(store.clone(), clock.clone(), limits, patience, Arc::new(Silent)).await?);
    let settings = SyncSettings { details: kind == BenchRun::Details, concurrency, ..SyncSettings::default() };
    let mut client = ClientSettings::new(base_url.parse()?);
    client.concurrency = concurrency;
    let key = ApiKey::new("bench_v1_0123456789abcdef0123456789abcdef")?;
    let client = Client::new(client, key, clock.clone(), meter.clone())?;
    let lists = Arc::new(Lists { began, stored: OnceLock::new() });
    let engine = Engine::new(client, store.clone(), meter, clock, lists.clone(), settings);
    let job = if kind == BenchRun::Resync { Job::resync() } else { Job::sync() };
    let report = engine.run(&job.of(&[Resource::Contacts]), "manual").await?;
    if report.outcome != RunOutcome::Done {
        return Err(format!("the run ended as {:?}", report.outcome).into());
    }
    drop(engine);
    store.close().await;
    Ok(Measured {
        seconds: began.elapsed().as_secs_f64(),
        lists_seconds: lists.stored.get().copied().unwrap_or_default(),
        rows: if kind == BenchRun::Details { report.tally.details } else { report.tally.rows },
        ru: report.tally.ru.get(),
        processor_seconds: processor_seconds(),
        peak_kib: peak_kib(),
        written_bytes: written_bytes(),
    })
}
