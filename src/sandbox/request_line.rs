//! The method, path and parameters of a request, before validation.

use percent_encoding::percent_decode_str;

use crate::model::{Object, Resource};

use super::error_answer::{Complaints, ErrorAnswer};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    List(Resource),
    One(Object, String),
    /// A path that the service does not have.
    Unknown,
}

/// A request's method, path and parameters, for the log, for faults and for hooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLine {
    /// The method, upper case.
    pub method: String,
    /// The path below the base URL, unchanged.
    pub path: String,
    pub route: Route,
    /// The decoded parameters in their order, repeated ones included.
    pub query: Vec<(String, String)>,
}

impl RequestLine {
    pub(crate) fn new(method: &str, path: &str, query: &str) -> RequestLine {
        let below = path.strip_prefix("/v1").filter(|rest| rest.starts_with('/'));
        RequestLine {
            method: method.to_string(),
            path: below.unwrap_or(path).to_string(),
            route: below.map_or(Route::Unknown, route),
            query: query.split('&').filter(|part| !part.is_empty()).map(pair).collect(),
        }
    }

    /// Refuses a request with a repeated parameter (*List query conventions*, rule 1).
    pub(crate) fn check(&self) -> Result<(), ErrorAnswer> {
        let mut wrong = Complaints::default();
        for (n, (name, _)) in self.query.iter().enumerate() {
            if self.query[..n].iter().any(|(other, _)| other == name) {
                wrong.add(name, "is given more than once");
            }
        }
        wrong.or(())
    }

    /// A parameter's value, the first one if it is repeated.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Path and parameters in one line.
    pub fn line(&self) -> String {
        let mut line = self.path.clone();
        for (place, (name, value)) in self.query.iter().enumerate() {
            line.push(if place == 0 { '?' } else { '&' });
            line.push_str(name);
            line.push('=');
            line.push_str(value);
        }
        line
    }

    pub fn resource(&self) -> Option<Resource> {
        match &self.route {
            Route::List(resource) => Some(*resource),
            Route::One(object, _) => Some(object.resource()),
            Route::Unknown => None,
        }
    }

    /// Whether this is a request for a list of `resource`.
    pub fn lists(&self, resource: Resource) -> bool {
        self.method == "GET" && self.route == Route::List(resource)
    }
}

/// A parameter of a query string: its name and its value.
fn pair(part: &str) -> (String, String) {
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let (name, value) = part.split_once('=').unwrap_or((part, ""));
    (decoded(name), decoded(value))
}

fn route(path: &str) -> Route {
    for resource in Resource::ALL {
        let Some(rest) = path.strip_prefix(resource.path()) else {
            continue;
        };
        if rest.is_empty() {
            return Route::List(resource);
        }
        let id = rest.strip_prefix('/').filter(|id| !id.is_empty() && !id.contains('/'));
        if let (Some(object), Some(id)) = (resource.object(), id) {
            let id = percent_decode_str(id).decode_utf8_lossy();
            return Route::One(object, id.into_owned());
        }
    }
    Route::Unknown
}
