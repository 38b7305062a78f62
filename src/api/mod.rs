//! The service as a client sees it: typed queries, one client, and the class of every error.
//!
//! [`ListQuery`] cannot break a limit of the reference, so no RU is spent on a request that would be refused.
//! [`Client`] sends it: every attempt, retries included, is admitted by a [`admission::Meter`] first, so nothing is sent
//! that the budget or a hold forbids. [`error_class`] is the one table of classes. [`decode`] makes records of a body.
//!
//! # Invariants
//! - The key is in one sensitive header and nowhere else: not in `Debug`, not in an error, not behind a redirect.
//! - A retry repeats the request byte for byte, headers included (reference, *Limits*, rule 2).
//! - Waiting goes through the injected clock, and its random part comes from an injected source.

pub mod admission;
mod attempts;
pub mod base_url;
pub mod client;
pub mod decode;
pub mod error;
pub mod error_class;
pub mod key;
pub mod pace;
pub mod query;
pub mod requested_wait;
mod settings;
pub(crate) mod transport;

pub use admission::AdmissionError;
pub use base_url::BaseUrl;
pub(crate) use base_url::is_loopback;
pub use client::{Client, PatchError};
pub use error::{ApiError, Rejection};
pub use error_class::ErrorClass;
pub use key::ApiKey;
pub use query::{ListQuery, PageSize, SortBy};
pub use settings::{ClientSettings, Jitter};
pub use transport::ServiceAnswer;
