//! A parsed query string: every parameter occurs once, as a string (*List query conventions*, rule 1).

use percent_encoding::percent_decode_str;

use super::error_answer::{Complaints, ErrorAnswer};

/// The decoded parameters, each name once, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// Splits a query string without validation, for the log.
    pub(crate) fn pairs(query: &str) -> Vec<(String, String)> {
        query
            .split('&')
            .filter(|part| !part.is_empty())
            .map(|part| {
                let (name, value) = part.split_once('=').unwrap_or((part, ""));
                (decoded(name), decoded(value))
            })
            .collect()
    }

    /// Takes pairs; a repeated name is an error.
    pub(crate) fn new(pairs: &[(String, String)]) -> Result<Params, ErrorAnswer> {
        let mut complaints = Complaints::default();
        for (n, (name, _)) in pairs.iter().enumerate() {
            if pairs[..n].iter().any(|(other, _)| other == name) {
                complaints.add(name, "is given more than once");
            }
        }
        complaints.or(Params(pairs.to_vec()))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

fn decoded(part: &str) -> String {
    let spaced = part.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}
