//! The parts of a run: who reads, who checks, who removes. Each owns its requests, and all share one [`Run`].

use super::run::Run;

/// Gives each part its type, and the method of [`Run`] that opens it.
macro_rules! doors {
    ($($(#[doc = $doc:literal])+ $open:ident: $door:ident;)+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Copy)]
            pub(in crate::sync) struct $door<'r> {
                pub(in crate::sync) run: &'r Run<'r>,
            }
        )+

        impl Run<'_> {
            $(
                $(#[doc = $doc])+
                pub(in crate::sync) const fn $open(&self) -> $door<'_> {
                    $door { run: self }
                }
            )+
        }
    };
}

doors! {
    /// Walks over lists page by page: changes, first copies, sweeps.
    walks: Walks;
    /// The lists that are read as a whole: definitions of custom fields, team members.
    whole_lists: WholeLists;
    /// The values of single columns: of fields that became known, and those that lists omit.
    back_fills: BackFills;
    /// Reads details.
    details: Details;
    /// Looks records up by id.
    lookups: Lookups;
    /// Compares the mirror with the service by counts and pages.
    audits: Audits;
    /// Decides what may be removed, and whether the service is still the same workspace.
    gate: RemovalGate;
}
