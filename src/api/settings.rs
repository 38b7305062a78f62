//! How the client behaves: the address, and the bounds of one request.

use std::time::Duration;

use super::base_url::BaseUrl;

/// How the client behaves.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The address of the service.
    pub base_url: BaseUrl,
    /// How long one answer is waited for, its body included.
    pub timeout: Duration,
    /// The largest body that is read, in bytes after decompression.
    pub max_body: usize,
    /// How often a request is sent at most, refusals with 429 not counted.
    pub tries: u32,
    /// How long a failing request is tried at most, its waits included.
    pub patience: Duration,
    /// How many requests are under way at once at most.
    pub concurrency: u32,
    /// The `User-Agent` header.
    pub user_agent: String,
}

impl ClientSettings {
    /// The defaults, for an address.
    pub fn new(base_url: BaseUrl) -> ClientSettings {
        ClientSettings {
            base_url,
            timeout: Duration::from_secs(30),
            max_body: 16 * 1024 * 1024,
            tries: 5,
            patience: Duration::from_secs(120),
            concurrency: 4,
            user_agent: concat!("crm-mirror/", env!("CARGO_PKG_VERSION")).to_string(),
        }
    }
}
