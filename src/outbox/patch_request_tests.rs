//! Deciding on the next request, case by case.

use serde_json::json;

use super::*;
use crate::model::{DataType, RecordId};

const CONTACT: Object = Object::Contact;

fn editable() -> BTreeMap<String, Editable> {
    let standard = ["position", "notes", "language"].map(|column| Editable::standard(CONTACT, column).unwrap());
    let custom = |column: &str, key: &str, data_type| Editable {
        object: CONTACT,
        column: column.into(),
        wire: key.into(),
        data_type: Some(data_type),
        clearable: true,
        detail_only: data_type.detail_only(),
        options: vec!["gold".into(), "silver".into()],
    };
    let customs = [
        custom("cf_fee", "Fee €", DataType::Decimal),
        custom("cf_tier", "tier", DataType::SingleSelect),
        custom("cf_vip", "vip", DataType::Boolean),
        custom("cf_topics", "topics", DataType::MultiSelect),
    ];
    let many = (0..120).map(|n| custom(&format!("cf_n{n}"), &format!("n{n}"), DataType::Integer));
    standard.into_iter().chain(customs).chain(many).map(|field| (field.column.to_string(), field)).collect()
}

fn held(values: &[(&str, Value)]) -> MirroredRecord {
    MirroredRecord {
        etag: Some(Etag::new("\"v1\"")),
        details_current: true,
        values: editable()
            .into_keys()
            .map(|column| (column, Value::Null))
            .chain(values.iter().map(|(column, value)| (column.to_string(), value.clone())))
            .collect(),
        ..MirroredRecord::default()
    }
}

fn edit(id: i64, fields: &[(&str, Value, Value)]) -> Edit {
    Edit {
        id,
        object: CONTACT,
        record: RecordId::new("c1"),
        name: None,
        state: EditState::Queued,
        source: "sql".into(),
        fields: fields
            .iter()
            .map(|(column, before, after)| (column.to_string(), (before.clone(), after.clone())))
            .collect(),
        theirs: None,
        attempts: 0,
        status: None,
        answer: None,
        merged_into: None,
        queued_at: String::new(),
        last_sent_at: None,
        finished_at: None,
        not_before: None,
        undoes: None,
        behind: None,
        awaits_removal: false,
        base_etag: Some(Etag::new("\"v1\"")),
        body: None,
        if_match: None,
        idempotency_key: None,
        first_sent_at: None,
        unreadable: None,
    }
}

#[test]
fn held_edit_does_not_block_later_edits() {
    let mut first = edit(1, &[("position", json!("A"), json!("B"))]);
    first.state = EditState::Held;
    let mut merged = edit(2, &[("position", json!("A"), json!("C"))]);
    (merged.state, merged.merged_into) = (EditState::Sending, Some(9));
    let second = edit(3, &[("language", json!("en"), json!("de"))]);
    let record = held(&[("position", json!("A")), ("language", json!("en"))]);
    match next(CONTACT, &[first, merged, second], Some(&record), &editable(), (true, false)) {
        RecordStep::Send(request) => assert_eq!(ids(&request), [3]),
        other => panic!("{other:?}"),
    }
}

fn ids(request: &PatchRequest) -> Vec<i64> {
    request.carried.iter().map(|(id, _)| *id).collect()
}

fn position(id: i64, before: &str, after: &str) -> Edit {
    edit(id, &[("position", json!(before), json!(after))])
}

fn step(edits: &[Edit], held: &MirroredRecord) -> RecordStep {
    next(CONTACT, edits, Some(held), &editable(), (true, false))
}

#[track_caller]
fn sends(step: RecordStep, edits: &[i64], body: impl Into<Value>) {
    let RecordStep::Send(request) = step else { panic!("{step:?}") };
    assert_eq!(ids(&request), edits);
    assert_eq!(serde_json::from_str::<Value>(&request.body).unwrap(), body.into());
    assert_eq!(request.if_match.as_str(), "\"v1\"");
}

