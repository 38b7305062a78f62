//! Which of two versions of a record is kept: that of the row, or that of an answer.

use std::cmp::Ordering;

use rusqlite::types::{Value, ValueRef};

use crate::model::instant::Instant;
use crate::model::request_order::RequestStamp;
use crate::model::service_time::ServiceTime;
use crate::store::error::StoreError;
use crate::store::records::shape::{Shape, Source};
use crate::store::state_keys::StateKey;
use crate::store::tx::MirrorTx;

impl MirrorTx<'_> {
    /// Whether an answer may replace a row with other values.
    pub(in crate::store) fn is_accepted(
        &self,
        shape: &Shape,
        incoming: &[Option<ValueRef<'_>>],
        old: &[Value],
        asked: &RequestStamp,
        overtaken: bool,
    ) -> Result<bool, StoreError> {
        Ok(match version_order(shape, incoming, old) {
            Some(Ordering::Greater) => true,
            Some(Ordering::Less) => {
                self.accepts_older.get() || !overtaken && self.dated_in_the_future(shape, old, asked)?
            }
            // With equal or missing versions the later request is right.
            Some(Ordering::Equal) | None => !overtaken,
        })
    }

    /// Whether a row is dated in the future when the answer was requested, according to what the service showed of its
    /// time and to the time since. Such a row blocks no change that is dated before it.
    fn dated_in_the_future(&self, shape: &Shape, old: &[Value], asked: &RequestStamp) -> Result<bool, StoreError> {
        let Some(Value::Text(text)) = version_column(shape).map(|place| &old[place]) else { return Ok(false) };
        let Ok(version) = text.parse::<Instant>() else { return Ok(false) };
        let mut time = self.state::<ServiceTime>(&StateKey::ServiceTime)?.unwrap_or_default();
        // The stored time is of the last answer that a walk took in, which may be days ago.
        time.observe(asked.reading(), None);
        Ok(time.is_plausible(version) == Some(false))
    }
}

/// Compares the version of an answer with the row's, by the service's own `updatedAt`; `None` if one has none. An older
/// version comes from a lagging replica or a cache, however late it was requested.
fn version_order(shape: &Shape, incoming: &[Option<ValueRef<'_>>], old: &[Value]) -> Option<Ordering> {
    let place = version_column(shape)?;
    match (incoming[place], &old[place]) {
        (Some(ValueRef::Text(new)), Value::Text(old)) => Some(new.cmp(old.as_bytes())),
        _ => None,
    }
}

/// The column of `updatedAt`. A detail table has none: its list part was compared before.
pub(in crate::store) fn version_column(shape: &Shape) -> Option<usize> {
    shape.columns.iter().position(|c| c.name == "updated_at" && matches!(c.source, Source::Field(_)))
}
