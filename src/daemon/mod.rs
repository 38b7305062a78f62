//! The daemon: runs jobs by the schedule and on request, one at a time, for years.
//!
//! [`state`] decides and is pure; [`timetable`] says what is due; `event_loop` gathers what happens and has done what was
//! decided, by `runner` in tasks of their own. `opening` waits for a mirror that cannot be opened yet. `control` answers
//! on the Unix socket and `page` to browsers and monitoring, both over `http_server`; `bus` publishes events; `schedule`
//! is the scheduler's edge; `notify` speaks to systemd; [`client`] is the other end of the socket, for the verbs.
//!
//! # Always true
//! - One run at a time, and one daemon for a mirror: a second one waits and says for which process.
//! - A request is answered at once and carried out in its turn; its result is an event.
//! - The loop waits for nothing but its inbox: not for the database, the disk or the service, whoever holds them.
//! - The daemon survives whatever the service, the disk and other processes do. It ends when it is asked to, where the
//!   configuration cannot work, and where a newer program wrote the mirror.

mod bus;
pub mod client;
mod control;
mod describe;
pub mod error;
mod event_loop;
pub mod events;
mod handle;
mod history;
mod http_server;
pub mod input;
pub mod job;
mod message;
mod metrics;
mod monitoring;
mod notify;
mod opening;
mod outbox_watch;
mod page;
mod past_runs;
mod progress_log;
mod publisher;
mod reply;
mod results;
mod run;
mod runner;
mod schedule;
mod signals;
mod socket;
pub mod state;
pub mod status_reply;
pub mod timetable;

pub use error::DaemonError;
pub use events::Event;
pub use publisher::run;
pub use status_reply::{DaemonStatus, StatusReply};
pub use timetable::Timetable;
