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
mod admin_fields;
mod body;
mod cell;
mod churn;
mod clock;
mod cursor;
mod definition;
mod development;
mod domain;
mod error_answer;
mod exchange;
mod fault;
mod fault_line;
mod faults;
mod fields;
mod fixture;
mod generate;
mod generate_fields;
mod generate_plain;
mod handle;
mod http;
mod include;
mod keys;
mod list;
mod log;
mod origin;
mod patch;
mod patch_values;
mod predicate;
mod render;
mod request_line;
mod rules;
mod server;
mod service;
mod settings;
mod state;
mod table;
mod wire;
mod words;
mod world;

pub use churn::ChurnRate;
pub use definition::{CustomDefinition, NewField};
pub use development::DevelopmentError;
pub use fault::{BodyRewrite, DateHeader, Fault, Hidden};
pub use fault_line::FaultLine;
pub use faults::{Faults, Rule};
pub use fields::Fields;
pub use fixture::FixtureError;
pub use generate::generate;
pub use handle::Sandbox;
pub use keys::{SCOPES, key_of_seed};
pub use log::{Log, LoggedRequest};
pub use origin::{Development, WorldOrigin};
pub use request_line::{RequestLine, Route};
pub use server::SandboxServer;
pub use settings::{CursorKind, SandboxSettings};
pub use state::StateError;
pub use world::World;