#[test]
fn body_has_wire_names_and_wire_values() {
    let edit = edit(
        1,
        &[
            ("position", json!("A"), json!("B")),
            ("notes", json!("x"), json!(null)),
            ("cf_fee", json!(null), json!("12345678901234567890.1234567890")),
            ("cf_tier", json!("gold"), json!("")),
            ("cf_vip", json!(0), json!(1)),
            ("cf_topics", json!(null), json!("[\"gold\"]")),
        ],
    );
    let now =
        held(&[("position", json!("A")), ("notes", json!("x")), ("cf_tier", json!("gold")), ("cf_vip", json!(0))]);
    let body = json!({
        "position": "B",
        "notes": null,
        "customFields": {
            "Fee €": "12345678901234567890.1234567890", "tier": null, "vip": true, "topics": ["gold"],
        },
    });
    sends(step(&[edit], &now), &[1], body);
}

#[test]
fn waiting_edits_become_one_request_with_the_last_value() {
    let mut edits = vec![
        position(1, "A", "B"),
        edit(2, &[("language", json!("en"), json!("de"))]),
        position(3, "A", "C"),
        position(4, "C", "D"),
    ];
    let now = held(&[("position", json!("A")), ("language", json!("en"))]);
    assert_eq!(step(&edits, &now), RecordStep::Replaced(1));
    edits.remove(0);
    assert_eq!(step(&edits, &now), RecordStep::Replaced(3));
    edits[1] = edit(3, &[("position", json!("A"), json!("C")), ("notes", json!(null), json!("n"))]);
    sends(step(&edits, &now), &[2, 3, 4], json!({"position": "D", "language": "de", "notes": "n"}));
}

#[test]
fn edit_that_is_being_sent_or_in_conflict_blocks_later_edits() {
    let now = held(&[("position", json!("A")), ("language", json!("en"))]);
    let later = edit(2, &[("language", json!("en"), json!("de"))]);
    let mut first = position(1, "A", "B");
    first.state = EditState::Sending;
    assert_eq!(step(&[first.clone(), later.clone()], &now), RecordStep::Resume(1));
    first.state = EditState::Conflict;
    assert_eq!(step(&[first, later], &now), RecordStep::Nothing);
    assert_eq!(step(&[], &now), RecordStep::Nothing);
}

#[test]
fn edit_is_compared_with_the_current_record() {
    for (name, now, expected) in [
        ("somebody changed it", json!("X"), RecordStep::Conflict(1)),
        ("it has the value already", json!("B"), RecordStep::Settled(1)),
    ] {
        let now = held(&[("position", now)]);
        assert_eq!(step(&[position(1, "A", "B")], &now), expected, "{name}");
    }
    assert_eq!(next(CONTACT, &[position(1, "A", "B")], None, &editable(), (true, false)), RecordStep::Gone(1));
}

#[test]
fn field_that_already_has_the_value_is_not_sent() {
    let edit = edit(1, &[("position", json!("A"), json!("B")), ("language", json!("en"), json!("de"))]);
    let now = held(&[("position", json!("B")), ("language", json!("en"))]);
    sends(step(&[edit], &now), &[1], json!({"language": "de"}));
}

#[test]
fn request_says_what_it_carries_of_each_edit() {
    let now = held(&[("position", json!("A")), ("language", json!("en")), ("notes", json!("n"))]);
    let both = edit(1, &[("position", json!("A"), json!("B")), ("language", json!("en"), json!("de"))]);
    let idle = edit(3, &[("notes", json!("x"), json!("n"))]);
    let RecordStep::Send(request) = step(&[both, position(2, "B", "C"), idle], &now) else { panic!() };
    let fields = |column: &str, before: &str, after: &str| -> EditedFields {
        [(column.to_string(), (json!(before), json!(after)))].into()
    };
    let mut first = fields("language", "en", "de");
    first.extend(fields("position", "A", "B"));
    let carried = [(1, first), (2, fields("position", "B", "C")), (3, EditedFields::new())];
    assert_eq!(request.carried, carried);
}

