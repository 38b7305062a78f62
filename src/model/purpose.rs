//! What a request is for, which determines its priority in the RU budget.

/// What a request is for, most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// A local edit on its way to the service.
    Outbox,
    /// The changes walk, and anything that a person waits for.
    Changes,
    /// Counts and confirmations.
    Audit,
    /// Definitions and team members.
    Definitions,
    Sweep,
    /// Details of changed records.
    Details,
    /// Re-reading details of records that did not change.
    Refresh,
}
