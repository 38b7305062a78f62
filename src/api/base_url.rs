//! The address of the service, validated once: a key must never be sent unencrypted or to the wrong path.

use std::net::IpAddr;
use std::str::FromStr;

use reqwest::Url;

/// The base URL of the service, without a trailing slash. It ends in `/v1` (reference, *What the service does*, rule 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl(Url);

impl BaseUrl {
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Whether the service is on this machine, in which case no proxy is used.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.0) == Some(true)
    }

    /// The address of an encoded path and query; `None` if it would be parsed as a different one (`..` as a segment).
    pub(crate) fn address(&self, path_and_query: &str) -> Option<Url> {
        let text = format!("{}{path_and_query}", self.0);
        Url::parse(&text).ok().filter(|url| url.as_str() == text)
    }
}

impl FromStr for BaseUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<BaseUrl, &'static str> {
        const MALFORMED: &str = "it is not an absolute URL such as https://api.example.com/v1";
        const NOT_ASCII: &str = "write its host name in ASCII, as `xn--…`";
        const IN_THE_CLEAR: &str =
            "plain http is allowed on loopback only, because the key would be sent unencrypted: use https://";
        let text = text.trim().trim_end_matches('/');
        let url = Url::parse(text).map_err(|_| if text.is_ascii() { MALFORMED } else { NOT_ASCII })?;
        let loopback = is_loopback(&url).ok_or(MALFORMED)?;
        match url.scheme() {
            "http" if !loopback => Err(IN_THE_CLEAR),
            "http" | "https" => Ok(()),
            _ => Err("it must begin with https://"),
        }?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it must not contain a user name or a password");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("it must not contain a query or a fragment");
        }
        if !url.path().ends_with("/v1") {
            return Err("it must end in the version segment /v1");
        }
        Ok(BaseUrl(url))
    }
}

/// Whether an address is on this machine; `None` if it has no host.
pub(crate) fn is_loopback(url: &Url) -> Option<bool> {
    let host = url.host_str()?;
    let address: Result<IpAddr, _> = host.trim_matches(['[', ']']).parse();
    Some(address.map_or(host == "localhost", |address| address.is_loopback()))
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
            ("http://api.example.com/v1", Err("plain http is allowed")),
            ("http://localhost.example.com/v1", Err("plain http is allowed")),
            ("http://0.0.0.0/v1", Err("plain http is allowed")),
            ("ftp://api.example.com/v1", Err("must begin with https://")),
            ("https://api.example.com", Err("must end in the version")),
            ("https://v1", Err("must end in the version")),
            ("https://api.example.com/v10", Err("must end in the version")),
            ("https://api.example.com/v1/contacts", Err("must end in the version")),
            ("https://u:p@api.example.com/v1", Err("a user name or a password")),
            ("https://api.example.com/v1?x=1", Err("a query or a fragment")),
            ("https://api.example.com/v1#x", Err("a query or a fragment")),
            ("api.example.com/v1", Err("not an absolute URL")),
            ("", Err("not an absolute URL")),
            ("https://xn--bcher-kva.example/v1", Ok("https://xn--bcher-kva.example/v1")),
            ("https://bücher.example/v1", Err("host name in ASCII")),
            ("data:/v1", Err("not an absolute URL")),
        ] {
            match (given.parse::<BaseUrl>(), read) {
                (Ok(base), read) => assert_eq!(Ok(base.as_str()), read, "{given}"),
                (Err(error), Err(why)) => assert!(error.to_string().contains(why), "{given}: {error}"),
                (Err(error), Ok(_)) => panic!("{given}: {error}"),
            }
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
