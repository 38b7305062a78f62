//! How long runs took, as a histogram.

use std::time::Duration;

/// The number of runs up to each bound, and the sum.
#[derive(Clone, Debug, Default)]
pub(super) struct RunDurations {
    counts: [u64; RunDurations::BOUNDS.len()],
    pub runs: u64,
    pub seconds: f64,
}

impl RunDurations {
    /// The upper bounds of the buckets in seconds: from an idle run to the first copy of a large workspace.
    const BOUNDS: [f64; 10] = [0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0];

    pub(super) fn record(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        self.runs += 1;
        self.seconds += seconds;
        for (count, bound) in self.counts.iter_mut().zip(RunDurations::BOUNDS) {
            *count += u64::from(seconds <= bound);
        }
    }

    /// Each bound, and the number of runs that took at most so long.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        RunDurations::BOUNDS.into_iter().zip(self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_counts_in_each_bucket_that_holds_it() {
        let mut durations = RunDurations::default();
        for ms in [100, 2_000, 100_000_000] {
            durations.record(Duration::from_millis(ms));
        }
        let counts: Vec<u64> = durations.buckets().map(|(_, runs)| runs).collect();
        assert_eq!(counts, [1, 1, 1, 2, 2, 2, 2, 2, 2, 2]);
        assert_eq!((durations.runs, durations.seconds), (3, 100_002.1));
    }
}
