//! Answers whose bodies are not what the service would say.

use crm_mirror::sandbox::Fault;
use serde_json::Value;

/// `createdAt` and `updatedAt` in whole seconds.
pub fn whole_seconds() -> Fault {
    Fault::Rewritten(in_whole_seconds, String::new())
}

/// The records with these ids, between spaces, have a number that JSON does not have: no answer with one of them is JSON.
pub fn bad_number(ids: &str) -> Fault {
    Fault::Rewritten(with_bad_number, ids.into())
}

/// The service fails at every answer with this record.
pub fn fails_at(id: &str) -> Fault {
    let fail = |body: &str, id: &str| if body.contains(&format!("\"{id}\"")) { String::new() } else { body.into() };
    Fault::Rewritten(fail, id.into())
}

/// `location` and `customFields` of every record are this source text.
pub fn groups(source: &str) -> Fault {
    Fault::Rewritten(with_groups, source.into())
}

/// Records lack the member with this name, a custom field's too.
pub fn without(name: &str) -> Fault {
    Fault::Rewritten(without_member, name.into())
}

/// The list lacks its rows from one place up to another, `30 60`; where nothing is behind them, it ends there.
pub fn without_rows(places: &str) -> Fault {
    Fault::Rewritten(with_rows_cut_out, places.into())
}

/// The list has this row more, at its end.
pub fn with_row(row: &str) -> Fault {
    let add = |body: &str, row: &str| {
        let mut body: Value = serde_json::from_str(body).unwrap();
        body["data"].as_array_mut().unwrap().push(serde_json::from_str(row).unwrap());
        body.to_string()
    };
    Fault::Rewritten(add, row.into())
}

/// The record with this id has none.
pub fn without_id(id: &str) -> Fault {
    Fault::Rewritten(|body, id| body.replace(&format!("\"id\":\"{id}\""), "\"id\":null"), id.into())
}

fn with_rows_cut_out(body: &str, places: &str) -> String {
    let mut body: Value = serde_json::from_str(body).unwrap();
    let (from, to) = places.split_once(' ').unwrap();
    let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
    let rows = body["data"].as_array_mut().unwrap();
    let ends = to >= rows.len();
    let to = to.min(rows.len());
    rows.drain(from.min(to)..to);
    if ends {
        body["nextCursor"] = Value::Null;
    }
    body.to_string()
}

/// The total that was asked for is this number.
pub fn total(number: u64) -> Fault {
    Fault::Rewritten(with_total, number.to_string())
}

fn with_total(body: &str, number: &str) -> String {
    let Some((before, after)) = body.split_once("\"total\":") else { return body.into() };
    format!("{before}\"total\":{number}{}", after.trim_start_matches(|digit: char| digit.is_ascii_digit()))
}

fn in_whole_seconds(body: &str, _: &str) -> String {
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

fn with_bad_number(body: &str, ids: &str) -> String {
    ids.split(' ').fold(body.to_string(), |body, id| {
        let id = format!("\"id\":\"{id}\"");
        body.replace(&id, &format!("{id},\"weight\":NaN"))
    })
}

fn with_groups(body: &str, source: &str) -> String {
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

fn without_member(body: &str, name: &str) -> String {
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
