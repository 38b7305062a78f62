//! Local edits on their way to the service.
//!
//! [`check`] says whether a value may be sent at all, before it is queued and again before it goes out. [`typed`] turns
//! what people and programs write into the form that a column has, and [`queue()`] puts an edit into the outbox.
//! [`body`] says which request comes next for a record, [`state`] what its answer means, [`rebase`] what a record that
//! changed meanwhile says about an edit of it; all of them are pure. [`push`] carries them out. [`decide`] is what a
//! person does about an edit that waits or was refused.
//!
//! # Always true
//! - An edit is applied at most once, or ends in a state that says why not: [`state`] says how.
//! - Body, `If-Match` and `Idempotency-Key` are in the file, beyond a power cut, before the first byte is sent.
//! - Nobody's change of the same field is overwritten unseen: a request names the version it replaces, and only fields
//!   that are at that version as the editor saw them are in it.
//! - Every step of every edit is in `outbox_events`, in the transaction that takes it.

pub mod body;
pub mod check;
pub mod decide;
pub mod error;
pub mod key;
pub mod push;
pub mod queue;
pub mod rebase;
pub mod state;
mod steps;
mod take;
mod trail;
pub mod typed;

pub use key::Keys;
pub use push::PushTally;
pub use queue::{EditRequest, QueueError, Source, queue};
