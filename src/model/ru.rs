//! Request units: what the service charges (reference, *What the service does*, rule 5), and what they are spent for.

use std::fmt;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ru(u64);

impl Ru {
    pub const ZERO: Ru = Ru(0);
    pub const GET: Ru = Ru(1);
    pub const PATCH: Ru = Ru(2);

    pub const fn new(units: u64) -> Ru {
        Ru(units)
    }

    /// What so many updates take, and so many reads before.
    pub const fn of_edits(updates: u64, reads: u64) -> Ru {
        Ru(updates.saturating_mul(Ru::PATCH.0).saturating_add(reads.saturating_mul(Ru::GET.0)))
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    #[must_use]
    pub const fn saturating_sub(self, other: Ru) -> Ru {
        Ru(self.0.saturating_sub(other.0))
    }
}

impl Add for Ru {
    type Output = Ru;
    fn add(self, other: Ru) -> Ru {
        Ru(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Ru {
    fn add_assign(&mut self, other: Ru) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Ru {
    fn sum<I: Iterator<Item = Ru>>(units: I) -> Ru {
        units.fold(Ru::ZERO, Add::add)
    }
}

impl fmt::Display for Ru {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} RU", self.0)
    }
}

/// What a request is for, which determines its priority in the RU budget; most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
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
