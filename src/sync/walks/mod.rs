//! Reading the service's lists and details into the mirror.
//!
//! [`walk`] decides, page by page, what to ask next and what a page means; `pages` carries walks out. On these stand the
//! changes walk, the sweep, the short lists of definitions and team members, the back-fill of new columns, and the
//! details.

mod anomaly;
pub mod changes;
pub(super) mod definitions;
mod detail_failures;
mod details;
pub(super) mod fill;
pub(super) mod lookup;
mod nominate;
pub(super) mod owed;
pub(super) mod pages;
pub(super) mod progress;
mod range;
pub mod sweep;
pub(super) mod unknown_keys;
pub mod walk;
