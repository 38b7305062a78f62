//! Values omitted by a list: a missing key is no information about the value (reference, *Custom values*, rule 5). If a
//! record changed and a list omits a value that is stored, only its detail shows whether the value was cleared.

use rusqlite::types::{Value, ValueRef};

use crate::model::catalogue::Object;
use crate::model::ids::RecordId;
use crate::store::records::shape::{Shape, Source};
use crate::store::tx::MirrorTx;

impl MirrorTx<'_> {
    /// Notes a changed record if the list omitted a stored custom value.
    pub(in crate::store) fn note_omitted(
        &self,
        object: Object,
        shape: &Shape,
        id: &str,
        incoming: &[Option<ValueRef<'_>>],
        old: &[Value],
    ) {
        let is_omitted = |(place, new): (usize, &Option<ValueRef<'_>>)| {
            new.is_none() && matches!(shape.columns[place].source, Source::Slot(_)) && old[place] != Value::Null
        };
        if incoming.iter().enumerate().any(is_omitted) {
            self.pending.omitted.borrow_mut().insert((object, id.to_string()));
        }
    }

    /// Returns and clears the records that this transaction noted.
    pub fn take_omitted(&self, object: Object) -> Vec<RecordId> {
        let taken = self.pending.omitted.take();
        taken.into_iter().filter(|(of, _)| *of == object).map(|(_, id)| RecordId::new(id)).collect()
    }
}
