//! What the service and the mirror talk about: fields, values, identifiers, time and request units.
//!
//! Everything here is pure: no IO, no clock, no other room. [`catalogue`] names every standard field once; [`field_value`]
//! turns one JSON value into one column's value without losing anything; the newtypes keep texts that differ in meaning
//! from being mixed up.

pub mod catalogue;
pub mod clock;
pub mod column_name;
pub mod custom;
pub mod decimal;
pub mod duration;
pub mod edit;
pub mod editable;
pub mod field_value;
pub mod ids;
pub mod instant;
pub mod purpose;
pub mod record;
pub mod ru;

pub use catalogue::{Field, FieldKind, FieldProjection, Object, Op, Ops, Resource};
pub use clock::{Clock, ClockReading, ManualClock, MonotonicReading, SystemClock};
pub use column_name::ColumnName;
pub use custom::{Choice, CustomField, CustomFields, DataType, Definition, Layout};
pub use duration::duration;
pub use edit::{DelayScope, Edit, EditState, EditedFields, MirroredRecord, RetryDelay};
pub use editable::{CustomTarget, EditTarget, Editable};
pub use field_value::{FieldValue, SqlValue};
pub use ids::{Cursor, Etag, FieldKey, RecordId};
pub use instant::Instant;
pub use purpose::Purpose;
pub use record::{Extra, Record};
pub use ru::Ru;
