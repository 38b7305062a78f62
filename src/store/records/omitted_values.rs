//! Values omitted by a list: a missing key is no information about the value (reference, *Custom values*, rule 5). If a
//! record changed and a list omits a value that is stored, only its detail shows whether the value was cleared.

use rusqlite::types::{Value, ValueRef};

use crate::model::catalogue::Object;
use crate::model::ids::RecordId;
use crate::store::records::shape::{Shape, Source};
use crate::store::tx::UnreadTx;

impl UnreadTx<'_> {
    /// Notes a changed record if the list omitted a stored value. `changed` has the places of the columns that it
    /// changes.
    pub(in crate::store) fn mark_omitted(
        &self,
        object: Object,
        shape: &Shape,
        id: &str,
        incoming: &[Option<ValueRef<'_>>],
        (old, changed): (&[Value], &[usize]),
    ) {
        // Lists leave fields of a group out. One that can be edited must not keep an old value that is called current.
        let may_be_omitted = |source: Source| match source {
            Source::Slot(_) => true,
            Source::Field(index) => object.fields()[index].wire.contains('.') || object.fields()[index].writable,
            Source::FieldNum(_) | Source::SlotNum(_) | Source::Extra => false,
        };
        let is_omitted = |(place, new): (usize, &Option<ValueRef<'_>>)| {
            new.is_none() && old[place] != Value::Null && may_be_omitted(shape.columns[place].source)
        };
        if incoming.iter().enumerate().any(is_omitted) {
            let has_other_etag = changed.iter().any(|place| shape.columns[*place].name == "etag");
            *self.tx.pending.omitted.borrow_mut().entry((object, id.to_string())).or_default() |= has_other_etag;
        }
    }

    /// Returns and clears the records that this transaction noted, each with whether its etag changed.
    pub fn take_omitted(&self, object: Object) -> Vec<(RecordId, bool)> {
        let taken = self.tx.pending.omitted.take();
        let of_object = taken.into_iter().filter(|((of, _), _)| *of == object);
        of_object.map(|((_, id), has_other_etag)| (RecordId::new(id), has_other_etag)).collect()
    }
}
