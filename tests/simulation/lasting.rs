//! What fails for ever: one record, one list, or every page that is too large. Everything else must stay fresh
//! meanwhile, for a bounded number of requests, and recovery must need nobody.

use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{Fault, LoggedRequest, Route, Rule, World};
use fastrand::Rng;

use crate::people::{object, pick};
use crate::script::one;
use crate::trouble::HEAVY;

/// What fails for ever.
#[derive(Clone, Copy, Debug)]
pub enum Lasting {
    /// The detail of one record, with this status.
    Record(u32, u16),
    /// Those of three contacts.
    Three(u16),
    /// A list, with this status.
    List(Resource, u16),
    /// Rows with so much text that a full page is larger than what is read.
    HeavyRows,
}

impl Lasting {
    pub fn drawn(rng: &mut Rng) -> Lasting {
        match rng.u32(..6) {
            5 => Lasting::Three(one(rng, &[400, 500])),
            0 | 1 => Lasting::Record(rng.u32(..1000), one(rng, &[400, 403, 404, 410, 500, 503, 520])),
            2 | 3 => Lasting::List(one(rng, &Resource::ALL), one(rng, &[404, 410, 500, 503, 520])),
            _ => Lasting::HeavyRows,
        }
    }

    /// What fails in this world; `None` where there is no record that could.
    pub fn begin(self, world: &World) -> Option<LastingTrouble> {
        let picked = |object, which| Some((object, pick(world, object, which)?));
        let records = match self {
            Lasting::Record(which, _) => vec![picked(object(which), which)?],
            Lasting::Three(_) => (0..3).map(|which| picked(Object::Contact, which)).collect::<Option<_>>()?,
            _ => Vec::new(),
        };
        Some(LastingTrouble { what: self, records })
    }
}

/// What fails, with the records that it is about.
pub struct LastingTrouble {
    what: Lasting,
    records: Vec<(Object, String)>,
}

impl LastingTrouble {
    pub fn rules(&self) -> Vec<Rule> {
        match self.what {
            Lasting::Record(_, status) | Lasting::Three(status) => {
                let rule = |(_, id): &(Object, String)| Rule::new(Fault::Status(status)).method("GET").record(id);
                self.records.iter().map(|record| rule(record).forever()).collect()
            }
            Lasting::List(resource, status) => vec![Rule::new(Fault::Status(status)).on(resource).lists().forever()],
            Lasting::HeavyRows => vec![Rule::new(Fault::HeavyRows(HEAVY)).forever()],
        }
    }

    /// Whether a difference is one that cannot be helped meanwhile.
    pub fn excuses(&self, difference: &str) -> bool {
        match self.what {
            Lasting::Record(..) | Lasting::Three(_) => self
                .records
                .iter()
                .any(|(object, id)| difference.contains(id.as_str()) || difference.starts_with(&format!("{object}: "))),
            Lasting::List(Resource::Contacts, _) => difference.contains("contact") || difference.contains("ct_"),
            Lasting::List(Resource::Companies, _) => difference.contains("compan") || difference.contains("co_"),
            _ => false,
        }
    }

    /// How many requests a day to what fails are too many.
    pub fn most_a_day(&self) -> usize {
        match self.what {
            // In the first hours 5 an hour, then 5 a day, each of several attempts.
            Lasting::Record(..) | Lasting::Three(_) => 60 * self.records.len(),
            // After the first hours 24 a day, each with the attempts of several steps.
            Lasting::List(..) => 500,
            Lasting::HeavyRows => usize::MAX,
        }
    }

    /// Whether a request is one to what fails.
    pub fn concerns(&self, entry: &LoggedRequest) -> bool {
        match self.what {
            Lasting::Record(..) | Lasting::Three(_) => {
                self.records.iter().any(|(object, id)| entry.asked.route == Route::One(*object, id.clone()))
            }
            Lasting::List(resource, _) => entry.asked.lists(resource),
            Lasting::HeavyRows => false,
        }
    }
}
