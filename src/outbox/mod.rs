//! Sends local edits to the service.
//!
//! [`validate`] validates values, before they are queued and again before they are sent. [`typed_values`] converts the input of
//! users and programs to the form of a column, and [`queue()`] puts an edit into the outbox. [`patch_request`] decides on the
//! next request of a record, [`patch_answer`] on the effect of its answer, [`field_verdict`] on an edit whose record changed
//! meanwhile; all of them are pure. [`Pusher`] executes them. [`user_decisions`] executes a person's decisions about an edit
//! that waits or was refused.
//!
//! # Invariants
//! - An edit is applied at most once, or ends in a state that says why it was not applied: see [`patch_answer`].
//! - Body, `If-Match` and `Idempotency-Key` are durably stored before the first byte is sent.
//! - No one's change of the same field is overwritten unseen: a request names the version that it replaces, and
//!   contains only fields that still have the value that the editor saw.
//! - Every step of every edit is recorded in `outbox_events`, in the transaction of the step.

pub mod delay;
mod due_edits;
#[cfg(test)]
#[path = "edit_fixture_tests.rs"]
mod edit_fixture;
mod edit_outcome;
mod edit_tx;
pub mod field_verdict;
pub mod patch_answer;
pub mod patch_request;
mod push;
mod push_progress;
pub mod queue;
mod trail;
pub mod typed_values;
pub mod user_decisions;
pub mod validate;

pub use due_edits::EditWatch;
pub use push::{OutboxError, Pusher};
pub use push_progress::{PushTally, Pushed};
pub use queue::{EditRequest, propose, queue};
pub use typed_values::Given;
