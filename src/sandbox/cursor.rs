//! Page tokens: opaque, and bound to the tenant, the conditions and the key's scopes (*List query conventions*, rule 9).
//!
//! A keyset token contains the last row's sort values, so it keeps its position when rows move. An offset token counts
//! rows, so rows are skipped or repeated when others move. The reference does not specify the kind.
//!
//! Tokens are standard base64 with `+`, `/` and `=`, so a client that does not percent-encode them fails.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::cell::SortKey;
use super::error_answer::{Complaints, ErrorAnswer};
use super::fault::Fault;
use super::params::Params;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum PagePosition {
    #[serde(rename = "s")]
    Start,
    /// Behind the row with these sort values and this id.
    #[serde(rename = "k")]
    After(Vec<SortKey>, String),
    /// That many rows from the first.
    #[serde(rename = "o")]
    Offset(usize),
}

/// The conditions that a token is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding(String);

#[derive(Serialize, Deserialize)]
struct Token {
    b: String,
    p: PagePosition,
    /// Distinguishes tokens of the same position: the next token of an empty page differs from the token of the
    /// request.
    n: u64,
}

impl Binding {
    /// Every parameter except the cursor is a condition, including the page size, as "the same conditions" implies.
    pub(crate) fn new(tenant: &str, path: &str, scopes: &[String], params: &Params) -> Binding {
        let mut conditions: Vec<(&str, &str)> = params.iter().filter(|(name, _)| *name != "cursor").collect();
        conditions.sort_unstable();
        let mut hash = Sha256::new();
        for part in [tenant, path]
            .into_iter()
            .chain(scopes.iter().map(String::as_str))
            .chain(conditions.into_iter().flat_map(|(name, value)| [name, value]))
        {
            hash.update(part.len().to_le_bytes());
            hash.update(part.as_bytes());
        }
        Binding(hash.finalize()[..9].iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub(crate) fn token(&self, place: &PagePosition, nonce: u64) -> String {
        let token = Token { b: self.0.clone(), p: place.clone(), n: nonce };
        base64(serde_json::to_string(&token).unwrap_or_default().as_bytes())
    }

    pub(crate) fn read(&self, token: &str) -> Result<(PagePosition, u64), ErrorAnswer> {
        let mut complaints = Complaints::default();
        let read = unbase64(token).and_then(|bytes| serde_json::from_slice::<Token>(&bytes).ok());
        match read {
            Some(token) if token.b == self.0 => return Ok((token.p, token.n)),
            Some(_) => complaints.add("cursor", "belongs to other conditions or to another key"),
            None => complaints.add("cursor", "is not a cursor of this list"),
        }
        complaints.or((PagePosition::Start, 0))
    }
}

impl Binding {
    /// Like [`Binding::read`], if the service has a window of pages behind which it refuses cursors.
    pub(crate) fn read_within(&self, token: &str, fault: Option<&Fault>) -> Result<(PagePosition, u64), ErrorAnswer> {
        let found = self.read(token)?;
        let mut complaints = Complaints::default();
        if let (PagePosition::Offset(rows), Some(Fault::PageWindow(most))) = (&found.0, fault)
            && rows >= most
        {
            complaints.add("cursor", "is behind the last row that can be listed");
        }
        complaints.or(found)
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0u32, |g, b| g << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for n in 0..4 {
            let sextet = (group >> (18 - 6 * n)) & 63;
            text.push(if n <= chunk.len() { ALPHABET[sextet as usize] as char } else { '=' });
        }
    }
    text
}

fn unbase64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in text.as_bytes().chunks(4) {
        let padding = chunk.iter().rev().take_while(|b| **b == b'=').count();
        if chunk.len() != 4 || padding > 2 {
            return None;
        }
        let mut group = 0u32;
        for byte in &chunk[..4 - padding] {
            group = group << 6 | ALPHABET.iter().position(|b| b == byte)? as u32;
        }
        group <<= 6 * padding;
        bytes.extend_from_slice(&group.to_be_bytes()[1..4 - padding]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back_only_with_their_conditions() {
        let params = |limit: &str| Params::new(&[("limit".into(), limit.into())]).unwrap();
        let scopes = ["contacts:read".to_string()];
        let ten = Binding::new("t", "/contacts", &scopes, &params("10"));
        for id in ["a", "ab", "abc", "Zoë 東京"] {
            let place = PagePosition::After(vec![SortKey::Null, SortKey::Text("x".into())], id.into());
            assert_eq!(ten.read(&ten.token(&place, 7)).unwrap(), (place.clone(), 7));
            for other in [
                Binding::new("t", "/contacts", &scopes, &params("11")),
                Binding::new("t", "/companies", &scopes, &params("10")),
                Binding::new("u", "/contacts", &scopes, &params("10")),
                Binding::new("t", "/contacts", &[], &params("10")),
            ] {
                assert_eq!(other.read(&ten.token(&place, 7)).unwrap_err().status, 400);
            }
        }
        for garbage in ["", "x", "====", "AAAA", "é"] {
            assert!(ten.read(garbage).is_err(), "{garbage}");
        }
    }
}
