//! The files of the page, and the headers of every answer.

use axum::http::{HeaderName, HeaderValue, header};

/// The files of the page: path, type and content.
pub(super) const PARTS: [(&str, &str, &str); 7] = [
    ("/", HTML, include_str!("index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page.css")),
    ("/page.js", SCRIPT, include_str!("page.js")),
    ("/plots.js", SCRIPT, include_str!("plots.js")),
    ("/text.js", SCRIPT, include_str!("text.js")),
    ("/words.js", SCRIPT, include_str!("words.js")),
    ("/icon.svg", "image/svg+xml", include_str!("icon.svg")),
];
const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The headers of every answer, other than its type.
pub(super) const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
             trusted-types 'none'",
        ),
    ),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
];
