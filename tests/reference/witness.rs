//! An independent check of the field catalogue.
//!
//! The sandbox, the mirror and most tests derive from one catalogue, so a misspelt field in it would pass all of them.
//! The records in `records/` are written by hand from the reference: every field of every group, with the JSON type
//! that the reference gives. They must decode with no unknown and no missing field, which fails where either side omits
//! or misspells a name.

use std::collections::HashSet;
use std::sync::Arc;

use crm_mirror::api::decode::{self, ListPage};
use crm_mirror::model::{
    ColumnName, CustomField, CustomFields, DataType, FieldKey, FieldProjection, FieldValue, Layout, Record, RecordId,
    Resource, SqlValue,
};

/// The keys of the custom fields in the records, each named after its type.
const CUSTOM_FIELDS: [(&str, DataType); 9] = [
    ("shortText", DataType::ShortText),
    ("longText", DataType::LongText),
    ("integer", DataType::Integer),
    ("decimal", DataType::Decimal),
    ("boolean", DataType::Boolean),
    ("date", DataType::Date),
    ("dateTime", DataType::DateTime),
    ("singleSelect", DataType::SingleSelect),
    ("multiSelect", DataType::MultiSelect),
];

pub fn layout() -> Layout {
    let field = |(key, data_type): &(&str, DataType)| CustomField {
        definition: RecordId::new(*key),
        key: FieldKey::new(*key),
        data_type: *data_type,
        column: ColumnName::given(&format!("cf_{}", key.to_lowercase())).unwrap(),
    };
    let contact = CustomFields::new(CUSTOM_FIELDS.iter().map(field).collect(), HashSet::new());
    let company = CustomFields::new(CUSTOM_FIELDS[..2].iter().map(field).collect(), HashSet::new());
    Layout { version: 1, contact: Arc::new(contact), company: Arc::new(company), ..Layout::default() }
}

fn only_item(page: ListPage) -> Record {
    assert_eq!((page.records.len(), page.unusable), (1, 0));
    page.records.into_iter().next().unwrap()
}

/// Asserts that no field is unknown and every field of the projection has an exact value.
fn assert_complete(resource: Resource, detail: bool, record: &Record) {
    let carried = |projection| projection == FieldProjection::List || detail && projection == FieldProjection::Detail;
    assert_eq!(record.extra.to_json(), None, "{resource}: fields missing in the catalogue");
    assert_eq!(record.detail_extra.to_json(), None, "{resource}: fields missing in the catalogue");
    assert_eq!((record.inexact, record.unknown_keys.len()), (0, 0), "{resource}");
    for (field, value) in resource.fields().iter().zip(&record.fields) {
        let filled = matches!(value, FieldValue::Exact(_));
        assert_eq!(filled, carried(field.projection), "{resource} (detail: {detail}): {} is {value:?}", field.wire);
    }
}

fn assert_custom(record: &Record, carried: &[(&str, DataType)], long_text: bool) {
    assert_eq!(record.custom.len(), carried.len());
    for ((key, data_type), value) in carried.iter().zip(&record.custom) {
        let expected = long_text || !data_type.detail_only();
        assert_eq!(matches!(value, FieldValue::Exact(_)), expected, "{key} is {value:?}");
    }
}

#[test]
fn contact_records_of_the_reference_decode_completely() {
    let item = decode::page(Resource::Contacts, include_bytes!("records/contact_list.json"), &layout()).unwrap();
    assert_eq!((item.next.clone(), item.total), (None, Some(1)));
    let item = only_item(item);
    assert_complete(Resource::Contacts, false, &item);
    assert_custom(&item, &CUSTOM_FIELDS, false);
    let detail = include_bytes!("records/contact_detail.json");
    let detail = decode::detail(Resource::Contacts, detail, &layout()).unwrap();
    assert_complete(Resource::Contacts, true, &detail);
    assert_custom(&detail, &CUSTOM_FIELDS, true);
    let never = FieldValue::Exact(SqlValue::from("9999-12-31T23:59:59.999999Z"));
    assert_eq!(detail.custom[6], never);
}

#[test]
fn company_records_of_the_reference_decode_completely() {
    let item = decode::page(Resource::Companies, include_bytes!("records/company_list.json"), &layout()).unwrap();
    assert_eq!(item.next.as_ref().map(|cursor| cursor.as_str()), Some("opaque"));
    let item = only_item(item);
    assert_complete(Resource::Companies, false, &item);
    assert_custom(&item, &CUSTOM_FIELDS[..2], false);
    let detail = include_bytes!("records/company_detail.json");
    let detail = decode::detail(Resource::Companies, detail, &layout()).unwrap();
    assert_complete(Resource::Companies, true, &detail);
    assert_custom(&detail, &CUSTOM_FIELDS[..2], true);
}

#[test]
fn definitions_and_team_members_of_the_reference_decode_completely() {
    let body = include_bytes!("records/definition_list.json");
    let definition = only_item(decode::page(Resource::CustomFields, body, &layout()).unwrap());
    assert_complete(Resource::CustomFields, false, &definition);
    let options = definition.options.unwrap();
    assert_eq!((options.len(), options[1].value.as_str(), options[1].label.as_deref()), (2, "b", Some("B")));
    let body = include_bytes!("records/team_member_list.json");
    let member = only_item(decode::page(Resource::TeamMembers, body, &layout()).unwrap());
    assert_complete(Resource::TeamMembers, false, &member);
}
