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
            jitter: Jitter::system(),
            concurrency: 4,
        }
    }
}

/// Spreads delays, so that mirrors that fail together do not retry together.
#[derive(Clone)]
pub struct Jitter(Arc<dyn Fn() -> f64 + Send + Sync>);

impl Jitter {
    pub fn system() -> Jitter {
        Jitter::from_source(fastrand::f64)
    }

    /// Jitter from given fractions, each from 0 to 1.
    pub fn from_source(source: impl Fn() -> f64 + Send + Sync + 'static) -> Jitter {
        Jitter(Arc::new(source))
    }

    /// A delay between half of `delay` and one and a half times as much, in whole milliseconds.
    pub(super) fn spread(&self, delay: Duration) -> Duration {
        let fraction = (self.0)().clamp(0.0, 1.0);
        Duration::from_millis((delay.as_millis() as f64 * (0.5 + fraction)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_spread_by_half_around_the_given_one() {
        let spread = |fraction| Jitter::from_source(move || fraction).spread(Duration::from_secs(2)).as_millis();
        assert_eq!([0.0, 0.25, 0.5, 1.0].map(spread), [1000, 1500, 2000, 3000]);
        // A source that breaks its promise causes no hot loop.
        assert_eq!([-7.0, 9.0, f64::INFINITY].map(spread), [1000, 3000, 3000]);
    }
}
