//! The API key, wrapped so that it cannot be shown by accident.

use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

/// Makes the fingerprint differ from a plain hash of the key, which could be searched for in tables of leaked keys.
const FINGERPRINT_DOMAIN: &[u8] = b"crm-mirror api key fingerprint 1\0";

/// A tenant API key (reference, *Authentication*). Neither `Debug` nor any error shows it.
#[derive(Clone, Debug)]
pub struct ApiKey(SecretString);

impl ApiKey {
    /// Accepts visible ASCII characters and nothing else. The error says what the text is or has, and never shows it.
    pub fn new(text: &str) -> Result<ApiKey, &'static str> {
        if text.is_empty() {
            Err("is empty")
        } else if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            Err("contains white space or a control character")
        } else if !text.is_ascii() {
            Err("contains a character that is not ASCII")
        } else {
            Ok(ApiKey(SecretString::from(text)))
        }
    }

    /// What the mirror stores of the key: enough to notice that it changed, too little to use it. 16 hex digits.
    pub fn fingerprint(&self) -> String {
        let digest = Sha256::new().chain_update(FINGERPRINT_DOMAIN).chain_update(self.0.expose_secret()).finalize();
        digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The `Authorization` header, marked so that no layer below prints it.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.0.expose_secret())).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// The text without the key, in case a service echoes it.
    pub(crate) fn redact(&self, text: &str) -> String {
        text.replace(self.0.expose_secret(), "[key]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_visible_ascii_is_a_key_and_no_error_shows_it() {
        for (text, why) in [
            ("", "is empty"),
            ("secret key", "white space"),
            ("secret\n", "white space"),
            ("secret\u{7f}", "white space"),
            ("secret\u{a0}x", "white space"),
            ("sécret", "not ASCII"),
        ] {
            let error = ApiKey::new(text).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
            assert!(!error.to_string().contains("cret"));
        }
    }

    #[test]
    fn key_is_not_shown() {
        let key = ApiKey::new("svc_v1_abcdef").unwrap();
        assert!(!format!("{key:?}").contains("abcdef"));
        assert_eq!(key.fingerprint().len(), 16);
        assert_eq!(key.fingerprint(), ApiKey::new("svc_v1_abcdef").unwrap().fingerprint());
        assert_ne!(key.fingerprint(), ApiKey::new("svc_v1_abcdeg").unwrap().fingerprint());
        assert!(!format!("{:?}", key.header().unwrap()).contains("abcdef"));
        assert_eq!(key.redact("bad key svc_v1_abcdef!"), "bad key [key]!");
    }
}
