//! The axes of the property about values that nobody was shown, and the cases that combine them.

use crate::support::Crm;
use crm_mirror::model::Object;
use crm_mirror::sandbox::Fault;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A column that can be edited, and the field that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub key: &'static str,
    is_number: bool,
}

const fn column(name: &'static str, key: &'static str, is_number: bool) -> Column {
    Column { name, key, is_number }
}

/// Standard and custom fields that lists have, and those that only details have.
const CONTACT: [Column; 4] = [
    column("position", "position", false),
    column("notes", "notes", false),
    column("cf_long", "long", false),
    column("cf_number", "number", true),
];
const COMPANY: [Column; 3] =
    [column("industry", "industry", false), column("cf_long", "long", false), column("cf_number", "number", true)];

impl Column {
    pub fn is_custom(self) -> bool {
        self.name.starts_with("cf_")
    }

    pub fn value(self, text: &str, number: i64) -> Value {
        if self.is_number { json!(number) } else { json!(text) }
    }

    /// A value that the column cannot hold.
    pub fn unfit(self) -> Value {
        if self.is_number { json!("seven") } else { json!(7) }
    }

    /// The part of a record or of a request's body that has the value.
    pub fn members(self, of: &Value) -> &Value {
        if self.is_custom() { &of["customFields"] } else { of }
    }

    pub fn body(self, value: &Value) -> Value {
        match self.is_custom() {
            true => json!({ "customFields": { self.key: value } }),
            false => json!({ self.key: value }),
        }
    }
}

/// What the mirror knows of the value when it is edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    Read,
    Empty,
    Unread,
    UnreadAndEmpty,
    /// The service's value does not fit the column.
    Unfit,
    /// The value fitted until its field got another type.
    Retyped,
    /// The service has another value by now.
    Outdated,
    /// The field exists at the service, and its column was not filled yet.
    NewField,
    /// The column is not mirrored.
    Excluded,
    /// The column was not mirrored until now, and no run has read it since.
    NoLongerExcluded,
    /// No answer shows the field, until the last pushes.
    Unshown,
}

impl Knowledge {
    /// Whether the service has no value at first.
    pub fn is_empty(self) -> bool {
        matches!(self, Knowledge::Empty | Knowledge::UnreadAndEmpty)
    }
}

/// How the record is edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// One column.
    One,
    /// One column is cleared.
    Clears,
    /// One column twice: the second edit replaces the first.
    Twice,
    /// All columns at once.
    All,
    /// Each column by an edit of its own: they are merged into one request.
    Each,
}

/// What the service answers to the first update.
#[derive(Clone, Debug)]
pub enum Reply {
    Fault(Fault),
    /// Status 200 with the record as it was before the update.
    Unchanged,
}

impl Reply {
    pub fn fault(&self, crm: &Crm, object: Object) -> Fault {
        match self {
            Reply::Fault(fault) => fault.clone(),
            Reply::Unchanged => {
                let record = crm.sandbox.with_world(|world| world.detail_json(object, "a")).unwrap();
                Fault::Body(json!({ "data": record }).to_string())
            }
        }
    }
}

/// Whose file sends the edits, besides the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyKind {
    None,
    BeforeItIsSent,
    AfterItIsSent,
    /// The original's contents are replaced by those from before it was sent.
    SetBack,
    /// The same, and the file gets another name, or loses its lock file.
    SetBackUnderAnotherName,
}

/// What others do at the service between two pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theirs {
    Nothing,
    SetBack,
    Other,
    SameField,
    Unfit,
}

/// One combination.
#[derive(Clone, Debug)]
pub struct Case {
    pub knowledge: Knowledge,
    pub object: Object,
    /// The column that `knowledge` is about.
    pub column: Column,
    pub author: Author,
    pub with_sql: bool,
    pub answer: Option<Reply>,
    pub killed_after: [Option<u64>; 2],
    pub theirs: [Theirs; 2],
    pub waits: [u64; 2],
    pub clock: i64,
    pub copy: CopyKind,
    /// Whether answers to reads lack the field once the record was edited, until the last pushes.
    pub hides: bool,
}

