//! Columns of custom fields: named once, filled, archived and restored as their definitions change.

pub mod columns;
mod refill;
