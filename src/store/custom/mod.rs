//! Columns of custom fields: named once, filled, archived and restored as their definitions change.

mod back_fill;
pub(super) mod changes;
pub(super) mod columns;
pub(super) mod extras;
pub(in crate::store) mod file_shapes;
mod from_extra;
mod rows;
