//! How measurements are shown: a line for each side, and a verdict for each ratio.

use std::path::Path;

use super::{Measured, median};

/// The medians of the rounds' ratios: of times, and of processor times.
pub fn paired(these: &[Measured], those: &[Measured]) -> (f64, f64) {
    let ratio = |of: fn(&Measured) -> f64| median(these.iter().zip(those).map(|(this, that)| of(this) / of(that)));
    (ratio(|run| run.seconds), ratio(|run| run.processor_seconds))
}

/// The size of a file.
pub fn mib(path: &Path) -> f64 {
    std::fs::metadata(path).map_or(0.0, |file| file.len() as f64 / f64::from(1 << 20))
}

/// One side.
pub fn show(side: &str, runs: &[Measured]) {
    let Some(last) = runs.last() else { return };
    let seconds = median(runs.iter().map(|run| run.seconds));
    println!(
        "  {side:<24} {seconds:>8.3} s  {:>8.3} s of processor  {:>8.0} rows/s  {:>5} RU  {:>6.1} MiB of memory  {:>7.1} MiB written",
        median(runs.iter().map(|run| run.processor_seconds)),
        last.rows as f64 / seconds,
        last.ru,
        median(runs.iter().map(Measured::peak_mib)),
        median(runs.iter().map(Measured::written_mib)),
    );
}

/// Whether a ratio of processor times is as small as it should be; the other is of elapsed times.
pub fn at_most(what: &str, (elapsed, processor): (f64, f64), most: f64) {
    let word = if processor <= most { "met" } else { "MISSED" };
    println!("  {what}: {elapsed:.2}, of processor time {processor:.2} (aim: at most {most:.2}; {word})");
}

/// Whether a figure is as small as it should be.
pub fn is_at_most(what: &str, figure: f64, most: f64) {
    let word = if figure <= most { "met" } else { "MISSED" };
    println!("  {what}: {figure:.2} (aim: at most {most:.2}; {word})");
}

/// Whether a figure is as large as it should be.
pub fn at_least(what: &str, figure: f64, least: f64) {
    let word = if figure >= least { "met" } else { "MISSED" };
    println!("  {what}: {figure:.2} (aim: at least {least:.2}; {word})");
}
