//! The cost of a run: counted, not guessed, for 1 RU per object.

use serde::Serialize;

use super::engine::{Engine, Share};
use super::error::{Asking, SyncError};
use super::job::Job;
use super::run::Run;
use crate::api::PageSize;
use crate::model::{Object, Purpose, Resource, Ru, ServiceTime};
use crate::store::{Goal, StateKey};
use crate::sync::checks::identity;
use crate::sync::walks::changes::lower_bound;
use crate::sync::walks::definitions::LISTS;
use crate::sync::walks::walk::WalkRange;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectForecast {
    pub object: Resource,
    /// Whether it would be read completely.
    pub whole: bool,
    /// Rows that the lists would return.
    pub rows: u64,
    pub lists: Ru,
    /// The cost of details: for those rows, and for records whose details are already due.
    pub details: Ru,
}

/// What a sweep of so many rows costs: each page but the first repeats a row of the page before.
pub fn of_sweep(rows: u64) -> Ru {
    Ru::new(if rows > 100 { (rows - 1).div_ceil(99) } else { 1 })
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Forecast {
    /// The cost of definitions and team members.
    pub short_lists: Ru,
    pub objects: Vec<ObjectForecast>,
}

impl Forecast {
    pub fn total(&self) -> Ru {
        self.objects.iter().map(|object| object.lists + object.details).sum::<Ru>() + self.short_lists
    }
}

impl Engine {
    /// Estimates the cost of a run. Spends 1 RU for each contact or company list that it counts, and changes nothing.
    pub async fn forecast(&self, job: &Job) -> Result<Forecast, SyncError> {
        let run = Run::new(self, job, (0, "manual"));
        // An acceptance needs no lookup and is stored with the identity: only a run does that.
        if !job.accept().workspace {
            identity::check_identity(&run).await?;
        }
        let mut forecast = Forecast::default();
        let resync = matches!(job, Job::Resync { .. });
        let objects: Vec<Object> = Object::ALL.into_iter().filter(|object| job.concerns(object.resource())).collect();
        if !objects.is_empty() && (resync || self.is_stored_list_due(Goal::Definitions, &Share::DEFINITIONS).await?) {
            forecast.short_lists += LISTS;
        }
        if job.concerns(Resource::TeamMembers) && (resync || self.is_stored_list_due(Goal::Team, &Share::TEAM).await?) {
            forecast.short_lists += Ru::GET;
        }
        for object in objects {
            let of_object = run.guard(object.resource(), self.forecast_object(object, resync).await)?;
            forecast.objects.extend(of_object);
        }
        Ok(forecast)
    }

    async fn is_stored_list_due(&self, goal: Goal, share: &Share) -> Result<bool, SyncError> {
        let fresh = self.store.read(move |tx| tx.goals().last_read(goal)).await?;
        Ok(self.is_list_due(fresh, share, self.clock.now()))
    }

    async fn forecast_object(&self, object: Object, resync: bool) -> Result<ObjectForecast, SyncError> {
        let resource = object.resource();
        let (is_copied, known, rows_here, due, sweeping) = self
            .store
            .write(move |tx| {
                Ok((
                    tx.is_copied(object)?,
                    tx.known_changes(object)?,
                    tx.count_rows(object)?,
                    tx.knowledge().count_due_details(object)?,
                    tx.goals().is_set(Goal::Sweeping(object))?,
                ))
            })
            .await?;
        let copying = !is_copied;
        let whole = resync || copying || sweeping;
        let range = if copying {
            WalkRange::All { from: None }
        } else {
            let time: Option<ServiceTime> = self.store.read(|tx| tx.state(&StateKey::ServiceTime)).await?;
            let now = time.and_then(|time| time.at_least());
            WalkRange::Changes { after: lower_bound(&known, now, self.settings.overlap), inclusive: false }
        };
        let query = range.query(resource).asking("count", resource)?.limit(PageSize::ONE).count_exact();
        let counted = self.page(&query, Purpose::Changes, "count").await?.page.total.unwrap_or(0);
        let pages = |rows: u64| Ru::new(rows.div_ceil(100).max(1));
        // With the counts that end walks of several pages.
        let changed = |rows: u64| pages(rows) + if pages(rows) > Ru::GET { Ru::new(2) } else { Ru::ZERO };
        // A large list is read in slices side by side; the last page of each is only partly filled.
        let slices = match (whole, self.workers()) {
            (true, 2..) => {
                let rows = if copying { counted } else { rows_here };
                Ru::new(self.settings.slices(rows).unwrap_or(0))
            }
            _ => Ru::ZERO,
        };
        let lists = match (whole, copying) {
            (false, _) => changed(counted),
            (true, true) => of_sweep(counted.saturating_sub(rows_here)),
            (true, false) => changed(counted) + of_sweep(rows_here),
        };
        let lists = lists + slices;
        let rows = if whole && !copying { counted + rows_here } else { counted };
        let details = match (self.reads_details(object), copying) {
            (false, _) => 0,
            // Every record that is not mirrored yet is due too.
            (true, true) => due + counted.saturating_sub(rows_here),
            (true, false) => due + counted,
        };
        Ok(ObjectForecast { object: resource, whole, rows, lists, details: Ru::new(details) })
    }
}
