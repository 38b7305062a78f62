//! Local edits on their way to the service.
//!
//! [`check`] says whether a value may be sent at all, before it is queued and again before it goes out. [`typed`] turns
//! what people and programs write into the form that a column has; [`queue()`] puts an edit into the outbox.

pub mod check;
pub mod queue;
pub mod typed;

pub use queue::{EditRequest, QueueError, Source, queue};
