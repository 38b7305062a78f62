//! Decoding: values, items and pages that do not follow the reference.

use super::*;
use crate::model::custom::{CustomField, CustomFields, DataType};
use crate::model::field_value::SqlValue;
use crate::model::{ColumnName, FieldKey};
use std::sync::Arc;

fn layout() -> Layout {
    let field = |key: &str, data_type| CustomField {
        definition: RecordId::new("d"),
        key: FieldKey::new(key),
        data_type,
        column: ColumnName::for_key(key, false, &Default::default()),
    };
    let fields = vec![field("tier", DataType::SingleSelect), field("story", DataType::LongText)];
    Layout { version: 1, contact: Arc::new(CustomFields::new(fields, Default::default())), ..Layout::default() }
}

fn list(items: &str) -> ListPage {
    let body = format!(r#"{{"data":[{items}],"nextCursor":null}}"#);
    page(Resource::Contacts, body.as_bytes(), &layout()).unwrap()
}

fn decoded<'a>(record: &'a Record, wire: &str) -> &'a FieldValue {
    let index = Resource::Contacts.fields().iter().position(|f| f.wire == wire).unwrap();
    &record.fields[index]
}

#[test]
fn invalid_value_affects_only_its_own_column() {
    let page = list(
        r#"{"id":"a","name":7,"firstName":"Ann","location":{"country":"CL","zip":"8320"},"xNew":[1.10],
            "customFields":{"tier":"gold","who":1e3},"notes":"misplaced"}"#,
    );
    let record = &page.records[0];
    assert_eq!(decoded(record, "name"), &FieldValue::Unrepresentable);
    assert_eq!(decoded(record, "firstName"), &FieldValue::Exact(SqlValue::from("Ann")));
    assert_eq!(decoded(record, "location.country"), &FieldValue::Exact(SqlValue::from("CL")));
    assert_eq!(decoded(record, "notes"), &FieldValue::Absent, "a list never sets a field that only details contain");
    assert_eq!(decoded(record, "email"), &FieldValue::Absent);
    assert_eq!(record.custom, [FieldValue::Exact(SqlValue::from("gold")), FieldValue::Absent]);
    assert!(!record.unknown_keys.is_empty());
    assert_eq!(
        record.extra.to_json().unwrap(),
        r#"{"name":7,"notes":"misplaced","xNew":[1.10],"customFields":{"who":1e3},"location":{"zip":"8320"}}"#
    );
}

#[test]
fn items_without_an_identifier_are_counted() {
    let page = list(r#"{"name":"no id"},7,null,{"id":""},{"id":12},{"id":"a"}"#);
    assert_eq!(page.unusable, 4);
    assert_eq!(page.records.iter().map(|r| r.id.as_str()).collect::<Vec<_>>(), ["12", "a"]);
    // Such pages are read in one pass, and those with an item that is no object or has no readable name in another.
    for items in [r#"{"id":"a"},{"id":"b"}"#, r#"{"id":"a"},7,{"id":"c","\ud800":1},{"id":"b"}"#] {
        let ids: Vec<_> = list(items).records.into_iter().map(|record| record.id.to_string()).collect();
        assert_eq!(ids, ["a", "b"]);
    }
}

#[test]
fn of_two_members_with_one_name_the_later_counts() {
    let body =
        r#"{"total":1,"data":[],"x":[{}],"nextCursor":"c","data":[{"id":"a","id":"b"}],"nextCursor":"","total":2}"#;
    let page = page(Resource::Contacts, body.as_bytes(), &layout()).unwrap();
    assert_eq!((page.records[0].id.as_str(), page.next, page.total), ("b", None, Some(2)));
}

#[test]
fn undecodable_page_is_an_error() {
    for body in [
        "<html>",
        "",
        "[]",
        r#"{"nextCursor":null}"#,
        r#"{"data":[]}"#,
        r#"{"data":{},"nextCursor":null}"#,
        r#"{"data":[],"nextCursor":7}"#,
        r#"{"data":[{"id":"a"}],"nextCursor":null"#,
    ] {
        assert!(page(Resource::Contacts, body.as_bytes(), &layout()).is_err(), "{body}");
    }
    assert!(page(Resource::Contacts, b"{\"data\":[{\"id\":\"\xff\"}],\"nextCursor\":null}", &layout()).is_err());
}

#[test]
fn inexact_values_of_a_detail_go_to_the_extra_of_the_detail() {
    let body = r#"{"data":{"id":"a","name":7,"notes":8,"xNew":9,"customFields":{"tier":1,"story":2}}}"#;
    let record = detail(Resource::Contacts, body.as_bytes(), &layout()).unwrap();
    assert_eq!(record.extra.to_json().unwrap(), r#"{"name":7,"customFields":{"tier":1}}"#);
    assert_eq!(record.detail_extra.to_json().unwrap(), r#"{"notes":8,"xNew":9,"customFields":{"story":2}}"#);
    assert_eq!(record.inexact, 5);
}

#[test]
fn definitions_carry_their_options() {
    let body = r#"{"data":[{"id":"d","key":"tier","allowedOperators":["eq","in"],
        "options":[{"value":"a","label":"A"},{"value":"b"}]}],"nextCursor":"c2"}"#;
    let page = page(Resource::CustomFields, body.as_bytes(), &Layout::default()).unwrap();
    assert_eq!(page.next, Some(Cursor::new("c2")));
    let options = page.records[0].options.as_ref().unwrap();
    assert_eq!(options[0], Choice { value: "a".into(), label: Some("A".into()) });
    assert_eq!(options[1], Choice { value: "b".into(), label: None });
}
