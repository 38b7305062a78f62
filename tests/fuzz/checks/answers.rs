//! Answers: list pages, details and error bodies. The first byte chooses the endpoint.
//!
//! A decoded record, written as JSON again, is decoded to the same values, so that nothing changes in the mirror when the
//! service sends it again.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use crm_mirror::api::decode;
use crm_mirror::api::error_class::classify;
use crm_mirror::api::requested_wait::requested_wait;
use crm_mirror::api::{ApiKey, ListQuery, Rejection};
use crm_mirror::budget::Hold;
use crm_mirror::model::record::Extra;
use crm_mirror::model::{
    ColumnName, CustomField, CustomFields, DataType, FieldKey, FieldKind, FieldValue, Instant, Layout, Object, Record,
    RecordId, Resource, SqlValue,
};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::choice;

const KEY: &str = "svc_v1_very-secret";

/// One custom field of each type, named after it.
static LAYOUT: LazyLock<Layout> = LazyLock::new(|| {
    let field = |data_type: &DataType| CustomField {
        definition: RecordId::new(data_type.as_str()),
        key: FieldKey::new(data_type.as_str()),
        data_type: *data_type,
        column: ColumnName::given(&format!("cf_{}", data_type.as_str().to_lowercase())).unwrap(),
    };
    let fields = || Arc::new(CustomFields::new(DataType::ALL.iter().map(field).collect(), Default::default()));
    Layout { version: 1, contact: fields(), company: fields(), ..Layout::default() }
});

/// Checks one answer.
pub fn check(data: &[u8]) {
    let (which, body) = choice(data);
    let resource = Resource::ALL[which % 4];
    match which / 4 % 4 {
        0 => list(resource, body),
        1 => detail(resource, body),
        2 => error(which, body),
        _ => {
            let wait = requested_wait(body, None, Instant::EPOCH);
            assert!(
                Hold::after(None, Instant::EPOCH, wait)
                    .left(Instant::EPOCH)
                    .is_some_and(|left| left.as_secs() <= 86_400)
            );
        }
    }
}

fn list(resource: Resource, body: &[u8]) {
    let decoded = decode::page(resource, body, &LAYOUT);
    assert_eq!(decoded, decode::page(resource, body, &LAYOUT));
    let next = decode::next_cursor(body);
    let Ok(page) = decoded else { return };
    assert_eq!(next.as_ref(), Ok(&page.next));
    if let Some(cursor) = page.next {
        assert!(!ListQuery::new(resource).after(cursor).to_params().is_empty());
    }
    #[derive(serde::Deserialize)]
    struct Items {
        data: Vec<IgnoredAny>,
    }
    if let Ok(items) = serde_json::from_slice::<Items>(body) {
        assert_eq!(page.records.len() + page.unusable as usize, items.data.len());
    }
    let cut = body.trim_ascii_end();
    assert!(decode::page(resource, &cut[..cut.len() - 1], &LAYOUT).is_err(), "a body that is cut is no page");
    for record in &page.records {
        is_kept(resource, record, false);
    }
}

fn detail(resource: Resource, body: &[u8]) {
    let decoded = decode::detail(resource, body, &LAYOUT);
    assert_eq!(decoded, decode::detail(resource, body, &LAYOUT));
    if let Ok(record) = decoded {
        is_kept(resource, &record, true);
    }
}

