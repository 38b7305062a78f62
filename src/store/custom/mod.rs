//! Columns of custom fields: named once, filled, archived and restored as their definitions change.

pub(super) mod columns;
pub(in crate::store) mod rows;
pub(in crate::store) mod table_shapes_of_file;
mod values_in_extra;
