//! What runs did: their entries in `sync_runs`, and the anomalies they met.

pub mod entry;