/// Checks that a record can be written and read again without a change.
fn is_kept(resource: Resource, record: &Record, detail: bool) {
    assert!(!record.id.as_str().is_empty());
    let object = resource.object().unwrap_or(Object::Contact);
    for extra in [&record.extra, &record.detail_extra] {
        if let Some(text) = extra.to_json() {
            let again = Extra::from_json(object, &text);
            assert!(!again.sources.is_empty(), "{text}");
            let text = again.to_json().unwrap();
            assert_eq!(Extra::from_json(object, &text), again, "{text}");
        }
    }
    let item = encoded(resource, record);
    let again = if detail {
        decode::detail(resource, format!("{{\"data\":{item}}}").as_bytes(), &LAYOUT)
    } else {
        let body = format!("{{\"data\":[{item}],\"nextCursor\":null}}");
        decode::page(resource, body.as_bytes(), &LAYOUT).map(|mut page| page.records.pop().expect("the record"))
    };
    let again = again.expect("the record");
    assert_eq!(again.id, record.id);
    let pairs = |record: &Record| [record.fields.clone(), record.custom.clone()].concat();
    for (before, after) in pairs(record).iter().zip(pairs(&again)) {
        match before {
            FieldValue::Exact(_) | FieldValue::Null => assert_eq!(*before, after, "{item}"),
            _ => {}
        }
    }
    assert_eq!(again.options, record.options);
}

/// The record's values as the service writes them.
fn encoded(resource: Resource, record: &Record) -> String {
    let mut members: BTreeMap<String, String> = BTreeMap::new();
    let mut nested: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (field, value) in resource.fields().iter().zip(&record.fields) {
        let Some(source) = source(value, matches!(field.kind, FieldKind::Json), field.kind == FieldKind::Boolean)
        else {
            continue;
        };
        match field.wire.split_once('.') {
            None => drop(members.insert(field.wire.into(), source)),
            Some((group, name)) => nested.entry(group).or_default().push(format!("\"{name}\":{source}")),
        }
    }
    if let Some(object) = resource.object() {
        let fields = LAYOUT.of(object);
        for (field, value) in fields.fields().iter().zip(&record.custom) {
            let (list, flag) = (field.data_type == DataType::MultiSelect, field.data_type == DataType::Boolean);
            let Some(source) = source(value, list, flag) else { continue };
            nested.entry("customFields").or_default().push(format!("{}:{source}", json!(field.key.as_str())));
        }
    }
    if let Some(options) = &record.options {
        let options = options.iter().map(|choice| json!({"value": choice.value, "label": choice.label}));
        members.insert("options".into(), Value::from_iter(options).to_string());
    }
    members.entry("id".into()).or_insert_with(|| json!(record.id.as_str()).to_string());
    members.extend(nested.into_iter().map(|(group, inner)| (group.into(), format!("{{{}}}", inner.join(",")))));
    let members: Vec<String> = members.into_iter().map(|(name, source)| format!("\"{name}\":{source}")).collect();
    format!("{{{}}}", members.join(","))
}

/// A value as JSON; `None` where there is none that is exact. A text that is JSON already stays as it is.
fn source(value: &FieldValue, is_json: bool, is_flag: bool) -> Option<String> {
    Some(match value {
        FieldValue::Null | FieldValue::Exact(SqlValue::Null) => "null".into(),
        FieldValue::Exact(SqlValue::Text(text)) if is_json => text.to_string(),
        FieldValue::Exact(SqlValue::Text(text)) => json!(text.as_str()).to_string(),
        FieldValue::Exact(SqlValue::Int(flag)) if is_flag => (*flag == 1).to_string(),
        FieldValue::Exact(SqlValue::Int(integer)) => integer.to_string(),
        FieldValue::Exact(SqlValue::Real(real)) => real.to_string(),
        _ => return None,
    })
}

fn error(which: usize, body: &[u8]) {
    let key = ApiKey::new(KEY).unwrap();
    let status = [400, 401, 403, 404, 409, 412, 422, 429, 500, 503][which % 10];
    let rejection = Rejection::read(status, body, &key);
    assert_eq!(rejection, Rejection::read(status, body, &key));
    let shown = format!("{rejection} {rejection:?}");
    assert!(!shown.contains(KEY), "{shown}");
    assert!(rejection.to_string().lines().count() <= 1, "{shown}");
    assert!(shown.len() < 200_000);
    let _ = classify(status, rejection.envelope);
}
