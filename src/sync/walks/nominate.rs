//! Nominations: a sweep records which records of the mirror it missed. Only a lookup by id decides on them.
//!
//! Paging is not a snapshot (reference, *List query conventions*, rule 10): a row may be missed between two pages.

use super::walk::{Frontier, Walk, WalkRange};
use crate::model::{Object, Record};
use crate::store::{MirrorTx, StoreError};

/// Nominates what a page missed: rows of the mirror between the walk's frontier before and after the page that are not
/// on the page.
pub(in crate::sync) fn mark_missing(
    tx: &MirrorTx<'_>,
    object: Object,
    walk: &Walk,
    before: Frontier,
    records: &[Record],
    is_last: bool,
) -> Result<(), StoreError> {
    let ids: Vec<&str> = records.iter().map(|record| record.id.as_str()).collect();
    let ids = serde_json::Value::from(ids).to_string();
    let after = walk.frontier;
    let (from, to) = walk.range.dates();
    let low = match before {
        Frontier::Start => from.map(|from| (from, true)),
        Frontier::At(at) => Some((at, false)),
        Frontier::Nulls => None,
    };
    let has_dates = !matches!(walk.range, WalkRange::WithoutCreated) && before != Frontier::Nulls;
    let has_nulls = matches!(walk.range, WalkRange::All { from: None } | WalkRange::WithoutCreated);
    if has_dates {
        match after {
            Frontier::At(at) if !is_last => tx.knowledge().nominate_between(object, low, Some((at, true)), &ids)?,
            Frontier::Start if !is_last => {}
            _ => tx.knowledge().nominate_between(object, low, to.map(|to| (to, false)), &ids)?,
        }
    }
    if has_nulls && before != Frontier::Nulls && (after == Frontier::Nulls || is_last) {
        tx.knowledge().nominate_dateless(object, &ids)?;
    }
    Ok(())
}
