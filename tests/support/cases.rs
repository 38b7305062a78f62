//! The random cases of the properties: how many there are, and which.
//!
//! A property tries the same cases in every run, so that a failure can be repeated and a change of the code is what made
//! a difference. `HISTORIES_SEED` chooses others.

use std::cell::Cell;
use std::fmt::Debug;

use proptest::prelude::{ProptestConfig, Strategy};
use proptest::test_runner::{RngSeed, TestCaseError, TestRunner};

/// The number of histories in a plain `cargo test`.
const HISTORIES: u32 = 100;

/// The seed of all properties if nobody chooses one.
const SEED: u32 = 1;

/// The number of cases of a property with this many per thousand histories. The variable `HISTORIES` is the number of
/// histories and thereby scales all properties.
pub fn cases(per_thousand: u32) -> u32 {
    (histories() * per_thousand).div_ceil(1_000)
}

/// The number of records of a test that is about very many: all of them where a thousand histories are tried, a fifth
/// otherwise.
pub fn records(all: usize) -> usize {
    if histories() >= 1_000 { all } else { all / 5 }
}

fn histories() -> u32 {
    std::env::var("HISTORIES").ok().and_then(|number| number.parse().ok()).unwrap_or(HISTORIES)
}

/// The seed that `HISTORIES_SEED` chooses: a number, or `random` for another one in each run.
fn seed() -> u32 {
    match std::env::var("HISTORIES_SEED") {
        Err(_) => SEED,
        Ok(text) if text == "random" => fastrand::u32(..),
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("HISTORIES_SEED={text} is neither a number nor `random`")),
    }
}

/// The random cases of one test.
#[derive(Clone, Copy, Debug)]
pub struct Cases {
    number: u32,
    seed: u32,
    shard: u32,
}

impl Cases {
    /// All cases of a property with this many per thousand histories.
    pub fn per_thousand(per_thousand: u32) -> Cases {
        Cases::shard(per_thousand, 0, 1)
    }

    /// The share of one of `shards` tests, each of which has cases of its own.
    pub fn shard(per_thousand: u32, shard: u32, shards: u32) -> Cases {
        Cases { number: cases(per_thousand).div_ceil(shards), seed: seed(), shard }
    }

    /// Tries a property with each case. A failure is reduced by at most `shrinks` attempts, or by
    /// `PROPTEST_MAX_SHRINK_ITERS` if that is less.
    #[track_caller]
    pub fn check<S: Strategy>(self, shrinks: u32, cases: S, property: impl Fn(S::Value) -> Result<(), TestCaseError>)
    where
        S::Value: Debug,
    {
        let config = ProptestConfig {
            cases: self.number,
            max_shrink_iters: shrinks.min(ProptestConfig::default().max_shrink_iters),
            failure_persistence: None,
            rng_seed: RngSeed::Fixed(u64::from(self.shard) << 32 | u64::from(self.seed)),
            ..ProptestConfig::default()
        };
        // From the first failure on, the attempts are to reduce it.
        let (tried, fails) = (Cell::new(0_u32), Cell::new(false));
        let counted = |case| {
            if fails.get() {
                return property(case);
            }
            tried.set(tried.get() + 1);
            // Also if the property panics.
            fails.set(true);
            property(case).inspect(|()| fails.set(false))
        };
        if let Err(failure) = TestRunner::new(config).run(&cases, counted) {
            let (thread, seed, histories) = (std::thread::current(), self.seed, histories());
            let (binary, test) = (env!("CARGO_CRATE_NAME"), thread.name().unwrap_or_default());
            let again =
                format!("HISTORIES_SEED={seed} HISTORIES={histories} cargo test --test {binary} -- --exact {test}");
            panic!("case {} of {}: {failure}\nagain: {again}", tried.get(), self.number);
        }
    }
}
