//! The whole API of the reference as a local server, for demos, tests and development.
//!
//! [`World`] is the simulated CRM, in memory. [`Sandbox`] adds keys, faults ([`Faults`]) and a log; [`Sandbox::start`]
//! serves it over HTTP. `service` checks a request's key, path, scope and parameters (`rules`), then executes it
//! (`list`, `patch`), and `render` writes the answer. `fault` is everything that can go wrong with it on its way.
//!
//! # Invariants
//! - Every rule about a standard field comes from [`crate::model::catalogue`].
//! - All times come from the injected clock: dates, etags, retention and the `Date` header.
//! - A request is one step of the world; nothing changes while it is answered.
//!
//! # Why values are JSON source
//! A mirror must handle everything that a real service may send: `1.10`, 2^70, a lone surrogate, an undocumented field.
//! A parsed value would normalize such things, so records hold the source of each value (`table`), and answers are
//! written as text.

mod admin;
mod definition;
mod development;
mod exchange;
mod fault;
mod faults;
mod fixture;
mod generate;
mod handle;
mod keys;
mod list;
mod patch;
mod render;
mod rules;
mod server;
mod service;
mod state;
mod table;
mod world;

pub use definition::{CustomDefinition, NewField};
pub use development::churn_interval;
pub use exchange::{Log, LoggedRequest, RequestLine, Route};
pub use fault::{BodyRewrite, DateHeader, Fault, Hidden};
pub use faults::{FaultLine, Faults, Rule};
pub use generate::generate;
pub use handle::Sandbox;
pub use keys::{SCOPES, key_of_seed};
pub use server::SandboxServer;
pub use service::SandboxSettings;
pub use state::{Development, DevelopmentError, WorldOrigin};
pub use world::{Fields, World};
