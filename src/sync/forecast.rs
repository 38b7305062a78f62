//! The cost of a run: counted, not guessed, for 1 RU per object.

use std::collections::BTreeSet;

use serde::Serialize;

use super::engine::Engine;
use super::error::SyncError;
use super::job::Job;
use super::plan::{self, Knowledge, Step};
use super::run::Run;
use crate::api::ListQuery;
use crate::model::{Object, Purpose, Resource, Ru, TimeField, TimeRange};
use crate::store::outbox_report::Edit;
use crate::store::{ReadTx, StoreError, outbox_report, unread};
use crate::sync::checks::lookup_by_id::AT_ONCE;
use crate::sync::checks::{audit, identity};
use crate::sync::walks::definitions::LISTS;
use crate::sync::walks::details::{old_details, refreshed_in_run};
use crate::sync::walks::sweep::{self, Sweep};
use crate::sync::walks::walk::Walk;
use crate::sync::walks::{back_fill, changes, service_clock};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectForecast {
    pub object: Resource,
    /// Whether it would be read completely.
    pub whole: bool,
    /// Rows that the lists would return; `None` if the service does not count them.
    pub rows: Option<u64>,
    pub lists: Ru,
    /// The cost of details: for those rows, and for records whose details are already due.
    pub details: Ru,
}

/// What the lists without a filter for changes cost: the definitions of both objects, and the team.
pub const SHORT_LISTS: Ru = Ru::new(LISTS.get() + Ru::GET.get());

