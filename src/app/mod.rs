//! The assembled program without an interface: a mirror that can run jobs, and what it says of itself, as data.
//!
//! [`Mirror`] puts store, meter, client and engine together, once, for the verbs in the foreground and for the daemon;
//! [`MirrorSettings`] is what it is made of; [`status`] reads what the file says. Texts are made of that elsewhere: this
//! room returns values and typed errors.
//!
//! # Always true
//! - Address and key are checked before the mirror's file is touched, so a configuration that cannot work leaves no trace.
//! - A mirror that was replaced on the disk is opened again before a run writes to it, and one that has gone is not made
//!   anew behind anybody's back.

mod mirror;
mod reserve;
mod settings;
pub mod status;

pub use mirror::{Mirror, MirrorError, PATIENCE, RunResult};
pub use reserve::RUNS_OF_FORECAST;
pub use settings::{MirrorSettings, limits};