#[test]
fn group_ends_before_an_edit_that_cannot_be_merged() {
    let now = held(&[("position", json!("A")), ("language", json!("X"))]);
    let conflict = edit(2, &[("language", json!("en"), json!("de"))]);
    let other_base = position(2, "Z", "C");
    let mut refused = position(2, "A", "C");
    refused.status = Some(422);
    let invalid = edit(2, &[("cf_tier", json!(null), json!("lead"))]);
    let archived = edit(2, &[("cf_gone", json!(null), json!("x"))]);
    let empty = edit(2, &[]);
    let mut undecided = position(2, "A", "C");
    undecided.state = EditState::Conflict;
    for second in [conflict, other_base, refused, invalid, archived, empty, undecided] {
        let third = position(3, "A", "D");
        sends(step(&[position(1, "A", "B"), second, third], &now), &[1], json!({"position": "B"}));
    }
}

#[test]
fn edit_that_a_later_one_takes_back_is_not_sent() {
    let now = held(&[("position", json!("A")), ("language", json!("de"))]);
    let back = position(2, "B", "A");
    let first = edit(1, &[("position", json!("A"), json!("B")), ("language", json!("en"), json!("de"))]);
    assert_eq!(step(&[first, back.clone()], &now), RecordStep::Replaced(1), "the language is there already");
    assert_eq!(step(&[back], &now), RecordStep::Settled(2));
}

#[test]
fn values_that_the_service_would_refuse_are_refused() {
    let now = held(&[]);
    let refuse = |fields: &[(&str, Value, Value)]| step(&[edit(1, fields)], &now);
    for fields in [
        vec![("cf_tier", json!(null), json!("lead"))],
        vec![("cf_fee", json!(null), json!("1.12345678901"))],
        vec![("email", json!(null), json!("a@b.c"))],
        vec![("cf_gone", json!(null), json!("x"))],
    ] {
        let RecordStep::Refuse(1, why) = refuse(&fields) else { panic!("{fields:?}") };
        assert!(why.contains(fields[0].0), "{why}");
    }
    assert_eq!(refuse(&[]), RecordStep::Refuse(1, "the edit changes nothing".into()));
}

#[test]
fn request_holds_a_hundred_custom_keys() {
    let columns: Vec<String> = (0..120).map(|n| format!("cf_n{n}")).collect();
    let numbers = |id, from: usize, to: usize| {
        let fields: Vec<_> = columns[from..to].iter().map(|column| (column.as_str(), json!(null), json!(1))).collect();
        edit(id, &fields)
    };
    let now = held(&[]);
    let RecordStep::Send(request) = step(&[numbers(1, 0, 60), numbers(2, 60, 100), numbers(3, 100, 101)], &now) else {
        panic!()
    };
    assert_eq!(ids(&request), [1, 2]);
    let body: Value = serde_json::from_str(&request.body).unwrap();
    assert_eq!(body["customFields"].as_object().unwrap().len(), 100);
    assert!(matches!(step(&[numbers(1, 0, 101)], &now), RecordStep::Refuse(1, _)));
}

#[test]
fn unknown_values_are_read_first() {
    let mut now = held(&[("position", json!("A")), ("notes", json!("x"))]);
    (now.details_current, now.unproven) = (false, ["notes".to_string()].into());
    let notes = edit(1, &[("notes", json!("x"), json!("y"))]);
    assert_eq!(step(std::slice::from_ref(&notes), &now), RecordStep::Read);
    let mut second = notes;
    second.id = 2;
    sends(step(&[position(1, "A", "B"), second], &now), &[1], json!({"position": "B"}));
    let both = edit(1, &[("notes", json!("x"), json!("y")), ("position", json!("A"), json!("B"))]);
    assert_eq!(step(&[both], &now), RecordStep::Read);
    let tier = edit(2, &[("cf_tier", json!(null), json!("gold"))]);
    let merged = json!({"position": "B", "customFields": {"tier": "gold"}});
    sends(step(&[position(1, "A", "B"), tier], &now), &[1, 2], merged);
    let archived = edit(1, &[("cf_gone", json!(null), json!("x"))]);
    assert!(matches!(step(&[archived], &now), RecordStep::Refuse(1, _)), "no reading helps");
    let read = |just_read, now: &MirroredRecord| {
        let notes = edit(1, &[("notes", json!("x"), json!("y"))]);
        next(CONTACT, &[notes], Some(now), &editable(), (true, just_read)) == RecordStep::Read
    };
    assert!(read(true, &now), "what was read has another version");
    now.details_current = true;
    assert!(read(false, &now) && !read(true, &now));
    now.etag = None;
    for before in ["A", "X"] {
        assert_eq!(step(&[position(1, before, "B")], &now), RecordStep::Read, "{before}");
    }
}

