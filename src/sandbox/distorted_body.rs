//! Bodies that a fault changes record by record, in their source text.

use serde_json::Value;

/// `createdAt` and `updatedAt` in whole seconds.
pub(crate) fn in_whole_seconds(body: &str) -> String {
    ["\"createdAt\":\"", "\"updatedAt\":\""].iter().fold(body.to_string(), |body, name| {
        let mut parts = body.split(name);
        let mut out = parts.next().unwrap_or_default().to_string();
        for part in parts {
            out.push_str(name);
            let (time, rest) = part.split_once('"').unwrap_or((part, ""));
            match time.split_once('.') {
                Some((seconds, _)) => out.extend([seconds, "Z"]),
                None => out.push_str(time),
            }
            out.push('"');
            out.push_str(rest);
        }
        out
    })
}

/// The record with this id has a number that is none.
pub(crate) fn with_bad_number(body: &str, id: &str) -> String {
    let id = format!("\"id\":\"{id}\"");
    body.replace(&id, &format!("{id},\"weight\":NaN"))
}

/// `location` and `customFields` are this source text.
pub(crate) fn with_groups(body: &str, source: &str) -> String {
    ["\"location\":{", "\"customFields\":{"].iter().fold(body.to_string(), |body, name| {
        let mut parts = body.split(name);
        let mut out = parts.next().unwrap_or_default().to_string();
        for part in parts {
            out.push_str(name.trim_end_matches('{'));
            out.push_str(source);
            out.push_str(&part[end_of_object(part)..]);
        }
        out
    })
}

/// Every record lacks the member with this name, among its custom values too.
pub(crate) fn without_member(body: &str, name: &str) -> String {
    let Ok(mut answer) = serde_json::from_str::<Value>(body) else { return body.to_string() };
    let records = match &mut answer["data"] {
        Value::Array(records) => records.iter_mut().collect(),
        record => vec![record],
    };
    for record in records.into_iter().filter_map(Value::as_object_mut) {
        record.remove(name);
        record.get_mut("customFields").and_then(Value::as_object_mut).map(|custom| custom.remove(name));
    }
    answer.to_string()
}

/// Where the object ends whose opening brace precedes the text.
fn end_of_object(text: &str) -> usize {
    let (mut depth, mut quoted, mut escaped) = (1, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b'{' if !quoted => depth += 1,
            b'}' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_changed_where_they_are_meant_to_be() {
        let body = r#"{"data":[{"id":"a","updatedAt":"2026-01-02T03:04:05.678Z","until":"2026-01-02T03:04:05.678Z","location":{"city":"} \"x"},"customFields":{"a":{}},"etag":"\"2026.5\""}]}"#;
        assert_eq!(
            in_whole_seconds(body),
            body.replacen("05.678Z", "05Z", 1),
            "other times, and etags, keep their fractions"
        );
        assert!(with_bad_number(body, "a").contains(r#""id":"a","weight":NaN,"#));
        assert_eq!(with_bad_number(body, "b"), body);
        let grouped = with_groups(body, "[]");
        assert!(grouped.contains(r#""location":[],"customFields":[],"etag""#), "{grouped}");
        assert!(!without_member(body, "a").contains("\"a\":"));
        assert!(!without_member(r#"{"data":{"id":"a","notes":"x"}}"#, "notes").contains("notes"));
    }
}
