//! The number of random cases of the properties.

/// The number of histories in a plain `cargo test`. CI uses a thousand.
const HISTORIES: u32 = 200;

/// The number of cases of a property with this many per thousand histories. The variable `HISTORIES` is the number of
/// histories and thereby scales all properties.
pub fn cases(per_thousand: u32) -> u32 {
    let histories = std::env::var("HISTORIES").ok().and_then(|number| number.parse().ok()).unwrap_or(HISTORIES);
    (histories * per_thousand).div_ceil(1_000)
}
