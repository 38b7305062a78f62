//! Simulation: days of a mirror's life in seconds, with more disturbances than a real one has.
//!
//! The real engine, outbox, daemon state machine and SQLite file run against the sandbox with a manual clock. A seed
//! determines everything: the changes by users on both sides, the faults of the service and the clock, and the kills.
//! The invariants in `invariants`, `claims` and `manners` are checked after every run; at the end two days pass without
//! disturbances, after which the mirror must be exact. In every second life one thing then fails for ever (`lasting`), and
//! everything else must stay fresh.
//!
//! A failed run prints its seed and a script of its events, reduced to those needed for the failure.
//!
//! ```text
//! cargo test --test simulation -- [--seed N] [--runs N] [--days N] [--seconds N] [--only NAME,…] [--without NAME,…]
//!                                 [--events N,…] [--concurrency N] [--keep-going] [--twice] [--verbose]
//! ```
//!
//! `--only` and `--without` name events by the variants of `What` and `Trouble`; `--events` leaves those with these
//! numbers, as a reduced script is printed. By hand, a life without `--days` lasts from a day to three months.
//! With `--concurrency`, so many requests are under way at once; their order, and with it a violation, is then not the
//! same each time. Otherwise a seed sends the same requests at the same times again; with `--twice`, each life is
//! lived a second time, and it is a violation if they differ. A run without arguments does so with its first life.
//! `--keep-going` prints each violation and begins the next life. `--verbose` prints what happens; read it through a pipe,
//! because a full disk is a limit on the files of this process, which a file with its output would exceed too. Thousands
//! of days are for a release build: `cargo test --release --test simulation -- --runs 10000`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on ends there")]

#[path = "../support/mod.rs"]
mod support;

mod claims;
mod conflicts;
mod daemon;
mod invariants;
mod lasting;
mod life;
mod manners;
mod people;
mod private_edits;
mod process;
mod repeats;
mod script;
mod tally;
mod trouble;
mod unseen;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use script::{Script, What};
use tally::Tally;

/// How often a run that keeps going says how far it is.
const REPORT: Duration = Duration::from_secs(60);

/// The arguments of the command line. Arguments of the test runner without meaning here are ignored.
#[derive(Clone)]
struct Arguments {
    seed: u64,
    runs: u64,
    days: Option<u32>,
    /// No run begins after this.
    within: Duration,
    only: Option<String>,
    without: String,
    events: Option<String>,
    concurrency: Option<u32>,
    keep_going: bool,
    /// How many lives, from the first, are lived twice.
    twice: u64,
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
        let by_hand = number("--seed").is_some() || number("--runs").is_some();
        Arguments {
            seed: number("--seed").unwrap_or(1),
            runs: number("--runs").unwrap_or(if number("--seed").is_some() { 1 } else { 8 }),
            days: number("--days").map(|days| days as u32).or(if by_hand { None } else { Some(3) }),
            within: Duration::from_secs(number("--seconds").unwrap_or(if by_hand { u64::MAX / 4 } else { 40 })),
            only: text("--only"),
            without: text("--without").unwrap_or_default(),
            events: text("--events"),
            concurrency: number("--concurrency").map(|requests| requests as u32),
            keep_going: words.iter().any(|word| word == "--keep-going"),
            twice: if words.iter().any(|word| word == "--twice") { u64::MAX } else { u64::from(!by_hand) },
            verbose: words.iter().any(|word| word == "--verbose"),
        }
    }
}

impl Arguments {
    fn lives_twice(&self, script: &Script) -> bool {
        script.concurrency == 1 && script.seed - self.seed < self.twice
    }

    fn wants(&self, what: &What) -> bool {
        let named = |names: &str| names.split(',').any(|name| name == what.name());
        match &self.only {
            Some(only) if what.is_disturbance() => named(only),
            _ => !named(&self.without),
        }
    }
}

