//! The properties that the fuzz targets check, and what they share with the integration tests.

pub mod checks;

#[path = "../support/mod.rs"]
mod support;
