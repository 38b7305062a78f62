//! Errors as text: an error and all its causes in one line, for logs, stored runs and messages.

/// An error and its causes in one line, joined by colons. An error's own `Display` never includes its source, but that of
/// SQLite does: its code is left out.
pub fn error_chain<E: std::error::Error + ?Sized>(error: &E) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source.filter(|cause| !cause.is::<rusqlite::ffi::Error>()) {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