impl Case {
    /// The edited columns, the one that `knowledge` is about first.
    pub fn columns(&self) -> Vec<Column> {
        let mut columns = vec![self.column];
        if matches!(self.author, Author::All | Author::Each) {
            columns.extend(columns_of(self.object).iter().filter(|other| **other != self.column));
        }
        columns
    }
}

pub fn columns_of(object: Object) -> &'static [Column] {
    if object == Object::Contact { &CONTACT } else { &COMPANY }
}

fn reply() -> impl Strategy<Value = Option<Reply>> {
    let fault = prop_oneof![
        4 => Just(Fault::ResetAfterApply),
        1 => Just(Fault::Reset),
        1 => Just(Fault::Truncated),
        1 => Just(Fault::StatusAfterApply(200)),
        3 => prop::sample::select(vec![200, 202, 400, 403, 404, 408, 409, 412, 422, 429, 500, 503]).prop_map(Fault::Status),
        1 => Just(Fault::ErrorAfterApply(503)),
        1 => Just(Fault::StatusAfterApply(504)),
        2 => prop::sample::select(vec![
            "{}", "null", "[]", r#"{"data":null}"#, r#"{"data":{"id":"b"}}"#, r#"{"error":"internal","message":"sorry"}"#,
        ])
        .prop_map(|body| Fault::Body(body.into())),
    ];
    prop_oneof![
        2 => Just(None),
        7 => fault.prop_map(|fault| Some(Reply::Fault(fault))),
        1 => Just(Some(Reply::Unchanged)),
    ]
}

/// The cases of one state of knowledge, whatever else happens.
pub fn cases(knowledge: Knowledge) -> impl Strategy<Value = Case> {
    let is_about = move |column: &Column| {
        let only_custom = matches!(knowledge, Knowledge::NewField | Knowledge::Retyped);
        column.is_custom() || !only_custom
    };
    let of = |object| (Just(object), prop::sample::select(columns_of(object).to_vec()));
    let column = prop_oneof![2 => of(Object::Contact), 1 => of(Object::Company)]
        .prop_filter("the field can be in that state", move |(_, column)| is_about(column));
    let author =
        prop::sample::select(vec![Author::One, Author::One, Author::Clears, Author::Twice, Author::All, Author::Each]);
    let kill = || prop::option::weighted(0.3, 0_u64..9);
    let theirs = || {
        // Only a value that is set back looks as if nothing had been sent.
        let all = [Theirs::Nothing, Theirs::SetBack, Theirs::SetBack, Theirs::Other, Theirs::SameField, Theirs::Unfit];
        prop::sample::select(all.to_vec())
    };
    let wait = || prop_oneof![10_u64..4_000, 80_000_u64..200_000];
    let clock = prop::sample::select(vec![0, 0, 3 * 86_400, -3 * 86_400, 400 * 86_400]);
    let copy = prop::sample::select(vec![
        CopyKind::None,
        CopyKind::BeforeItIsSent,
        CopyKind::AfterItIsSent,
        CopyKind::SetBack,
        CopyKind::SetBackUnderAnotherName,
    ]);
    let hides = prop::bool::weighted(0.2);
    let edit = (column, author, any::<bool>());
    let meanwhile = ([kill(), kill()], [theirs(), theirs()], [wait(), wait()], clock, copy, hides);
    (edit, reply(), meanwhile).prop_map(
        move |(((object, column), author, with_sql), answer, (killed_after, theirs, waits, clock, copy, hides))| Case {
            knowledge,
            object,
            column,
            author,
            with_sql,
            answer,
            killed_after,
            theirs,
            waits,
            clock,
            copy,
            hides,
        },
    )
}
