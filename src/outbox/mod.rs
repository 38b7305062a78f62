//! Local edits on their way to the service.
//!
//! [`check`] says whether a value may be sent at all, before it is queued and again before it goes out. [`typed`] turns
//! what people and programs write into the form that a column has.

pub mod check;
pub mod typed;
