//! The sandbox as a standalone service: a world from a seed, a fixture or a state file, a clock that can be advanced,
//! faults and random changes, as if people worked in the CRM.
//!
//! Of a hundred changes about 84 edit a list field, 10 the notes, 3 create a record and 3 delete one. The seed
//! determines the records and values.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use serde_json::json;

use super::handle::Sandbox;
use super::patch::Replays;
use super::state::{Development, DevelopmentError, SandboxClock, Standalone, StateFile, locked};
use super::world::World;
use crate::model::{Clock, Object, duration};

const LOGGED: usize = 100_000;

impl Sandbox {
    /// A sandbox with an admin interface next to the API, and the seed of its key.
    pub fn develop(development: &Development) -> Result<(Sandbox, u64), DevelopmentError> {
        let (file, stored) = match &development.state {
            Some(path) => StateFile::open(path).map(|(file, stored)| (Some(file), stored))?,
            None => (None, None),
        };
        let clock = SandboxClock { fixed: development.now, advanced: Arc::default() };
        let (seed, advanced, world, replays) = match stored {
            Some(stored) => stored,
            None => (development.seed, Duration::ZERO, development.world(clock.now())?, Replays::default()),
        };
        *locked(&clock.advanced) = advanced;
        let sandbox = Sandbox::new(world, Arc::new(clock.clone()));
        sandbox.faults().seed(seed);
        sandbox.faults().set(&development.faults);
        // The state file is written for the first time.
        sandbox.write(|_, memory| {
            memory.settings.log_limit = Some(LOGGED);
            (memory.replays, memory.standalone) = (replays, Some(Standalone { seed, clock, file }));
        })?;
        Ok((sandbox, seed))
    }

    /// Changes the world once per interval until the future is dropped.
    pub async fn churn(&self, every: Duration, seed: u64) {
        let mut churn = Churn::new(seed);
        let mut ticks = tokio::time::interval(every.max(Duration::from_micros(100)));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            // What nobody was shown need not be in the state file: the next answer writes it.
            churn.step(&mut self.world());
        }
    }
}

/// The time between two changes, of a rate such as `5/s`.
pub fn churn_interval(rate: &str) -> Result<Duration, String> {
    let parts = rate.split_once('/').filter(|(_, unit)| ["s", "m", "h"].contains(unit));
    let interval =
        parts.and_then(|(number, unit)| duration(&format!("1{unit}")).ok()?.checked_div(number.parse().ok()?));
    let wrong = || format!("`{rate}` must be a number per unit, such as 5/s, 30/m or 200/h, and at most 10000/s");
    interval.filter(|interval| *interval >= Duration::from_micros(100)).ok_or_else(wrong)
}

struct Churn {
    rng: Rng,
    count: u64,
}

impl Churn {
    fn new(seed: u64) -> Churn {
        Churn { rng: Rng::with_seed(seed ^ 0x00C0_FFEE), count: 0 }
    }

    fn step(&mut self, world: &mut World) {
        self.count += 1;
        let object = if self.rng.u32(..10) < 8 { Object::Contact } else { Object::Company };
        let resource = object.resource();
        let kind = self.rng.u32(..100);
        let records = world.count(resource);
        if records == 0 || (94..97).contains(&kind) {
            world.create(object, &json!({ "name": format!("New {object} {}", self.count) }));
            return;
        }
        let place = self.rng.usize(..records);
        let Some(id) = world.table(resource).iter().nth(place).map(|record| record.id.to_string()) else { return };
        let changes = match (kind, object) {
            (97.., _) if records > 10 => {
                world.remove(object, &id);
                return;
            }
            (84..94, _) => json!({ "notes": format!("Note {} of the day", self.count) }),
            (_, Object::Contact) => json!({ "position": POSITIONS[self.rng.usize(..POSITIONS.len())] }),
            (_, Object::Company) => json!({ "employeeCount": self.rng.u32(5..2000) }),
        };
        world.edit(object, &id, &changes);
    }
}

const POSITIONS: [&str; 5] = ["Buyer", "Engineer", "Founder", "Head of Sales", "Office Manager"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Instant, Resource};

    #[test]
    fn rate_is_a_number_per_unit() {
        assert_eq!(churn_interval("5/s"), Ok(Duration::from_millis(200)));
        assert_eq!(churn_interval("30/m"), Ok(Duration::from_secs(2)));
        for junk in ["", "5", "0/s", "-1/s", "5/d", "x/s", "5/s/s", "20000/s", "1.5/s"] {
            assert!(churn_interval(junk).is_err(), "{junk}");
        }
    }

    #[test]
    fn equal_seeds_give_equal_changes_and_the_world_keeps_its_size() {
        let now: Instant = "2026-03-01T12:00:00Z".parse().unwrap();
        let lived = |seed| {
            let mut world = super::super::generate(3, 60, 10, now);
            let mut churn = Churn::new(seed);
            for _ in 0..2000 {
                churn.step(&mut world);
            }
            world
        };
        let (first, same, other) = (lived(1), lived(1), lived(2));
        let texts = |world: &World| -> Vec<String> {
            let ids = world.ids(Resource::Contacts);
            ids.iter().filter_map(|id| world.detail_text(Object::Contact, id)).collect()
        };
        assert_eq!(texts(&first), texts(&same));
        assert_ne!(texts(&first), texts(&other));
        assert!((60..200).contains(&first.count(Resource::Contacts)), "{}", first.count(Resource::Contacts));
    }
}
