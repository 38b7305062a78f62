//! Runs: their entries in `sync_runs`, and the anomalies that they found.

pub(super) mod entry;
