//! The field catalogue: every standard field of the service, once.
//!
//! The columns of the mirror, the upserts, the data dictionary, the checks of the query builder and the sandbox's
//! validation all derive from `tables`. Adding a field is one line there and a migration in `schema/`. Because all of
//! them derive from it, `tests/reference` holds literal records written from the reference as an independent witness.

mod field;
mod operators;
mod resource;
mod tables;

pub use field::{Field, FieldKind, FieldProjection};
pub use operators::{Op, Ops};
pub use resource::{Object, Resource};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_columns_are_the_wire_names_in_snake_case() {
        for resource in Resource::ALL {
            let columns: BTreeSet<&str> = resource.fields().iter().map(|field| field.column).collect();
            assert_eq!(columns.len(), resource.fields().len(), "{resource}");
        }
        let column = |wire: &str| Resource::Contacts.fields().iter().find(|field| field.wire == wire).unwrap().column;
        assert_eq!(column("lastMessageSentAt"), "last_message_sent_at");
        assert_eq!(column("location.country"), "location_country");
    }

    #[test]
    fn filter_tables_have_the_rows_of_the_reference() {
        let count = |r: Resource| r.fields().iter().filter(|f| !f.filter.is_empty()).count();
        assert_eq!(count(Resource::Contacts), 14);
        assert_eq!(count(Resource::Companies), 13);
        assert_eq!(count(Resource::TeamMembers), 1);
        assert_eq!(count(Resource::CustomFields), 0);
    }
}
