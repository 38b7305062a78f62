//! Back-fill: a column that is new, or back from the archive, gets the values that records already have.
//!
//! Records do not change when a field is defined or re-activated, so no changes walk would bring their values. Where
//! the definition can be asked `isNull=false`, only records that have a value are read, 100 for 1 RU; for a long text
//! that tells whose details to read again. Where it cannot be asked, a sweep is wanted, or all details are due.

use serde::{Deserialize, Serialize};

use super::progress::ListProgress;
use crate::api::{ApiError, ErrorClass, ListQuery, PageSize, SortBy, decode};
use crate::model::{FieldKey, Object, Purpose, RecordId};
use crate::store::{MirrorTx, Phase, StateKey, StoreError};
use crate::sync::error::{Asking, SyncError};
use crate::sync::run::Run;
use crate::sync::tally;

const ENTRY: StateKey = StateKey::Fill;

/// The state entry that says that only a sweep can fill a column of an object.
pub(in crate::sync) fn wanted_sweep(object: Object) -> StateKey {
    StateKey::WantedSweep(object)
}

/// Columns that wait for their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct UnfilledColumns(Vec<(Object, FieldKey)>);

/// Notes columns to fill. An object whose first copy has not begun gets their values with it; one whose first copy is
/// under way has pages behind it that were read without them.
pub(in crate::sync) fn want(tx: &MirrorTx<'_>, columns: &[(Object, FieldKey)]) -> Result<(), StoreError> {
    let mut wanted: UnfilledColumns = tx.state(&ENTRY)?.unwrap_or_default();
    for (object, key) in columns {
        let empty = tx.is_empty(*object)?;
        if !empty && !wanted.0.iter().any(|(o, k)| o == object && k == key) {
            wanted.0.push((*object, key.clone()));
        }
    }
    if wanted.0.is_empty() { Ok(()) } else { tx.set_state(&ENTRY, &wanted) }
}

impl Run<'_> {
    /// Fills the columns of an object that wait for their values, as far as filters can tell who has one.
    pub(in crate::sync) async fn fill_columns(&self, object: Object) -> Result<(), SyncError> {
        let wanted: UnfilledColumns = self.engine.store.read(|tx| tx.state(&ENTRY)).await?.unwrap_or_default();
        for (_, key) in wanted.0.into_iter().filter(|(of, _)| *of == object) {
            let mut needs_sweep = false;
            let definitions = self.engine.store.read(move |tx| tx.definitions(object)).await?;
            if let Some(definition) = definitions.iter().find(|definition| definition.key == key) {
                let long = definition.data_type.detail_only();
                let query = ListQuery::new(object.resource())
                    .sort(SortBy::CreatedAsc)
                    .and_then(|query| query.custom_is_null(definition, false));
                match query {
                    Ok(query) => match self.fill_from(object, query, long).await {
                        Err(error) if error.class() == Some(ErrorClass::BadRequest) => {
                            // The service refuses what its definition allows.
                            needs_sweep |= self.without_filter(object, long).await?;
                        }
                        other => {
                            other?;
                            self.read_passed_over(object, &key).await?;
                        }
                    },
                    Err(_) => needs_sweep |= self.without_filter(object, long).await?,
                }
            }
            self.engine
                .store
                .write(move |tx| {
                    if needs_sweep {
                        tx.set_state(&wanted_sweep(object), &true)?;
                    }
                    filled(tx, object, &key)
                })
                .await?;
        }
        Ok(())
    }

    /// Reads again the records that have a value here and that the filter did not give: they lost it while the field was
    /// archived, or slipped between two pages.
    async fn read_passed_over(&self, object: Object, key: &FieldKey) -> Result<(), SyncError> {
        let key = key.clone();
        let passed_over = self
            .engine
            .store
            .write(move |tx| {
                let layout = tx.layout().clone();
                let Some((_, field)) = layout.of(object).by_key(key.as_str()) else {
                    return Ok(Vec::new());
                };
                let mut ids = tx.not_refilled(object, field)?;
                let others = if field.data_type.detail_only() {
                    0
                } else {
                    ids.iter().take_while(|id| id.fits_a_list()).count()
                };
                // What cannot be asked for in a list, and what no list tells.
                tx.make_details_due(object, Some(&ids.split_off(others)))?;
                Ok(ids)
            })
            .await?;
        self.read_by_id(object, &passed_over).await
    }

    async fn without_filter(&self, object: Object, long: bool) -> Result<bool, SyncError> {
        if long {
            self.engine.store.write(move |tx| tx.make_details_due(object, None)).await?;
        }
        Ok(!long)
    }

    /// Reads the records that have a value. Interrupted, it begins again: what was read is compared and not written.
    async fn fill_from(&self, object: Object, query: ListQuery, long: bool) -> Result<(), SyncError> {
        let resource = object.resource();
        let doing = "list the values of a new field of";
        let (mut at, mut size) = (query.clone(), PageSize::MAX);
        let mut progress = ListProgress::default();
        self.engine.store.write(|tx| tx.begin_refill()).await?;
        loop {
            let answer = match self.engine.client.list(&at, Purpose::Definitions).await {
                Err(ApiError::TooLarge { .. }) if size.get() > 1 => {
                    // A cursor is bound to its conditions: from the beginning, with fewer rows on a page.
                    size = PageSize::new(size.get() / 2).unwrap_or(PageSize::ONE);
                    at = query.clone().limit(size);
                    progress = ListProgress::default();
                    continue;
                }
                answer => answer.asking(doing, resource)?,
            };
            let mut version = self.engine.store.layout();
            let noted = loop {
                let page = decode::page(resource, &answer.body, &version).asking(doing, resource)?;
                let (asked_at, now, layout) = (answer.asked_at, self.engine.clock.now(), version.version);
                let stored = self
                    .engine
                    .store
                    .write(move |tx| {
                        tx.expect_layout(layout)?;
                        let phase: Phase = tx.phase(object)?;
                        let ids: Vec<RecordId> = page.records.iter().map(|record| record.id.clone()).collect();
                        tx.note_refilled(&ids)?;
                        if long {
                            tx.make_details_due(object, Some(&ids))?;
                        }
                        tally::apply_page(tx, object, &page, asked_at, phase, now)
                    })
                    .await;
                match stored {
                    Err(StoreError::StaleLayout) => version = self.engine.store.layout(),
                    other => break other?,
                }
            };
            self.count(&noted.tally);
            let Some(next) = answer.next else { return Ok(()) };
            if let Some(odd) = progress.take(&next, noted.tally.rows as usize) {
                self.note(odd.as_str(), resource, odd.sentence()).await?;
            }
            if progress.is_stuck() {
                return Err(SyncError::NotAdvancing { resource });
            }
            at = query.clone().limit(size).after(next);
        }
    }
}

fn filled(tx: &MirrorTx<'_>, object: Object, key: &FieldKey) -> Result<(), StoreError> {
    let mut wanted: UnfilledColumns = tx.state(&ENTRY)?.unwrap_or_default();
    wanted.0.retain(|(o, k)| !(*o == object && k == key));
    if wanted.0.is_empty() { tx.clear_state(&ENTRY) } else { tx.set_state(&ENTRY, &wanted) }
}
