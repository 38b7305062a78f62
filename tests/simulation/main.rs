//! Simulation: days of a mirror's life in seconds, in a world that is worse than any real one.
//!
//! The real engine, outbox, daemon state machine and SQLite file run against the sandbox, with a clock that only moves
//! when it is told to. A seed decides everything: what people change on both sides, what the service and the clock do
//! wrong, when the process is killed. After every run the invariants of `invariants` are checked; at the end everything
//! goes well for two days, and then the mirror must be exact.
//!
//! A run that fails prints its seed and a script of what happened, reduced to the events that are needed.
//!
//! ```text
//! cargo test --test simulation -- [--seed N] [--runs N] [--days N] [--seconds N] [--only NAME,…] [--without NAME,…] [--all] [--verbose]
//! ```
//!
//! `--only` and `--without` name disturbances by the variants of `What` and `Trouble`. Without `--all`, those of
//! [`OPEN`] do not happen: the mirror does not survive them yet.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on ends there")]

#[path = "../support/mod.rs"]
mod support;

mod daemon;
mod invariants;
mod life;
mod script;

use std::time::{Duration, Instant};

use script::{Script, What};

/// Disturbances that the mirror is known not to survive.
const OPEN: &[&str] = &["RemoveMany", "Gateway", "EmptyLists"];

/// What the command line asks for. Arguments of the test runner that mean nothing here are ignored.
struct Arguments {
    seed: u64,
    runs: u64,
    days: u32,
    /// No run begins after this.
    within: Duration,
    only: Option<String>,
    without: String,
    verbose: bool,
}

impl Arguments {
    fn read() -> Arguments {
        let words: Vec<String> = std::env::args().collect();
        let number = |name: &str| -> Option<u64> {
            let place = words.iter().position(|word| word == name)?;
            words.get(place + 1)?.parse().ok()
        };
        let text = |name: &str| -> Option<String> {
            let place = words.iter().position(|word| word == name)?;
            words.get(place + 1).cloned()
        };
        let open = if words.iter().any(|word| word == "--all") { String::new() } else { OPEN.join(",") };
        let by_hand = number("--seed").is_some() || number("--runs").is_some();
        Arguments {
            seed: number("--seed").unwrap_or(1),
            runs: number("--runs").unwrap_or(if number("--seed").is_some() { 1 } else { 8 }),
            days: number("--days").unwrap_or(3) as u32,
            within: Duration::from_secs(number("--seconds").unwrap_or(if by_hand { u64::MAX / 4 } else { 40 })),
            only: text("--only"),
            without: format!("{open},{}", text("--without").unwrap_or_default()),
            verbose: words.iter().any(|word| word == "--verbose"),
        }
    }
}

impl Arguments {
    fn wants(&self, what: &What) -> bool {
        let named = |names: &str| names.split(',').any(|name| name == what.name());
        match &self.only {
            Some(only) if what.is_disturbance() => named(only),
            _ => !named(&self.without),
        }
    }
}

/// Whether the events of a script lead to a violation, and to which.
fn violation(script: &Script, verbose: bool) -> Result<life::Tally, String> {
    // A runtime of its own: what a run leaves behind cannot reach the next.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lived = std::panic::AssertUnwindSafe(|| runtime.block_on(life::live(script, verbose)));
    std::panic::catch_unwind(lived).unwrap_or_else(|_| Err("a panic, see above".to_string()))
}

/// Drops events as long as some violation remains: halves, quarters, and so on down to single ones.
fn shrunk(mut script: Script, mut why: String, budget: Duration) -> (Script, String) {
    let began = Instant::now();
    let mut size = script.events.len().div_ceil(2).max(1);
    loop {
        let mut place = 0;
        let mut dropped = false;
        while place < script.events.len() {
            if began.elapsed() > budget {
                return (script, why);
            }
            let mut fewer = script.clone();
            fewer.events.drain(place..(place + size).min(script.events.len()));
            match violation(&fewer, false) {
                Err(other) => (script, why, dropped) = (fewer, other, true),
                Ok(_) => place += size,
            }
        }
        if size == 1 && !dropped {
            return (script, why);
        }
        size = (size / 2).max(1);
    }
}

fn main() {
    let asked = Arguments::read();
    if std::env::args().any(|word| word == "--list") {
        println!("simulation: test");
        return;
    }
    let began = Instant::now();
    let mut tally = life::Tally::default();
    let mut lived = 0;
    for seed in asked.seed..asked.seed.saturating_add(asked.runs) {
        if began.elapsed() > asked.within {
            break;
        }
        let script = Script::of(seed, asked.days, |what| asked.wants(what));
        match violation(&script, asked.verbose) {
            Ok(more) => tally.add(&more),
            Err(why) => {
                let after = began.elapsed();
                eprintln!("seed {seed}: {why}\n(found in run {} after {after:.0?}; shrinking)", lived + 1);
                let (script, why) = shrunk(script, why, Duration::from_secs(120));
                eprintln!("\n{script}\n{why}\n");
                eprintln!("again: cargo test --test simulation -- --seed {seed} --days {}", asked.days);
                std::process::exit(1);
            }
        }
        lived += 1;
    }
    println!(
        "simulation: seeds {} to {}, {} days, {} runs, {} requests, {} RU, {} edits, {} kills: no violation in {:.0?}",
        asked.seed,
        asked.seed + lived.max(1) - 1,
        tally.days,
        tally.runs,
        tally.requests,
        tally.ru,
        tally.edits,
        tally.kills,
        began.elapsed()
    );
}
