//! Page tokens: opaque, and bound to the tenant, the conditions and the key's scopes (*List query conventions*, rule 9).
//!
//! A keyset token contains the last row's sort values, so it keeps its position when rows move. An offset token counts
//! rows, so rows are skipped or repeated when others move. The reference does not specify the kind.
//!
//! Tokens begin with `+`, `/` and `=`, so a client that does not percent-encode them fails.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::exchange::ErrorAnswer;
use super::fault::Fault;
use super::table::Cell;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum PagePosition {
    #[serde(rename = "s")]
    Start,
    /// Behind the row with these sort values and this id.
    #[serde(rename = "k")]
    After(Vec<Option<Cell>>, String),
    /// That many rows from the first.
    #[serde(rename = "o")]
    Offset(usize),
}

const MARK: &str = "+/=";

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
    pub(crate) fn new(tenant: &str, path: &str, scopes: &[String], query: &[(String, String)]) -> Binding {
        let mut conditions: Vec<&(String, String)> = query.iter().filter(|(name, _)| name != "cursor").collect();
        conditions.sort_unstable();
        let mut hash = Sha256::new();
        for part in [tenant, path]
            .into_iter()
            .chain(scopes.iter().map(String::as_str))
            .chain(conditions.into_iter().flat_map(|(name, value)| [name.as_str(), value]))
        {
            hash.update(part.len().to_le_bytes());
            hash.update(part.as_bytes());
        }
        Binding(hash.finalize()[..9].iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub(crate) fn token(&self, place: &PagePosition, nonce: u64) -> String {
        let token = Token { b: self.0.clone(), p: place.clone(), n: nonce };
        let json = serde_json::to_vec(&token).unwrap_or_default();
        let digits = json.iter().map(|byte| format!("{byte:02x}"));
        std::iter::once(MARK.to_string()).chain(digits).collect()
    }

    /// The position of a token. With [`Fault::PageWindow`], the service refuses cursors behind its window of rows.
    pub(crate) fn read(&self, token: &str, fault: Option<&Fault>) -> Result<(PagePosition, u64), ErrorAnswer> {
        let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> =
            token.strip_prefix(MARK).and_then(|hex| hex.as_bytes().chunks(2).map(byte).collect());
        let read = bytes.and_then(|bytes| serde_json::from_slice::<Token>(&bytes).ok());
        let wrong = match read {
            Some(token) if token.b == self.0 => match (&token.p, fault) {
                (PagePosition::Offset(rows), Some(Fault::PageWindow(most))) if rows >= most => {
                    "is behind the last row that can be listed"
                }
                _ => return Ok((token.p, token.n)),
            },
            Some(_) => "belongs to other conditions or to another key",
            None => "is not a cursor of this list",
        };
        Err(ErrorAnswer::invalid("cursor", wrong))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back_only_with_their_conditions() {
        let params = |limit: &str| [("limit".to_string(), limit.to_string())];
        let scopes = ["contacts:read".to_string()];
        let ten = Binding::new("t", "/contacts", &scopes, &params("10"));
        for id in ["a", "ab", "abc", "Zoë 東京"] {
            let place = PagePosition::After(vec![None, Some(Cell::Text("x".into()))], id.into());
            assert_eq!(ten.read(&ten.token(&place, 7), None).unwrap(), (place.clone(), 7));
            for other in [
                Binding::new("t", "/contacts", &scopes, &params("11")),
                Binding::new("t", "/companies", &scopes, &params("10")),
                Binding::new("u", "/contacts", &scopes, &params("10")),
                Binding::new("t", "/contacts", &[], &params("10")),
            ] {
                assert_eq!(other.read(&ten.token(&place, 7), None).unwrap_err().status, 400);
            }
        }
        for garbage in ["", "x", "====", "AAAA", "é"] {
            assert!(ten.read(garbage, None).is_err(), "{garbage}");
        }
    }
}