/// The violation that a script's events lead to, if any.
fn violation(script: &Script, verbose: bool) -> Result<Tally, String> {
    // Each run has its own runtime, so that leftovers cannot affect the next.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lived = std::panic::AssertUnwindSafe(|| {
        let messages =
            tracing_subscriber::fmt().without_time().with_ansi(false).with_max_level(tracing::Level::INFO).finish();
        let _shown = verbose.then(|| tracing::subscriber::set_default(messages));
        runtime.block_on(life::live(script, verbose))
    });
    std::panic::catch_unwind(lived).unwrap_or_else(|_| Err("a panic, see above".to_string()))
}

/// The violation of a script, or of its promise that a seed sends the same requests again.
fn violation_of(script: &Script, asked: &Arguments) -> Result<Tally, String> {
    let lived = violation(script, asked.verbose)?;
    if asked.lives_twice(script) {
        let again = violation(script, false)?;
        if (again.requests, again.fingerprint) != (lived.requests, lived.fingerprint) {
            let [first, second] = [lived, again].map(|tally| format!("{:016x}: {}", tally.fingerprint, tally.line()));
            return Err(format!("the same seed sent other requests:\n  {first}\n  {second}"));
        }
    }
    Ok(lived)
}

/// Removes events while a violation remains: halves, quarters, down to single events.
fn shrunk(asked: &Arguments, mut script: Script, mut why: String, budget: Duration) -> (Script, String) {
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
            match violation_of(&fewer, &Arguments { verbose: false, ..asked.clone() }) {
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
    let mut tally = Tally::default();
    let (mut lived, mut violations, mut reported) = (0, 0, Duration::ZERO);
    for seed in asked.seed..asked.seed.saturating_add(asked.runs) {
        if began.elapsed() > asked.within {
            break;
        }
        let mut script = Script::of(seed, asked.days, |what| asked.wants(what));
        script.concurrency = asked.concurrency.unwrap_or(script.concurrency);
        if let Some(events) = &asked.events {
            let kept: HashSet<&str> = events.split(',').collect();
            script.events.retain(|event| kept.contains(event.number.to_string().as_str()));
        }
        lived += 1;
        match violation_of(&script, &asked) {
            Ok(more) => tally.add(&more),
            Err(why) if asked.keep_going => {
                violations += 1;
                println!("seed {seed}, {} days: {why}", script.days);
            }
            Err(why) => fail(&asked, script, why, began.elapsed()),
        }
        if asked.keep_going && began.elapsed() > reported + REPORT {
            reported = began.elapsed();
            println!("up to seed {seed}: {}", tally.line());
        }
    }
    println!(
        "simulation: seeds {} to {}, {}: {violations} violations in {:.0?}",
        asked.seed,
        asked.seed + lived.max(1) - 1,
        tally.line(),
        began.elapsed()
    );
    if violations > 0 {
        std::process::exit(1);
    }
}

/// Prints the shortest script that leads to a violation, and ends.
fn fail(asked: &Arguments, script: Script, why: String, after: Duration) -> ! {
    let seed = script.seed;
    eprintln!("seed {seed}: {why}\n(found after {after:.0?}; shrinking)");
    let (script, why) = shrunk(asked, script, why, Duration::from_secs(120));
    eprintln!("\n{script}\n{why}\n");
    let days = asked.days.map(|days| format!(" --days {days}")).unwrap_or_default();
    let concurrency = asked.concurrency.map(|requests| format!(" --concurrency {requests}")).unwrap_or_default();
    let twice = if asked.lives_twice(&script) { " --twice" } else { "" };
    let days = format!("{days}{concurrency}{twice}");
    let events: Vec<String> = script.events.iter().map(|event| event.number.to_string()).collect();
    eprintln!("again: cargo test --test simulation -- --seed {seed}{days}");
    eprintln!("as reduced: … --seed {seed}{days} --events {}", events.join(","));
    std::process::exit(1);
}
