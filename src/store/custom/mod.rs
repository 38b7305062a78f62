//! Columns of custom fields: named once, filled, archived and restored as their definitions change.

pub(super) mod columns;
pub(in crate::store) mod rows;
mod values_in_extra;
