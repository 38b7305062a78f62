//! What must hold for anything that strangers write: answers, headers, cursors, configuration files, requests on the
//! control socket, rows of the outbox, values in SQL, and entries of the private state.
//!
//! Each module has a function `check` that takes arbitrary bytes and panics if a property does not hold. The fuzz targets
//! in `tests/fuzz/targets` call it with generated input, and `tests/reference` with the files in `tests/corpus`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a property that does not hold ends the run")]

pub mod answers;
pub mod config;
pub mod control;
pub mod outbox;
pub mod runs;
pub mod sql;
pub mod state;
pub mod texts;

mod mirrored;

/// Ends one part of an input, and begins the next.
const SEPARATOR: u8 = 0x1e;

/// The parts of an input; always as many as are asked for, empty ones at the end.
fn parts<const N: usize>(data: &[u8]) -> [&[u8]; N] {
    let mut parts = data.splitn(N, |byte| *byte == SEPARATOR);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

/// The first byte, and the rest.
fn choice(data: &[u8]) -> (usize, &[u8]) {
    data.split_first().map_or((0, data), |(first, rest)| (usize::from(*first), rest))
}
