//! The daemon: runs by the clock and on request, one at a time, for years.
//!
//! [`state`] decides and is pure; [`timetable`] says what is due; [`run()`] gathers what happens and does what was decided.
//! `workshop` holds the mirror and the engine; `control` answers on the Unix socket and `page` to browsers
//! of this machine; `schedule` is the scheduler's edge;
//! `notify` speaks to systemd; [`client`] is the other end of the socket, for the verbs.
//!
//! # Always true
//! - One run at a time, and one daemon for a mirror: whoever comes second is told the first one's process.
//! - What a person asked for is answered at once and carried out in its turn; what it comes to is told in the stream.
//! - The daemon outlives whatever the service does. It ends when it is asked to, and where going on would be wrong.

pub mod client;
mod control;
mod describe;
mod edit_request;
mod edits;
mod endings;
pub mod error;
pub mod event;
pub mod job;
mod message;
mod metrics;
mod notify;
mod page;
mod publisher;
mod reply;
mod run;
mod schedule;
mod signals;
mod socket;
pub mod state;
pub mod timetable;
pub mod told;
mod voice;
mod workshop;

pub use control::Standing;
pub use error::DaemonError;
pub use publisher::run;
pub use timetable::Timetable;
pub use told::{DaemonStatus, Told};
