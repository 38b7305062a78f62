//! The address of the service, validated once: a key must never be sent unencrypted or to the wrong path.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use reqwest::Url;

/// The base URL of the service, without a trailing slash. It ends in `/v1` (reference, *What the service does*, rule 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    text: Box<str>,
    loopback: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotABaseUrl {
    #[error("it is not an absolute URL such as https://api.example.com/v1")]
    Malformed,
    #[error("write its host name in ASCII, as `xn--…`")]
    NotAscii,
    #[error("it must begin with https://")]
    Scheme,
    #[error("plain http is allowed on loopback only, because the key would be sent unencrypted: use https://")]
    InTheClear,
    #[error("it must end in the version segment /v1")]
    Version,
    #[error("it must not contain a user name or a password")]
    Credentials,
    #[error("it must not contain a query or a fragment")]
    Query,
}

impl BaseUrl {
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the service is on this machine, in which case no proxy is used.
    pub fn is_loopback(&self) -> bool {
        self.loopback
    }

    /// Whether the connection is encrypted; otherwise the service is on this machine.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.text.starts_with("https:")
    }

    /// The address of a path and a query that are already percent-encoded; `None` if it would be parsed as a different
    /// address (`..` as a segment).
    pub(crate) fn address(&self, path_and_query: &str) -> Option<Url> {
        let text = format!("{}{path_and_query}", self.text);
        Url::parse(&text).ok().filter(|url| url.as_str() == text)
    }
}

impl FromStr for BaseUrl {
    type Err = NotABaseUrl;

    fn from_str(text: &str) -> Result<BaseUrl, NotABaseUrl> {
        let text = text.trim();
        let malformed = if text.is_ascii() { NotABaseUrl::Malformed } else { NotABaseUrl::NotAscii };
        let url = Url::parse(text).map_err(|_| malformed)?;
        let loopback = is_loopback(&url).ok_or(NotABaseUrl::Malformed)?;
        match url.scheme() {
            "https" => {}
            "http" if loopback => {}
            "http" => return Err(NotABaseUrl::InTheClear),
            _ => return Err(NotABaseUrl::Scheme),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(NotABaseUrl::Credentials);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(NotABaseUrl::Query);
        }
        let text = url.as_str().trim_end_matches('/');
        if !text.ends_with("/v1") || !url.path().trim_end_matches('/').ends_with("/v1") {
            return Err(NotABaseUrl::Version);
        }
        Ok(BaseUrl { text: text.into(), loopback })
    }
}

/// Whether an address is on this machine; `None` if it has no host.
pub(crate) fn is_loopback(url: &Url) -> Option<bool> {
    let host = url.host_str()?;
    let address: Result<IpAddr, _> = host.trim_matches(['[', ']']).parse();
    Some(address.map_or(host == "localhost", |address| address.is_loopback()))
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_url_is_safe_for_a_key_and_ends_in_the_version() {
        for (given, read) in [
            ("https://api.example.com/v1", Ok("https://api.example.com/v1")),
            (" https://API.example.com/crm/v1/ ", Ok("https://api.example.com/crm/v1")),
            ("http://127.0.0.1:8080/v1", Ok("http://127.0.0.1:8080/v1")),
            ("http://127.9.8.7/v1", Ok("http://127.9.8.7/v1")),
            ("http://[::1]:1/v1", Ok("http://[::1]:1/v1")),
            ("http://localhost:1/v1//", Ok("http://localhost:1/v1")),
            ("http://api.example.com/v1", Err(NotABaseUrl::InTheClear)),
            ("http://localhost.example.com/v1", Err(NotABaseUrl::InTheClear)),
            ("http://0.0.0.0/v1", Err(NotABaseUrl::InTheClear)),
            ("ftp://api.example.com/v1", Err(NotABaseUrl::Scheme)),
            ("https://api.example.com", Err(NotABaseUrl::Version)),
            ("https://v1", Err(NotABaseUrl::Version)),
            ("https://api.example.com/v10", Err(NotABaseUrl::Version)),
            ("https://api.example.com/v1/contacts", Err(NotABaseUrl::Version)),
            ("https://u:p@api.example.com/v1", Err(NotABaseUrl::Credentials)),
            ("https://api.example.com/v1?x=1", Err(NotABaseUrl::Query)),
            ("https://api.example.com/v1#x", Err(NotABaseUrl::Query)),
            ("api.example.com/v1", Err(NotABaseUrl::Malformed)),
            ("", Err(NotABaseUrl::Malformed)),
            ("https://xn--bcher-kva.example/v1", Ok("https://xn--bcher-kva.example/v1")),
            ("https://bücher.example/v1", Err(NotABaseUrl::NotAscii)),
            ("data:/v1", Err(NotABaseUrl::Malformed)),
        ] {
            let base: Result<BaseUrl, _> = given.parse();
            assert_eq!(base.as_ref().map(BaseUrl::as_str), read.as_ref().copied(), "{given}");
        }
    }

    #[test]
    fn address_is_exactly_what_was_written() {
        let base: BaseUrl = "https://api.example.com/v1".parse().unwrap();
        assert!(base.address("/contacts/a%2Fb").is_some());
        for walks in ["/contacts/..", "/contacts/%2E%2e", "/contacts/./x", "/contacts/a b"] {
            assert!(base.address(walks).is_none(), "{walks}");
        }
    }
}
