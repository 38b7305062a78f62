//! The vocabulary of the service and the mirror: fields, values, identifiers, time and request units.
//!
//! Everything here is pure but the system's clock (`SystemClock`), and depends on no other room.

pub mod answer_time;
pub mod catalogue;
pub mod clock;
pub mod column_name;
pub mod custom;
pub mod decimal;
pub mod duration;
pub mod edit;
pub mod editable;
pub mod elapsed_clock;
pub mod exclusions;
pub mod field_value;
mod hidden_members;
pub mod ids;
pub mod instant;
pub mod record;
pub mod request_order;
pub mod ru;
pub mod service_time;
pub mod time_range;

pub use answer_time::AnswerTime;
pub use catalogue::{Field, FieldKind, FieldProjection, Object, Op, Resource};
pub use clock::{Clock, ClockReading, MonotonicReading, SystemClock, boot_number};
pub use column_name::ColumnName;
pub use custom::{Choice, CustomField, CustomFields, DataType, Definition, Layout};
pub use duration::{duration, growing};
pub use edit::{
    DelayScope, EditState, EditedFields, HELD_COMMANDS, MirroredRecord, RetryDelay, is_unknown, unfit_source,
    unfit_value, unknown_value,
};
pub use editable::Editable;
pub use elapsed_clock::ElapsedClock;
pub use exclusions::Exclusions;
pub use field_value::{FieldValue, SqlValue};
pub use ids::{Cursor, Etag, FieldKey, RecordId};
pub use instant::Instant;
pub use record::{Extra, Record};
pub use request_order::{RequestOrder, RequestRegister, RequestStamp};
pub use ru::{Purpose, Ru};
pub use service_time::ServiceTime;
pub use time_range::{TimeBounds, TimeField, TimeRange};
