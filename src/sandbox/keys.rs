//! API keys and their scopes (reference, *Authentication*).

use std::collections::{BTreeMap, BTreeSet};

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

/// The scopes of each key by its secret, sorted. A key that was revoked is unknown.
pub(crate) type TenantKeys = BTreeMap<String, BTreeSet<String>>;

pub(crate) fn scopes(keys: &TenantKeys, authorization: Option<&str>) -> Result<BTreeSet<String>, Answer> {
    let bearer = authorization.and_then(|header| header.split_once(' '));
    let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let scopes = bearer.and_then(|(_, secret)| keys.get(secret.trim()).cloned());
    scopes.ok_or_else(|| Answer::refused(401, "The API key is missing or invalid"))
}

pub(crate) fn require(scopes: &BTreeSet<String>, scope: &str) -> Result<(), Answer> {
    if scopes.contains(scope) {
        return Ok(());
    }
    let details = json!({"details": format!("missing scope: {scope}")});
    Err(Answer::error(403, &format!("The API key lacks the scope {scope}"), &details))
}
