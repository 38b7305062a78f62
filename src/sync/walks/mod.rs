//! Reading the service's lists and details into the mirror.
//!
//! [`walk`] decides, page by page, what to request next and what a page means; `pages` executes walks. The changes
//! walk, the sweep, the short lists of definitions and team members, the back-fill of new columns and the details are
//! built on them.

pub(super) mod anomaly;
pub(super) mod back_fill;
pub mod changes;
pub(crate) mod closing_counts;
pub(super) mod definitions;
mod detail_failures;
pub(super) mod details;
pub(super) mod first_copy;
pub(super) mod omitted_values;
pub(super) mod pages;
mod range;
pub(super) mod service_clock;
pub(super) mod short_list;
mod slice_cuts;
pub mod sweep;
pub(super) mod unreadable;
pub mod walk;
