//! Host names as the domain filter compares them (reference, *GET /companies*, domain filter rule).

/// The host name in lower case and without a leading `www.`.
pub(crate) fn normalized(host: &str) -> String {
    let lower = host.trim().trim_end_matches('.').to_lowercase();
    lower.strip_prefix("www.").unwrap_or(&lower).to_string()
}

/// The host name of a web site's address.
pub(crate) fn of_website(address: &str) -> Option<String> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = normalized(host.split(':').next().unwrap_or_default());
    (!host.is_empty()).then_some(host)
}

/// A filter's value: a host name and nothing else.
pub(crate) fn filter_value(value: &str) -> Result<String, String> {
    let plain = !value.contains(|c: char| c.is_whitespace() || "/\\:@?#,".contains(c));
    let host = normalized(value);
    if !plain || host.is_empty() || host.len() > 253 || host.split('.').any(str::is_empty) {
        return Err("must be a host name, without path, port, credentials or query".to_string());
    }
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_host_names_are_compared() {
        for (given, host) in [
            ("example.com", Some("example.com")),
            ("WWW.Example.com", Some("example.com")),
            ("sales.example.com", Some("sales.example.com")),
            ("example.com/about", None),
            ("https://example.com", None),
            ("example.com:443", None),
            ("me@example.com", None),
            ("example.com?x=1", None),
            ("", None),
            ("a..b", None),
        ] {
            assert_eq!(filter_value(given).ok().as_deref(), host, "{given}");
        }
        assert_eq!(of_website("https://www.Acme.io:8080/x?y").as_deref(), Some("acme.io"));
    }
}
