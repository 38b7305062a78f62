//! The service as a client sees it.

pub mod decode;
pub mod meter;
