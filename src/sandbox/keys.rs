//! API keys and their scopes (reference, *Authentication*).

use sha2::{Digest, Sha256};

use super::exchange::ErrorAnswer;

pub const SCOPES: [&str; 6] =
    ["contacts:read", "contacts:write", "companies:read", "companies:write", "custom-fields:read", "team-members:read"];

pub fn key_of_seed(seed: u64) -> String {
    let hash = Sha256::digest(format!("crm-mirror sandbox key {seed}"));
    let digits: String = hash[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("crm_test_v1_{digits}")
}

/// The scopes are sorted.
#[derive(Clone, Debug)]
pub(crate) struct TenantKey {
    secret: String,
    pub(crate) scopes: Vec<String>,
    revoked: bool,
}

impl TenantKey {
    pub(crate) fn require(&self, scope: &str) -> Result<(), ErrorAnswer> {
        if self.scopes.iter().any(|s| s == scope) {
            return Ok(());
        }
        Err(ErrorAnswer::new(403, format!("The API key lacks the scope {scope}"))
            .with_details(&format!("missing scope: {scope}")))
    }
}

/// The log identifies a key by its index.
#[derive(Clone, Debug, Default)]
pub(crate) struct TenantKeys(Vec<TenantKey>);

impl TenantKeys {
    pub(crate) fn add(&mut self, secret: Option<&str>, scopes: &[&str]) -> String {
        let secret = match secret {
            Some(secret) => secret.to_string(),
            None => format!("crm_test_v1_{:04}{:016x}", self.0.len(), fastrand::u64(..)),
        };
        let mut scopes: Vec<String> = scopes.iter().map(|s| s.to_string()).collect();
        scopes.sort();
        scopes.dedup();
        let key = TenantKey { secret: secret.clone(), scopes, revoked: false };
        // A known secret keeps its index in the log and gets the new scopes.
        match self.0.iter_mut().find(|k| k.secret == secret) {
            Some(known) => *known = key,
            None => self.0.push(key),
        }
        secret
    }

    pub(crate) fn revoke(&mut self, secret: &str) {
        for key in self.0.iter_mut().filter(|key| key.secret == secret) {
            key.revoked = true;
        }
    }

    pub(crate) fn find(&self, authorization: Option<&str>) -> Result<(usize, &TenantKey), ErrorAnswer> {
        let Some(header) = authorization else {
            return Err(ErrorAnswer::new(401, "The Authorization header is missing"));
        };
        let secret = match header.split_once(' ') {
            Some((scheme, secret)) if scheme.eq_ignore_ascii_case("bearer") => secret.trim(),
            _ => return Err(ErrorAnswer::new(401, "The Authorization header must be a bearer API key")),
        };
        self.0
            .iter()
            .enumerate()
            .find(|(_, key)| key.secret == secret && !key.revoked)
            .ok_or_else(|| ErrorAnswer::new(401, "The API key is invalid"))
    }
}
