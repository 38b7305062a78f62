//! What happens around a trouble: without it, most troubles would be over before anybody could notice them.

use fastrand::Rng;

use super::{Event, What};
use crate::trouble::Trouble;

/// What happens around a trouble that begins at a minute and lasts for so many.
pub(super) fn of(trouble: &Trouble, (from, minutes): (u32, u32), rng: &mut Rng) -> Vec<Event> {
    let event = |minute, what| Event { number: 0, minute, what };
    let mut beside = Vec::new();
    if rng.bool() {
        // People do not wait for the end of it.
        beside.push(event(from + rng.u32(..minutes), What::drawn_of_people(rng)));
    }
    let (which, v) = (rng.u32(..1000), rng.u32(1..1_000_000));
    match trouble {
        // An old picture lacks only what changed just before, and the mirror has to have read that.
        Trouble::Lag(..) | Trouble::Stopped(_) => {
            let known = [What::Create(v), What::Edit(which, v), What::OtherProcess];
            beside.extend(known.map(|what| event(from.saturating_sub(1), what)));
            beside.push(event(from + 1, if rng.bool() { What::Resync } else { What::Verify }));
        }
        // These lists are read a few times a day.
        Trouble::CutLists(..) => {
            let times = [rng.u32(..minutes), rng.u32(..minutes)];
            beside.extend(times.map(|after| event(from + after, What::Resync)));
        }
        _ => {}
    }
    beside
}