#[test]
fn custom_values_that_cannot_be_written_wait_and_block_later_edits() {
    let now = held(&[("position", json!("A"))]);
    let custom = |id| edit(id, &[("cf_tier", json!(null), json!("gold"))]);
    let plain = |edits: &[Edit]| next(CONTACT, edits, Some(&now), &editable(), (false, false));
    sends(plain(&[position(1, "A", "B"), custom(2)]), &[1], json!({"position": "B"}));
    assert_eq!(plain(&[custom(1), position(2, "A", "B")]), RecordStep::Nothing);
    let both = edit(1, &[("cf_tier", json!(null), json!("gold")), ("position", json!("A"), json!("B"))]);
    assert_eq!(plain(&[both]), RecordStep::Nothing);
    assert_eq!(plain(&[position(1, "A", "B"), position(2, "B", "C")]), RecordStep::Replaced(1));
}

#[test]
fn merged_fields_go_from_the_first_to_the_last_value() {
    let edits = [position(1, "A", "B"), position(2, "A", "C"), edit(3, &[("notes", json!(null), json!("n"))])];
    let fields = union(&edits);
    assert_eq!(fields["position"], (json!("A"), json!("C")));
    assert_eq!(fields["notes"], (json!(null), json!("n")));
}

/// A company's texts must not all be blank: what the record already has is not sent, and the rest is blank.
#[test]
fn edit_of_which_only_blank_texts_are_left_is_refused() {
    let object = Object::Company;
    let industry = Editable::standard(object, "industry").unwrap();
    let editable = |column: &str| Editable { column: column.into(), wire: column.into(), ..industry.clone() };
    let company = ["industry", "name"].map(|column| (column.to_string(), editable(column))).into();
    let changes = [("industry", json!("Food"), json!("Tools")), ("name", json!("Acme"), json!(" "))];
    let edit = Edit { object, ..edit(1, &changes) };
    let shown = held(&[("industry", json!("Tools")), ("name", json!("Acme"))]);
    let step = next(object, &[edit], Some(&shown), &company, (true, false));
    assert!(matches!(&step, RecordStep::Refuse(1, why) if why.contains("white space")), "{step:?}");
}

#[test]
fn edit_that_cannot_be_a_request_is_refused_before_anything_is_read_or_fixed() {
    let record = held(&[("position", json!("A"))]);
    for id in [".", ".."] {
        let refused = Edit { record: RecordId::new(id), ..position(1, "A", "B") };
        assert!(matches!(step(&[refused], &record), RecordStep::Refuse(1, _)), "{id}");
        let unread = Edit { record: RecordId::new(id), ..edit(1, &[("notes", json!("A"), json!("B"))]) };
        let unknown = MirroredRecord { details_current: false, etag: None, ..record.clone() };
        assert!(matches!(step(&[unread], &unknown), RecordStep::Refuse(1, _)), "{id}");
    }
    let odd = MirroredRecord { etag: Some(Etag::new("v\n1")), ..record.clone() };
    assert!(matches!(step(&[position(1, "A", "B")], &odd), RecordStep::Refuse(1, _)));
    sends(step(&[position(1, "A", "B")], &record), &[1], json!({"position": "B"}));
}