/// What an audit of so many rows costs where all is well.
pub fn of_audit(rows: u64) -> Ru {
    Ru::new(rows.div_ceil(100).clamp(1, audit::MAX_COST))
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Forecast {
    /// The cost of definitions and team members.
    pub short_lists: Ru,
    /// The cost of edits that wait.
    pub edits: Ru,
    pub objects: Vec<ObjectForecast>,
}

impl Forecast {
    pub fn total(&self) -> Ru {
        self.objects.iter().map(|object| object.lists + object.details).sum::<Ru>() + self.short_lists + self.edits
    }

    /// What the run spends its last RU for: only changes use what is reserved.
    pub fn purpose(&self) -> Purpose {
        let is_reserved_from = |object: &ObjectForecast| object.whole || object.details > Ru::ZERO;
        let is_limited = self.edits > Ru::ZERO || self.objects.iter().any(is_reserved_from);
        if is_limited { Purpose::Details } else { Purpose::Changes }
    }
}

impl Engine {
    /// Estimates the cost of a run. Spends 1 RU for each contact or company list that it counts, and for each column that is
    /// to be filled, and a few where nothing tells the service's time; changes nothing.
    pub async fn forecast(&self, job: &Job) -> Result<Forecast, SyncError> {
        let run = Run::new(self, job, (0, "manual"));
        service_clock::recall_service_time(&run).await?;
        // An acceptance needs no lookup and is stored with the identity: only a run does that.
        if !job.accept_workspace {
            identity::check_identity(&run).await?;
        }
        let mut known = Knowledge::default();
        run.learn(&mut known).await?;
        let steps = plan::steps(known, job);
        let mut forecast = Forecast::default();
        for step in &steps {
            match step {
                Step::Edits => {
                    let details = steps.iter().any(|step| matches!(step, Step::Details(_)));
                    forecast.edits += self.store.read(move |tx| of_edits(tx, details)).await?;
                }
                Step::Definitions => forecast.short_lists += LISTS,
                Step::Team => forecast.short_lists += Ru::GET,
                _ => {}
            }
        }
        for object in Object::ALL.into_iter().filter(|object| job.concerns(object.resource())) {
            match self.forecast_object(&run, object, &steps).await {
                Err(error) if run.skip(object.resource(), &error) => {}
                of_object => forecast.objects.push(of_object?),
            }
        }
        if forecast.objects.is_empty() {
            run.expect_a_scope()?;
        }
        Ok(forecast)
    }

    async fn forecast_object(
        &self,
        run: &Run<'_>,
        object: Object,
        steps: &[Step],
    ) -> Result<ObjectForecast, SyncError> {
        let resource = object.resource();
        let takes = |step: fn(Object) -> Step| steps.contains(&step(object));
        let (changes, whole, reads_details) = (takes(Step::Changes), takes(Step::Sweep), self.reads_details(object));
        let (owed_counts, removals) = (takes(Step::Counts), takes(Step::Doubts));
        let (walk, left_out) = match changes {
            true => changes::next_walk(run, object).await.map(|(read, left_out)| (read.position, left_out))?,
            false => (Walk::new(TimeRange::WHOLE), None),
        };
        let (listed, steady) = (walk.rest(), run.steady_time());
        let here = self.store.write(move |tx| {
            // Owed counts, and the lookups of records in doubt.
            let mut lookups = Ru::ZERO;
            for by in [TimeField::UpdatedAt, TimeField::CreatedAt] {
                let owed = tx.unproven(object, by)?.filter(|_| owed_counts);
                lookups += Ru::new(owed.map_or(0, |owed| owed.ranges.len() as u64));
            }
            if removals {
                lookups += Ru::new(tx.count_nominated(object)?.div_ceil(AT_ONCE as u64));
            }
            let swept = Sweep::load(tx, object)?.map_or(0, |sweep| sweep.rows());
            let due = match reads_details {
                true => {
                    let waiting = unread::waiting_details(tx, object, steady)?;
                    tx.knowledge().count_due_details(object)?.saturating_sub(tx.count_due_among(object, &waiting)?)
                }
                false => unread::omitted(tx, object)?.len() as u64,
            };
            let known = if changes { tx.count_range(object, listed)? } else { 0 };
            Ok((lookups, tx.count_rows(object)?, swept, due, known))
        });
        let (mut lists, rows, swept, mut due, known) = here.await?;
        let total = self.total(walk.query(resource), Purpose::Changes).await?;
        let counted = total.unwrap_or(if changes { known } else { rows });
        let (changed, all) = if changes { (counted.saturating_sub(known), rows) } else { (0, counted) };
        if changes {
            let pages = Ru::new(counted.div_ceil(100).max(1));
            // With the counts that end walks of several pages, or of what is left out.
            lists += pages + if pages > Ru::GET { Ru::new(2) } else { Ru::new(left_out.into_iter().count() as u64) };
        }
        let to_sweep = if whole { all.saturating_sub(swept) } else { 0 };
        if whole {
            // A large list is read in slices side by side; the last page of each is only partly filled.
            let slices = if self.workers() > 1 { self.settings.slices(all).unwrap_or(0) } else { 0 };
            lists += sweep::price(to_sweep) + Ru::new(slices);
        }
        if takes(Step::Fill) {
            let (fields, _, definitions) = back_fill::to_fill(run, object, reads_details).await?;
            let (mut of_lists, mut filled) = (Ru::ZERO, 0);
            for field in fields.iter().filter(|field| !whole || field.data_type.detail_only()) {
                let found = definitions.iter().find(|definition| definition.id == field.definition);
                let Some(definition) = found else { continue };
                let of_field = ListQuery::new(resource).custom_is_null(definition, false);
                let is_asked = of_field.check().is_ok();
                let with_value = if is_asked { self.total(of_field, Purpose::Changes).await? } else { Some(rows) };
                let price = sweep::price(with_value.unwrap_or(0));
                if field.data_type.detail_only() {
                    (lists, due) = (lists + price, due + with_value.unwrap_or(0));
                } else {
                    (of_lists, filled) = (of_lists + price, filled + 1);
                }
            }
            // One sweep fills any number of columns.
            lists += if filled > 1 { of_lists.min(sweep::price(rows)) } else { of_lists };
        }
        let mut details = if reads_details { 0 } else { due };
        if reads_details && takes(Step::Details) {
            // Every record that is not mirrored yet is due too.
            let new = if changes { changed } else { all.saturating_sub(rows) };
            let old = refreshed_in_run(run, object).await?;
            details = due + new + old_details(run, object, old, false).await?.len() as u64;
        }
        let rows = total.map(|_| changed + to_sweep);
        Ok(ObjectForecast { object: resource, whole, rows, lists, details: Ru::new(details) })
    }
}

fn of_edits(tx: &ReadTx<'_>, details: bool) -> Result<Ru, StoreError> {
    let mut edits = outbox_report::edits(tx, false)?;
    edits.retain(Edit::waits);
    // The answer to an update is no detail, so the detail is read again.
    let again: BTreeSet<(Object, &str)> =
        edits.iter().filter(|_| details).map(|edit| (edit.object, edit.record.as_str())).collect();
    Ok(outbox_report::price(&edits) + Ru::of_edits(0, again.len() as u64))
}
