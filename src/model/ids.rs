//! Identifiers and version tokens, byte for byte as the service writes them.

use std::borrow::Borrow;
use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! text_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Box<str>);

        impl $name {
            pub fn new(text: impl Into<Box<str>>) -> $name {
                $name(text.into())
            }
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> $name {
                $name(text.into())
            }
        }
    };
}

text_newtype! {
    /// The identifier of a contact, a company, a team member or a definition: opaque text.
    RecordId
}
text_newtype! {
    /// The version of a record that we last saw, its quotes included. A write names the etag it replaces.
    Etag
}
text_newtype! {
    /// A custom field's key as the service spells it: any text, and hostile until proven otherwise.
    FieldKey
}
text_newtype! {
    /// A page token: opaque, valid only with the conditions and the key it was given for (*List query conventions*, rule 9).
    Cursor
}

/// The maximum length of a text predicate in characters (*List query conventions*, rule 5).
pub const MAX_PREDICATE: usize = 320;

impl RecordId {
    /// Whether a list can be asked for the record. About one that fits no predicate, no list proves anything.
    pub fn fits_a_predicate(&self) -> bool {
        (1..=MAX_PREDICATE).contains(&self.0.chars().count())
    }

    /// Whether the id can be used in an `in` list: a comma cannot be escaped there (*List query conventions*, rule 2).
    pub fn fits_a_list(&self) -> bool {
        !self.0.contains(',') && self.fits_a_predicate()
    }
}
