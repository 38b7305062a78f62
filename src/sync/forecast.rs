//! What a run would cost: counted, not guessed, for 1 RU an object.

use super::engine::Engine;
use super::error::{Asking, SyncError};
use super::job::Job;
use super::run::Run;
use super::state::{Changes, Fresh, Sweep};
use crate::api::{PageSize, decode};
use crate::model::{Object, Purpose, Resource, Ru};
use crate::store::{Phase, StateKey};
use crate::sync::walks::changes::lower_bound;
use crate::sync::walks::definitions::{LISTS, is_due};
use crate::sync::walks::walk::Range;

/// What a run would do for one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ObjectForecast {
    /// The object.
    pub object: Object,
    /// Whether it would be read whole.
    pub whole: bool,
    /// Rows that the lists would return.
    pub rows: u64,
    /// For the lists' pages.
    pub lists: Ru,
    /// For details: of those rows, and of records whose details are due already.
    pub details: Ru,
}

/// What a run would cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Forecast {
    /// For definitions and team members.
    pub short_lists: Ru,
    /// For contacts and companies.
    pub objects: Vec<ObjectForecast>,
}

impl Forecast {
    /// Everything together.
    pub fn total(&self) -> Ru {
        self.objects.iter().map(|object| object.lists + object.details).sum::<Ru>() + self.short_lists
    }
}

impl Engine {
    /// Says what a run would cost. Spends 1 RU for each contact or company list that it counts, and changes nothing.
    ///
    /// # Errors
    /// [`SyncError`] if the service does not answer.
    pub async fn forecast(&self, job: &Job) -> Result<Forecast, SyncError> {
        let run = Run::new(self, job, "manual");
        run.check_identity().await?;
        let mut forecast = Forecast::default();
        let resync = matches!(job, Job::Resync { .. });
        let objects: Vec<Object> = Object::ALL.into_iter().filter(|object| job.concerns(object.resource())).collect();
        if !objects.is_empty() && (resync || self.is_list_due(Fresh::DEFINITIONS).await?) {
            forecast.short_lists += LISTS;
        }
        if job.concerns(Resource::TeamMembers) && (resync || self.is_list_due(Fresh::TEAM).await?) {
            forecast.short_lists += Ru::GET;
        }
        for object in objects {
            let of_object = run.guard(object.resource(), self.forecast_object(object, resync).await)?;
            forecast.objects.extend(of_object);
        }
        Ok(forecast)
    }

    async fn is_list_due(&self, entry: StateKey) -> Result<bool, SyncError> {
        let now = self.clock.now();
        Ok(self.store.read(move |tx| Ok(is_due(tx.state(&entry)?, now))).await?)
    }

    async fn forecast_object(&self, object: Object, resync: bool) -> Result<ObjectForecast, SyncError> {
        let resource = object.resource();
        let (phase, known, rows_here, due, sweeping) = self
            .store
            .write(move |tx| {
                Ok((
                    tx.phase(object)?,
                    Changes::load(tx, object)?,
                    tx.count_rows(object)?,
                    tx.count_due_details(object)?,
                    Sweep::load(tx, object)?.is_some(),
                ))
            })
            .await?;
        let copying = phase == Phase::FirstCopy;
        let whole = resync || copying || sweeping;
        let range = if copying {
            Range::All
        } else {
            Range::Changes { after: lower_bound(&known, self.settings.overlap), inclusive: false }
        };
        let query = range.query(resource).asking("count", resource)?.limit(PageSize::ONE).count_exact();
        let answer = self.client.list(&query, Purpose::Changes).await.asking("count", resource)?;
        let page = decode::page(resource, &answer.body, &self.store.layout()).asking("count", resource)?;
        let counted = page.total.unwrap_or(0);
        let pages = |rows: u64| Ru::new(rows.div_ceil(100).max(1));
        let lists = match (whole, copying) {
            (false, _) => pages(counted),
            (true, true) => pages(counted.saturating_sub(rows_here)),
            (true, false) => pages(counted) + pages(rows_here),
        };
        let rows = if whole && !copying { counted + rows_here } else { counted };
        let details = match (self.settings.details, copying) {
            (false, _) => 0,
            // Every record that is not here yet is due too.
            (true, true) => due + counted.saturating_sub(rows_here),
            (true, false) => due + counted,
        };
        Ok(ObjectForecast { object, whole, rows, lists, details: Ru::new(details) })
    }
}
