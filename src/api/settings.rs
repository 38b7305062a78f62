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
