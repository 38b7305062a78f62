//! Where a list that nothing is known of yet is cut into slices of about as many rows each. Pure.
//!
//! A slice's first page says how many rows the slice has, and how densely they follow each other where it begins. From
//! that, [`next_cuts`] chooses the slice that most needs cutting and the instants to cut it at. What those slices' own
//! first pages say corrects the choice in the next round, so it need not be right at once.
//!
//! Rows are rarely spread evenly: a workspace grows, or was filled by one import. Between the ends of a slice the density
//! is taken to fall exponentially from the denser end, just so fast that the number of rows comes out. That is an even
//! spread where the densities say nothing else.
//!
//! # What cutting costs
//! The last page of each slice is part empty, and a slice without rows costs a request all the same: each cut costs one
//! request at most, and the rows of slices say exactly how many. [`next_cuts`] stops before that is more than allowed.

use std::time::Duration;

use crate::model::Instant;

/// Rows that a page adds: it repeats the last one of the page before.
pub(super) const PAGE: u64 = 99;

/// A slice is cut again where it has so many times as many rows as each walker would have in the best case.
const UNEVEN: f64 = 1.3;

/// Slices for each walker at most, however uneven they are.
const MAX_PER_WALKER: usize = 4;

/// The smallest gap between rows, in seconds, that is distinguished from rows of one moment.
const MIN_GAP: f64 = 20e-6;

/// A slice, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct KnownSlice {
    /// Where what is left of it begins.
    pub(super) from: Instant,
    /// The last instant that has rows.
    pub(super) last: Instant,
    /// How many rows are left.
    pub(super) rows: u64,
    /// Seconds between rows where it begins.
    pub(super) gap_at_start: Option<f64>,
    /// Seconds between rows where it ends.
    pub(super) gap_at_end: Option<f64>,
}

/// How many requests these slices cost beyond those of one list of all their rows.
fn cost(slices: &[KnownSlice]) -> u64 {
    let pages = |rows: u64| rows.div_ceil(PAGE).max(1);
    let sum: u64 = slices.iter().map(|slice| pages(slice.rows)).sum();
    sum.saturating_sub(pages(slices.iter().map(|slice| slice.rows).sum()))
}

/// Which slice to cut next, and the whole seconds to cut it at; `None` where every walker has about as much to do, where
/// nothing can be cut, or where it would cost more than `allowed` requests. Walkers for whom not even a cut each is allowed
/// are left out: the others share the rows evenly.
pub(super) fn next_cuts(slices: &[KnownSlice], walkers: usize, allowed: u64) -> Option<(usize, Vec<Instant>)> {
    let walkers = walkers.min(usize::try_from(allowed).unwrap_or(usize::MAX).saturating_add(1));
    let left = allowed.saturating_sub(cost(slices));
    let rows: u64 = slices.iter().map(|slice| slice.rows).sum();
    if left == 0 || walkers < 2 || slices.len() >= MAX_PER_WALKER * walkers {
        return None;
    }
    let fair = rows as f64 / walkers as f64;
    let mut largest_first: Vec<usize> = (0..slices.len()).collect();
    largest_first.sort_by_key(|n| std::cmp::Reverse(slices[*n].rows));
    for n in largest_first {
        let slice = &slices[n];
        let share = slice.rows as f64 / fair;
        // A slice of two pages has nothing to share.
        if share <= UNEVEN || slice.rows <= 2 * PAGE && fair >= PAGE as f64 {
            return None;
        }
        let parts = (share.round() as u64).clamp(2, left + 1);
        let cuts = slice.cuts(parts);
        if !cuts.is_empty() {
            return Some((n, cuts));
        }
    }
    None
}

impl KnownSlice {
    /// The whole seconds that cut it into so many parts of about as many rows each; fewer where they coincide.
    fn cuts(&self, parts: u64) -> Vec<Instant> {
        let second = Duration::from_secs(1);
        // Edges on whole seconds: the service may compare at another precision than it shows.
        let (first, last) = (self.from.whole_second().plus(second), self.last.whole_second());
        if first > last {
            return Vec::new();
        }
        let (rows, seconds) = (self.rows.max(1) as f64, self.last.since(self.from).as_secs_f64());
        let density = |gap: Option<f64>| gap.map_or(0.0, |gap| 1.0 / gap.max(MIN_GAP));
        let (at_start, at_end) = (density(self.gap_at_start), density(self.gap_at_end));
        let is_denser_at_end = at_end > at_start;
        let cut = |part: u64| {
            let share = part as f64 / parts as f64;
            let offset = match is_denser_at_end {
                true => seconds - distance((1.0 - share) * rows, rows, seconds, at_end),
                false => distance(share * rows, rows, seconds, at_start),
            };
            let at = self.from.plus(Duration::from_secs_f64(offset.clamp(0.0, seconds)));
            let whole = at.whole_second();
            // Away from the denser end, so that a cut does not miss the rows of one moment.
            let whole = if is_denser_at_end && whole < at { whole.plus(second) } else { whole };
            whole.clamp(first, last)
        };
        let mut cuts: Vec<Instant> = (1..parts).map(cut).collect();
        cuts.dedup();
        cuts
    }
}

