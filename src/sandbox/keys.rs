//! API keys and their scopes (reference, *Authentication*).

use serde_json::json;
use sha2::{Digest, Sha256};

use super::exchange::Answer;

pub const SCOPES: [&str; 6] =
    ["contacts:read", "contacts:write", "companies:read", "companies:write", "custom-fields:read", "team-members:read"];

pub fn key_of_seed(seed: u64) -> String {
    let hash = Sha256::digest(format!("crm-mirror sandbox key {seed}"));
    let digits: String = hash[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("crm_test_v1_{digits}")
}

#[derive(Clone, Debug)]
pub(crate) struct TenantKey {
    secret: String,
    /// Sorted; `None` of a revoked key.
    scopes: Option<Vec<String>>,
}

impl TenantKey {
    pub(crate) fn scopes(&self) -> &[String] {
        self.scopes.as_deref().unwrap_or_default()
    }

    pub(crate) fn require(&self, scope: &str) -> Result<(), Answer> {
        if self.scopes().iter().any(|known| known == scope) {
            return Ok(());
        }
        let details = json!({"details": format!("missing scope: {scope}")});
        Err(Answer::error(403, &format!("The API key lacks the scope {scope}"), &details))
    }
}

/// The log identifies a key by its index.
#[derive(Clone, Debug, Default)]
pub(crate) struct TenantKeys(Vec<TenantKey>);

impl TenantKeys {
    pub(crate) fn new_secret(&self) -> String {
        format!("crm_test_v1_{:04}{:016x}", self.0.len(), fastrand::u64(..))
    }

    /// Sets the scopes of a key, or revokes it; a known one keeps its index in the log.
    pub(crate) fn set(&mut self, secret: &str, scopes: Option<&[&str]>) {
        let mut scopes: Option<Vec<String>> = scopes.map(|scopes| scopes.iter().map(|s| s.to_string()).collect());
        scopes.iter_mut().for_each(|scopes| scopes.sort());
        let key = TenantKey { secret: secret.to_string(), scopes };
        match self.0.iter_mut().find(|known| known.secret == secret) {
            Some(known) => *known = key,
            None => self.0.push(key),
        }
    }

    pub(crate) fn find(&self, authorization: Option<&str>) -> Result<(usize, &TenantKey), Answer> {
        let bearer = authorization.and_then(|header| header.split_once(' '));
        let secret =
            bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, secret)| secret.trim());
        let is_given = |key: &TenantKey| Some(&*key.secret) == secret && key.scopes.is_some();
        let found = self.0.iter().enumerate().find(|(_, key)| is_given(key));
        found.ok_or_else(|| Answer::refused(401, "The API key is missing or invalid"))
    }
}
