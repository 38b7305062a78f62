//! What happens in the CRM while a run is under way: between two of its requests, at later and later moments.

use std::time::Duration;

use crm_mirror::model::Clock;
use crm_mirror::sandbox::World;
use fastrand::Rng;

use super::Life;
use crate::people;
use crate::script::What;

/// How many changes one run meets at most.
const MAX_CHANGES: u32 = 8;

impl Life<'_> {
    /// Before the requests of the next run, claims are looked into, and from one of them on changes happen.
    /// Returns whether that may hide records from the run.
    pub(super) fn before_requests(&mut self) -> bool {
        let (burst, during_run) = (self.burst.take(), self.during_run.clone());
        // A removal lets another record slip between two pages, and no count of a range of time shows that.
        let hides_records = burst.is_some() && self.script.offsets && (self.script.tied || self.has_tied);
        during_run.lock().unwrap().begin(self.watch.claims.clone(), self.doubt_until);
        let mut changes = burst.map(|burst| self.changes_between_requests(burst));
        self.crm.sandbox.before_request(move |world, asked| {
            if !hides_records {
                during_run.lock().unwrap().before_request(world, asked);
            }
            changes.iter_mut().for_each(|change| change(world));
        });
        hides_records
    }

    /// What happens before each request, from one of these on.
    fn changes_between_requests(&self, (from, seed): (u32, u32)) -> impl FnMut(&mut World) + Send + use<> {
        let (mut rng, clock) = (Rng::with_seed(seed.into()), self.crm.clock.clone());
        let (mut before, mut left) = (from, rng.u32(1..=MAX_CHANGES));
        move |world| {
            if before > 0 {
                before -= 1;
            } else if left > 0 {
                left -= 1;
                clock.advance(Duration::from_millis(rng.u64(1..2_000)));
                world.now = clock.now();
                people::in_the_crm(world, &What::drawn_between_requests(&mut rng));
            }
        }
    }

    /// The service forgets the cursors that it gave out.
    pub(super) fn forget_cursors(&self) {
        self.crm.sandbox.configure(|settings| settings.tenant.push('+'));
    }
}
