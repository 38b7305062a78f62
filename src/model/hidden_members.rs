//! Documents of the mirror without the members that somebody may not see: `extra`, a removed record, a change.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::custom::Layout;

/// `table` is the one that the document is of, such as `contacts`.
impl Layout {
    /// A text of `extra`; `None` if it is not a JSON object.
    pub fn extra_without(&self, table: &str, text: &str) -> Option<String> {
        mapped(text, |name, members| {
            if self.hides_wire(table, name) {
                return None;
            }
            match mapped(members, |member, source| {
                (!self.hides_wire(table, &format!("{name}.{member}"))).then(|| source.to_string())
            }) {
                None if self.exclusions.takes_part_of(table, name) => None,
                nested => Some(nested.unwrap_or_else(|| members.to_string())),
            }
        })
    }

    /// A document by column: a removed record's last state, or a change's fields. `None` if it is not a JSON object.
    pub fn document_without(&self, table: &str, text: &str) -> Option<String> {
        let in_text = |source: &str| {
            // `extra` is a text that contains JSON.
            let inner: Option<String> = serde_json::from_str(source).ok()?;
            let kept = inner.map(|inner| self.extra_without(table, &inner).unwrap_or_default());
            Some(serde_json::Value::from(kept).to_string())
        };
        mapped(text, |column, source| {
            if self.hides_column(table, column) {
                return None;
            }
            if column != "extra" && column != "detail_extra" {
                return Some(source.to_string());
            }
            match serde_json::from_str::<Vec<&RawValue>>(source) {
                Ok(both) => {
                    let both: Option<Vec<String>> = both.iter().map(|side| in_text(side.get())).collect();
                    Some(format!("[{}]", both?.join(",")))
                }
                Err(_) => in_text(source),
            }
        })
    }
}

/// An object with each member transformed by `change`, or left out; `None` for a text that is not a JSON object.
fn mapped(text: &str, mut change: impl FnMut(&str, &str) -> Option<String>) -> Option<String> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    let mut out = BTreeMap::new();
    for (name, value) in members {
        if let Some(changed) = change(&name, value.get()) {
            out.insert(name, RawValue::from_string(changed).ok()?);
        }
    }
    serde_json::to_string(&out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Exclusions;

    #[test]
    fn hidden_members_are_in_no_document() {
        let excluded = ["notes", "cf_salary", "location_city"].map(String::from);
        let layout = Layout { exclusions: Exclusions::new(&excluded).into(), ..Layout::default() };
        let extra = r#"{"customFields":{"a":1.10,"salary":7},"location":"a city","notes":[1],"odd":[2]}"#;
        let kept = r#"{"customFields":{"a":1.10},"odd":[2]}"#;
        assert_eq!(layout.extra_without("contacts", extra).unwrap(), kept);
        assert_eq!(layout.extra_without("contacts", "[1]"), None);
        let (extra, kept) = (serde_json::Value::from(extra), serde_json::Value::from(kept));
        let document = |extra| format!(r#"{{"extra":[null,{extra}],"name":["a","b"]"#);
        let with_notes = format!("{},\"notes\":[1,2]}}", document(&extra));
        assert_eq!(layout.document_without("contacts", &with_notes).unwrap(), format!("{}}}", document(&kept)));
    }
}
