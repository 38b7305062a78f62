//! The daemon: runs jobs on a schedule and on request, one at a time.
//!
//! [`state_machine`] decides and is pure; `event_loop` receives inputs and executes effects, through `runner` in separate
//! tasks. `lifetime` waits for a mirror that cannot be opened yet.
//!
//! # Invariants
//! - One run at a time, and one daemon per mirror: a second one waits and reports the process that it waits for.
//! - A request is answered at once and executed in its turn; its result is an event.
//! - The daemon survives failures of the service, the disk and other processes. It stops only when asked to, if the
//!   configuration is unusable, or if a newer version wrote the mirror.

pub mod client;
pub mod control;
pub mod error;
mod event;
mod event_loop;
mod handler_state;
mod http_server;
pub mod inputs_and_effects;
pub mod job;
mod lifetime;
mod metrics;
mod notification;
mod page;
pub mod progress_log;
mod runner;
mod socket;
pub mod state_machine;
pub mod status_reply;
mod systemd;
pub mod timetable;
mod watches;

pub use error::DaemonError;
pub use event::Event;
pub use lifetime::run;
pub use status_reply::{DaemonStatus, StatusReply};
pub use systemd::{DaemonSignals, StopSignals};
pub use timetable::Timetable;
