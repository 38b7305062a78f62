//! The anomalies of the service, and their texts in `service_oddities`.

/// A way in which the service broke its own documentation on one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Anomaly {
    UnorderedPage,
    RowOutsideFilter,
    /// The cursor of the next page was followed before.
    RepeatedCursor,
    /// A page without rows that is not the last.
    EmptyPage,
    /// A page that was read before, with another cursor of the next one.
    RepeatedPage,
    /// The service refused a cursor that was used with its own conditions.
    RefusedCursor,
}

impl Anomaly {
    /// The text in `service_oddities`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Anomaly::UnorderedPage => "unordered_page",
            Anomaly::RowOutsideFilter => "row_outside_filter",
            Anomaly::RepeatedCursor => "repeated_cursor",
            Anomaly::EmptyPage => "empty_page",
            Anomaly::RepeatedPage => "repeated_page",
            Anomaly::RefusedCursor => "refused_cursor",
        }
    }

    /// The sentence in `service_oddities`.
    pub const fn sentence(self) -> &'static str {
        match self {
            Anomaly::UnorderedPage => "rows were not in the requested order",
            Anomaly::RowOutsideFilter => "a row did not match the filter",
            Anomaly::RepeatedCursor => "a cursor was repeated",
            Anomaly::EmptyPage => "a page without rows had a next cursor",
            Anomaly::RepeatedPage => "a page was repeated with another cursor",
            Anomaly::RefusedCursor => "an unchanged cursor was refused",
        }
    }
}
