//! Nominations: a sweep notes the records of the mirror that it passed over. Only an answer by id decides about them.
//!
//! Paging is not a snapshot (reference, *List query conventions*, rule 10): a row may slip between two pages.

use super::walk::{Frontier, Range, Walk};
use crate::model::{Object, Record};
use crate::store::{MirrorTx, StoreError};

/// Nominates what a page passed over: rows here between the walk's frontier before and after the page that the page did
/// not have. Whatever a page has is no longer nominated.
pub(in crate::sync) fn note_missing(
    tx: &MirrorTx<'_>,
    object: Object,
    walk: &Walk,
    before: Frontier,
    records: &[Record],
    ends: bool,
) -> Result<(), StoreError> {
    let ids: Vec<&str> = records.iter().map(|record| record.id.as_str()).collect();
    let ids = serde_json::Value::from(ids).to_string();
    let after = walk.frontier;
    let (from, to) = match &walk.range {
        Range::Created { from, to } => (*from, *to),
        _ => (None, None),
    };
    let low = match before {
        Frontier::Start => from.map(|from| (from, true)),
        Frontier::At(at) => Some((at, false)),
        Frontier::Nulls => None,
    };
    let has_dates = !matches!(walk.range, Range::WithoutCreated) && before != Frontier::Nulls;
    let has_nulls = matches!(walk.range, Range::All | Range::WithoutCreated);
    if has_dates {
        match after {
            Frontier::At(at) if !ends => tx.nominate_between(object, low, Some((at, true)), &ids)?,
            Frontier::Start if !ends => {}
            _ => tx.nominate_between(object, low, to.map(|to| (to, false)), &ids)?,
        }
    }
    if has_nulls && before != Frontier::Nulls && (after == Frontier::Nulls || ends) {
        tx.nominate_dateless(object, &ids)?;
    }
    tx.withdraw_nominations(object, &ids)
}
