//! Large and calm lives: nothing misbehaves but what a service does without telling anybody, and no sweep reads everything
//! again. Audits have to count, since no list is as short as a page.

use std::time::Duration;

use fastrand::Rng;

use super::{Event, SCHEDULES, Script, What};

impl Script {
    /// Makes it large and calm: everything that no list of changes shows is found by counts.
    pub(super) fn become_calm(&mut self, rng: &mut Rng, wanted: impl Fn(&What) -> bool) {
        self.days = self.days.min(2);
        (self.schedule, self.longest_wait) = SCHEDULES[1];
        (self.contacts, self.page_cap, self.details) = (rng.u32(700..1_000), 100, false);
        (self.never, self.lasting) = (None, None);
        (self.budget, self.window) = (1_000_000, Duration::from_secs(86_400));
        let days = self.days;
        let drawn = std::iter::repeat_with(|| (rng.u32(60..days * 1440), What::drawn_of_calm(rng)));
        let mut events: Vec<_> = drawn.take(8).filter(|(_, what)| wanted(what)).collect();
        events.sort_by_key(|(minute, _)| *minute);
        let numbered = events.into_iter().enumerate();
        self.events = numbered.map(|(number, (minute, what))| Event { number, minute, what }).collect();
    }
}

impl What {
    /// What happens in a calm life.
    fn drawn_of_calm(rng: &mut Rng) -> What {
        // The record is a contact: the guard would refuse to remove two of few companies.
        let (a, b) = (4 * rng.u32(..1000), rng.u32(1..1_000_000));
        match rng.u32(..11) {
            0..2 => What::Edit(a, b),
            2 => What::Create(4 * b),
            3 => What::Remove(a),
            4 => What::BulkEdit(1 + b % 100, b),
            5 => What::CommitLate(a, b % 50),
            6..8 => What::Rewind(rng.u32(1..12)),
            8..10 => What::LateBeside(b),
            _ => What::Swap(b),
        }
    }
}
