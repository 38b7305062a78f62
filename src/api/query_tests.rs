//! The rules of *List query conventions*, one by one.

use super::*;
use crate::model::custom::DataType;
use crate::model::ids::FieldKey;

fn at(text: &str) -> Instant {
    text.parse().unwrap()
}

fn definition(key: &str) -> Definition {
    Definition {
        id: RecordId::new("d"),
        key: FieldKey::new(key),
        label: None,
        data_type: DataType::ShortText,
        object: Object::Contact,
        active: true,
        null_filter: true,
    }
}

fn ids(count: usize) -> Vec<RecordId> {
    (0..count).map(|n| RecordId::new(format!("c{n}"))).collect()
}

/// The rule that a query breaks.
fn broken(query: &ListQuery) -> String {
    query.check().unwrap_err().to_string()
}

#[test]
fn changes_walk_has_the_expected_parameters() {
    let query = ListQuery::new(Resource::Contacts).sort(SortBy::UpdatedAsc).bounded(
        TimeField::UpdatedAt,
        Op::Gt,
        at("2026-01-02T03:04:05.123456Z"),
    );
    let walk = query.after(Cursor::new("a+b/c=&d"));
    assert_eq!(
        walk.to_address(),
        "/contacts?limit=100&sort=updatedAt&filter%5BupdatedAt%5D%5Bgt%5D=2026-01-02T03%3A04%3A05.123Z\
         &cursor=a%2Bb%2Fc%3D%26d"
    );
}

#[test]
fn definitions_and_counts_have_their_own_parameters() {
    let definitions = ListQuery::definitions_of(Object::Company, false).sort(SortBy::CreatedAsc);
    assert_eq!(
        definitions.to_address(),
        "/custom-field-definitions?limit=100&objectType=company&status=ARCHIVED&sort=createdAt"
    );
    let count = ListQuery::new(Resource::Companies).limit(PageSize::ONE).count_exact();
    assert_eq!(count.to_address(), "/companies?limit=1&count=exact");
}

#[test]
fn queries_that_the_service_would_refuse_are_not_sent() {
    let contacts = || ListQuery::new(Resource::Contacts);
    let members = || ListQuery::new(Resource::TeamMembers);
    assert!(members().bounded(TimeField::UpdatedAt, Op::Gt, Instant::EPOCH).check().is_err());
    assert!(members().sort(SortBy::UpdatedAsc).check().is_err());
    assert!(members().sort(SortBy::CreatedAsc).check().is_ok());
    assert!(ListQuery::definitions_of(Object::Contact, true).is_null("createdAt", true).check().is_err());
    assert!(contacts().is_null("firstName", true).check().is_err());
    assert!(contacts().is_null("country", true).check().is_ok(), "the filter's name, not the wire name");
    assert!(ListQuery::new(Resource::Companies).is_null("domain", true).check().is_err());
    assert!(contacts().id(&RecordId::new("")).check().is_err());
    assert!(contacts().id(&RecordId::new("x".repeat(321))).check().is_err());
    assert_eq!(
        broken(&contacts().sort(SortBy::CreatedAsc).sort(SortBy::CreatedDesc)),
        "sort by createdAt is already in the query"
    );
    let twice = contacts().bounded(TimeField::UpdatedAt, Op::Gt, Instant::EPOCH).bounded(
        TimeField::UpdatedAt,
        Op::Gt,
        Instant::MAX,
    );
    assert_eq!(broken(&twice), "filter[updatedAt][gt] is already in the query");
    assert_eq!(PageSize::new(0), None);
    assert_eq!(PageSize::new(101), None);
}

#[test]
fn id_list_holds_1_to_50_ids_without_commas() {
    let query_of = |ids: &[RecordId]| ListQuery::new(Resource::Contacts).ids(ids);
    let list = "a list holds 1 to 50 values without commas";
    assert_eq!(broken(&query_of(&[])), list);
    assert_eq!(broken(&query_of(&ids(51))), list);
    assert_eq!(broken(&query_of(&[RecordId::new("a,b")])), list);
    assert_eq!(broken(&query_of(&[RecordId::new("")])), list);
    let query = query_of(&[RecordId::new("a/b"), RecordId::new("é")]);
    assert_eq!(query.to_address(), "/contacts?limit=100&filter%5Bid%5D%5Bin%5D=a%2Fb%2C%C3%A9");
    assert_eq!(ListQuery::ids_that_fit(&ids(70)), 50);
    let long: Vec<RecordId> = (0..50).map(|_| RecordId::new("é".repeat(320))).collect();
    assert_eq!(ListQuery::ids_that_fit(&long), 3);
    assert_eq!(ListQuery::ids_that_fit(&[RecordId::new("a,b")]), 0);
    assert_eq!(ListQuery::ids_that_fit(&[]), 0);
}

#[test]
fn request_has_at_most_ten_predicates_three_of_them_custom() {
    let mut query = ListQuery::new(Resource::Contacts);
    for key in ["a", "b", "c"] {
        query = query.custom_is_null(&definition(key), false);
    }
    let many = "a request holds at most 10 predicates, 3 of them on custom fields";
    assert_eq!(broken(&query.clone().custom_is_null(&definition("d"), false)), many);
    for field in ["ownerId", "createdAt", "updatedAt", "email", "mobile", "companyId", "position"] {
        query = query.is_null(field, false);
    }
    assert_eq!(query.check(), Ok(()));
    assert_eq!(broken(&query.is_null("industry", false)), many);
}

#[test]
fn custom_field_filter_needs_a_definition_that_allows_it() {
    let query_of = |definition: Definition| ListQuery::new(Resource::Contacts).custom_is_null(&definition, true);
    let sent = query_of(definition("a b&c")).to_params();
    assert_eq!(sent[1], ("filter[customFields.a b&c][isNull]".into(), "true".into()));
    for definition in [
        Definition { active: false, ..definition("a") },
        Definition { null_filter: false, ..definition("a") },
        Definition { object: Object::Company, ..definition("a") },
        definition("a][eq"),
        definition(""),
    ] {
        assert!(query_of(definition.clone()).check().is_err(), "{definition:?}");
    }
}
