//! Local edits on their way to the service.
//!
//! [`check`] says whether a value may be sent at all, before it is queued and again before it goes out. [`typed`] turns
//! what people and programs write into the form that a column has, and [`queue()`] puts an edit into the outbox.
//! [`request`] says which request comes next for a record, [`answer`] what its answer means, [`rebase`] what a record that
//! changed meanwhile says about an edit of it; all of them are pure. [`Pusher`] carries them out. [`decide`] is what a
//! person does about an edit that waits or was refused.
//!
//! # Always true
//! - An edit is applied at most once, or ends in a state that says why not: [`answer`] says how.
//! - Body, `If-Match` and `Idempotency-Key` are in the file, beyond a power cut, before the first byte is sent.
//! - Nobody's change of the same field is overwritten unseen: a request names the version it replaces, and only fields
//!   that are at that version as the editor saw them are in it.
//! - Every step of every edit is in `outbox_events`, in the transaction that takes it.

pub mod answer;
pub mod brake;
pub mod check;
pub mod decide;
pub mod delay;
mod edit_tx;
pub mod error;
pub mod key;
mod outcome;
mod pass;
pub mod propose;
mod push;
pub mod pusher;
pub mod queue;
mod read_back;
pub mod rebase;
pub mod request;
mod send;
mod trail;
pub mod typed;
mod watch;

pub use key::IdempotencyKeys;
pub use pass::{PushTally, Pushed};
pub use pusher::Pusher;
pub use queue::{EditRequest, EditSource, QueueError, queue};
pub use watch::EditWatch;
