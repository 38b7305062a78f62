//! The whole API of the reference as a local server, for demos, tests and development.
//!
//! [`World`] is the simulated CRM, in memory. [`Sandbox`] adds keys, faults ([`Faults`]) and a log; [`Sandbox::start`]
//! serves it over HTTP. `service` checks a request's key, path, scope and parameters (`rules`), then executes it
//! (`list`, `patch`), and `render` writes the answer.
//!
//! # Invariants
//! - Every rule about a standard field comes from [`crate::model::catalogue`].
//! - All times come from the injected clock: dates, etags, retention and the `Date` header.
//! - A request is one step of the world; nothing changes while it is answered.
//!
//! # Why answers are written as text
//! A mirror must handle everything that a real service may send: `1.10`, 2^70, a lone surrogate, an undocumented field.
//! An intermediate JSON value would normalize such things.

mod admin;
mod definition;
mod development;
mod exchange;
mod fault;
mod faults;
mod generate;
mod generate_plain;
mod handle;
mod keys;
mod list;
mod origin;
mod patch;
mod render;
mod rules;
mod server;
mod service;
mod state;
mod table;
mod words;
mod world;

pub use definition::{CustomDefinition, NewField};
pub use development::{ChurnRate, DevelopmentError};
pub use exchange::{Log, LoggedRequest, RequestLine, Route};
pub use fault::{BodyRewrite, DateHeader, Fault, Hidden};
pub use faults::{FaultLine, Faults, Rule};
pub use generate::generate;
pub use handle::Sandbox;
pub use keys::{SCOPES, key_of_seed};
pub use origin::{Development, FixtureError, WorldOrigin};
pub use server::SandboxServer;
pub use service::SandboxSettings;
pub use state::StateError;
pub use world::{Fields, World};
