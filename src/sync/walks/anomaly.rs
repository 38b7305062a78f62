//! What the service may do against its own document, and how that is named in `service_oddities`.

/// What the service did against its own document, on one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Oddity {
    /// Rows were not in the order asked for.
    UnorderedPage,
    /// A row does not match the filter.
    RowOutsideFilter,
    /// A cursor came that had been followed before.
    RepeatedCursor,
    /// A page without rows that is not the last.
    EmptyPage,
    /// A cursor was refused that was passed unchanged with its own conditions.
    RefusedCursor,
}

impl Oddity {
    /// The word in `service_oddities`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Oddity::UnorderedPage => "unordered_page",
            Oddity::RowOutsideFilter => "row_outside_filter",
            Oddity::RepeatedCursor => "repeated_cursor",
            Oddity::EmptyPage => "empty_page",
            Oddity::RefusedCursor => "refused_cursor",
        }
    }

    /// The sentence in `service_oddities`.
    pub const fn sentence(self) -> &'static str {
        match self {
            Oddity::UnorderedPage => "rows came in another order than asked for",
            Oddity::RowOutsideFilter => "a row came that does not match the filter",
            Oddity::RepeatedCursor => "a cursor came that had been followed before",
            Oddity::EmptyPage => "a page without rows named a next page",
            Oddity::RefusedCursor => "a cursor was refused that was passed back unchanged",
        }
    }
}
