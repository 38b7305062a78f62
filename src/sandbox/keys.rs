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

/// Each key's secret, and its scopes, sorted; a revoked key has none. The log identifies a key by its place.
#[derive(Clone, Debug, Default)]
pub(crate) struct TenantKeys(Vec<(String, Option<Vec<String>>)>);

impl TenantKeys {
    pub(crate) fn new_secret(&self) -> String {
        format!("crm_test_v1_{:04}{:016x}", self.0.len(), fastrand::u64(..))
    }

    /// Sets the scopes of a key, or revokes it; a known one keeps its place in the log.
    pub(crate) fn set(&mut self, secret: &str, scopes: Option<&[&str]>) {
        let mut scopes: Option<Vec<String>> = scopes.map(|scopes| scopes.iter().map(|s| s.to_string()).collect());
        scopes.iter_mut().for_each(|scopes| scopes.sort());
        match self.0.iter_mut().find(|(known, _)| known == secret) {
            Some((_, known)) => *known = scopes,
            None => self.0.push((secret.to_string(), scopes)),
        }
    }

    /// The place of a request's key, and its scopes.
    pub(crate) fn find(&self, authorization: Option<&str>) -> Result<(usize, Vec<String>), Answer> {
        let bearer = authorization.and_then(|header| header.split_once(' '));
        let secret =
            bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, secret)| secret.trim());
        let place = self.0.iter().position(|(known, _)| Some(known.as_str()) == secret);
        let found = place.and_then(|place| Some((place, self.0[place].1.clone()?)));
        found.ok_or_else(|| Answer::refused(401, "The API key is missing or invalid"))
    }
}

pub(crate) fn require(scopes: &[String], scope: &str) -> Result<(), Answer> {
    if scopes.iter().any(|known| known == scope) {
        return Ok(());
    }
    let details = json!({"details": format!("missing scope: {scope}")});
    Err(Answer::error(403, &format!("The API key lacks the scope {scope}"), &details))
}
