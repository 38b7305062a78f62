//! What happens in the CRM while a run is under way: between two of its requests, at later and later moments.

use std::time::Duration;

use fastrand::Rng;

use super::Life;
use crate::people;
use crate::script::What;

/// How many changes one run meets at most.
const MOST_CHANGES: u32 = 8;

impl Life<'_> {
    /// From this request of the next run on, changes happen before its requests.
    pub(super) fn change_between_requests(&self, (from, seed): (u32, u32)) {
        let (mut rng, clock) = (Rng::with_seed(seed.into()), self.crm.clock.clone());
        let (mut before, mut left) = (from, rng.u32(1..=MOST_CHANGES));
        self.crm.sandbox.before_request(move |world, _| {
            if before > 0 {
                before -= 1;
            } else if left > 0 {
                left -= 1;
                clock.advance(Duration::from_millis(rng.u64(1..2_000)));
                world.set_now(crm_mirror::model::Clock::now(&clock));
                people::in_the_crm(world, &What::drawn_between_requests(&mut rng));
            }
        });
    }

    /// The service forgets the cursors that it gave out.
    pub(super) fn forget_cursors(&self) {
        self.crm.sandbox.configure(|settings| settings.tenant.push('+'));
    }
}
