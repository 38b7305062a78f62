//! The settings of the client: the address, the bounds of one request, and the random part of the delays between attempts,
//! whose source is an argument, so that a test repeats a run exactly.

use std::sync::Arc;
use std::time::Duration;

use super::base_url::BaseUrl;

#[derive(Clone)]
pub struct ClientSettings {
    pub base_url: BaseUrl,
    /// The timeout of one request, including its body.
    pub timeout: Duration,
    /// The largest body that is read, in bytes after decompression.
    pub max_body: usize,
    /// The maximum number of attempts per request, without 429s.
    pub tries: u32,
    /// The maximum time that a failing request is retried, delays included.
    pub patience: Duration,
    pub jitter: Jitter,
    pub concurrency: u32,
}

impl ClientSettings {
    pub fn new(base_url: BaseUrl) -> ClientSettings {
        ClientSettings {
            base_url,
            timeout: Duration::from_secs(30),
            max_body: 16 * 1024 * 1024,
            tries: 5,
            patience: Duration::from_secs(120),
            jitter: Arc::new(fastrand::f64),
            concurrency: 4,
        }
    }
}

/// Fractions, each from 0 to 1, that spread delays, so that mirrors that fail together do not retry together.
pub type Jitter = Arc<dyn Fn() -> f64 + Send + Sync>;

/// A delay between half of `delay` and one and a half times as much, in whole milliseconds.
pub(super) fn spread(delay: Duration, jitter: &Jitter) -> Duration {
    let fraction = jitter().clamp(0.0, 1.0);
    Duration::from_millis((delay.as_millis() as f64 * (0.5 + fraction)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_spread_by_half_around_the_given_one() {
        let spread = |fraction| {
            let jitter: Jitter = Arc::new(move || fraction);
            super::spread(Duration::from_secs(2), &jitter).as_millis()
        };
        assert_eq!([0.0, 0.25, 0.5, 1.0].map(spread), [1000, 1500, 2000, 3000]);
        // A source that breaks its promise causes no hot loop.
        assert_eq!([-7.0, 9.0, f64::INFINITY].map(spread), [1000, 3000, 3000]);
    }
}