/// Seconds from the denser end to its `nth` row, of `rows` in so many seconds; `density` is rows a second at that end.
fn distance(nth: f64, rows: f64, seconds: f64, density: f64) -> f64 {
    if density * seconds <= rows * 1.01 {
        return seconds * nth / rows;
    }
    // `density * (1 - exp(-decay * seconds)) / decay` rows in all: it falls as the decay grows.
    let (mut low, mut high) = (0.0, density / rows);
    for _ in 0..100 {
        let decay: f64 = (low + high) / 2.0;
        let in_all = density * -(-decay * seconds).exp_m1() / decay;
        if in_all > rows { low = decay } else { high = decay }
    }
    let decay: f64 = (low + high) / 2.0;
    -(-decay * nth / density).ln_1p() / decay
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: f64) -> Instant {
        Instant::from_secs(1_700_000_000).unwrap().plus(Duration::from_secs_f64(second))
    }

    /// Creation times, sorted.
    type Times = Vec<f64>;

    fn even(rows: usize, seconds: f64) -> Times {
        (0..rows).map(|n| seconds * n as f64 / rows as f64).collect()
    }

    fn sorted(mut times: Times) -> Times {
        times.sort_by(f64::total_cmp);
        times
    }

    fn gap(times: &[f64]) -> Option<f64> {
        let half = &times[times.len() / 2..];
        Some((half.last()? - half.first()?) / half.len() as f64)
    }

    /// Cuts a list as a first copy does. Gives the slices' rows and what cutting cost.
    fn cut(times: &Times, walkers: usize, allowed: u64) -> (Vec<u64>, u64) {
        let last = *times.last().unwrap();
        let mut edges = vec![0.0];
        let known = |edges: &[f64]| -> Vec<KnownSlice> {
            let rows = |n: usize| {
                let to = edges.get(n + 1).copied().unwrap_or(f64::INFINITY);
                let rows: Times = times.iter().copied().filter(|t| *t >= edges[n] && *t < to).collect();
                (rows.len() as u64, gap(&rows[..rows.len().min(100)]))
            };
            let newest = &times[times.len().saturating_sub(100)..];
            let gaps: Vec<_> = (0..edges.len()).map(|n| rows(n).1).collect();
            (0..edges.len())
                .map(|n| KnownSlice {
                    from: at(edges[n]),
                    last: at(edges.get(n + 1).map_or(last, |to| to - 1e-6)),
                    rows: rows(n).0,
                    gap_at_start: gaps[n],
                    gap_at_end: if n + 1 == edges.len() { gap(newest) } else { None },
                })
                .collect()
        };
        while let Some((n, cuts)) = next_cuts(&known(&edges), walkers, allowed) {
            assert!(!cuts.is_empty() && cuts.is_sorted());
            let cuts: Vec<f64> = cuts.iter().map(|cut| cut.since(at(0.0)).as_secs_f64()).collect();
            assert!(cuts.iter().all(|cut| *cut > edges[n]), "{cuts:?} {edges:?}");
            edges.splice(n + 1..n + 1, cuts);
        }
        let known = known(&edges);
        (known.iter().map(|slice| slice.rows).collect(), cost(&known))
    }

    #[test]
    fn slices_are_balanced_however_the_rows_are_dated() {
        let year = 365.0 * 86_400.0;
        let import = |begin: f64, seconds: f64| -> Times {
            sorted([even(10_000, year), even(10_000, seconds).iter().map(|t| begin + t).collect()].concat())
        };
        let growth: Times =
            (0..20_000).map(|n| year * (1.0 + f64::from(n) / 20_000.0 * 30.0).ln() / 31f64.ln()).collect();
        for (name, times, most) in [
            ("even", even(20_000, 2.0 * year), 0.27),
            ("a growing workspace", growth, 0.35),
            ("imported at the beginning within an hour", import(0.0, 3600.0), 0.5),
            ("imported at the end within an hour", import(year, 3600.0), 0.5),
            ("half at the beginning in one second", import(0.0, 0.5), 0.52),
            ("half at the end in one second", import(year, 0.5), 0.52),
            ("half in the middle in one second", import(year / 2.0, 0.5), 0.78),
            ("all within one second", even(20_000, 0.9), 1.0),
            ("all within ten minutes", even(20_000, 600.0), 0.27),
        ] {
            let (rows, cost) = cut(&times, 4, 3);
            assert_eq!(rows.iter().sum::<u64>(), 20_000, "{name}");
            let largest = rows.iter().copied().max().unwrap() as f64 / 20_000.0;
            assert!(largest <= most, "{name}: {largest} {rows:?}");
            assert!(cost <= 3, "{name}: {cost} {rows:?}");
        }
    }

    #[test]
    fn what_a_cut_costs_is_bounded_by_what_is_allowed() {
        for allowed in 0..8 {
            for walkers in 1..6 {
                for times in
                    [even(30_000, 1e7), even(30_000, 5.0), sorted([even(20_000, 1.0), vec![1e9; 300]].concat())]
                {
                    let (rows, cost) = cut(&times, walkers, allowed);
                    assert!(cost <= allowed, "{rows:?}");
                    assert!(walkers > 1 && allowed > 0 || rows.len() == 1);
                }
            }
        }
    }

    #[test]
    fn small_slices_and_ties_are_left_alone() {
        let slice =
            KnownSlice { from: at(0.0), last: at(0.5), rows: 50_000, gap_at_start: Some(0.0), gap_at_end: None };
        assert_eq!(next_cuts(&[slice], 4, 10), None, "nothing between two instants of one second");
        let slice = KnownSlice { last: at(1e6), ..slice };
        assert_eq!(next_cuts(&[slice], 4, 10), Some((0, vec![at(1.0)])), "the tie is cut off");
        assert_eq!(next_cuts(&[slice], 4, 0), None);
    }
}
