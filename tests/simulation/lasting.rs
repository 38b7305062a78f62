//! What fails for ever: one record, one list, or every page that is too large. Everything else must stay fresh
//! meanwhile, for a bounded number of requests, and recovery must need nobody.

use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{Fault, Hidden, LoggedRequest, Route, Rule, World};
use fastrand::Rng;

use crate::people::{TURNS, object, pick};
use crate::script::{Script, one};
use crate::support::bodies;
use crate::trouble::HEAVY;

/// Pages of so few rows are not followed by value.
const FEW_ROWS: usize = 5;

/// What the service never does, from its first day on.
#[derive(Clone, Copy, Debug)]
pub enum Never {
    /// It counts nothing: such requests are refused with this status, or have no total where it is 200.
    Count(u16),
    /// It follows no cursor behind so many pages of records.
    PageFurther(u32),
    /// It follows no cursor in lists of records: such requests are refused with this status.
    FollowCursors(u16),
}

impl Never {
    pub fn drawn(rng: &mut Rng) -> Never {
        match rng.u32(..4) {
            0 | 1 => Never::Count(one(rng, &[200, 400, 503])),
            2 => Never::PageFurther(rng.u32(1..4)),
            _ => Never::FollowCursors(one(rng, &[404, 410, 422])),
        }
    }

    /// Makes the circumstances of a life such that everything can be mirrored all the same.
    pub fn suits(self, script: &mut Script) {
        if let Never::PageFurther(_) | Never::FollowCursors(_) = self {
            script.offsets |= matches!(self, Never::PageFurther(_));
            script.tied = false;
            script.page_cap = script.page_cap.max(FEW_ROWS + 1);
        }
    }

    pub fn rules(self, script: &Script) -> Vec<Rule> {
        let of_records = |fault: Fault| {
            Object::ALL
                .map(|object| Rule::new(fault.clone()).on(object.resource()).lists().with_param("cursor").forever())
                .into()
        };
        match self {
            Never::Count(200) => vec![Rule::new(Fault::NoTotal).with_param("count").forever()],
            Never::Count(status) => vec![Rule::new(Fault::Status(status)).with_param("count").forever()],
            Never::PageFurther(pages) => of_records(Fault::PageWindow(pages as usize * script.page_cap)),
            Never::FollowCursors(status) => of_records(Fault::Status(status)),
        }
    }
}

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
    /// Every cursor is refused with this status: lists have one page.
    RefusedCursors(u16),
    /// Cursors behind so many pages are refused.
    PageWindow(u32),
    /// No answer with one of one to three records of an object is JSON.
    BadNumber(u32),
    /// Lists compare times in whole seconds, and show more digits.
    CoarseTimes,
    /// The definition of a field that contacts have is not listed.
    Unlisted,
    /// Every count is refused with this status.
    NoCounts(u16),
}

impl Lasting {
    pub fn drawn(rng: &mut Rng) -> Lasting {
        match rng.u32(..10) {
            0 => Lasting::Record(rng.u32(..1000), one(rng, &[400, 403, 404, 410, 500, 503, 520])),
            1 => Lasting::Three(one(rng, &[400, 500])),
            2 => Lasting::List(one(rng, &Resource::ALL), one(rng, &[404, 410, 500, 503, 520])),
            3 => Lasting::RefusedCursors(one(rng, &[400, 404, 410, 422])),
            4 => Lasting::PageWindow(rng.u32(1..4)),
            5 => Lasting::BadNumber(rng.u32(..1000)),
            6 => Lasting::CoarseTimes,
            7 => Lasting::Unlisted,
            8 => Lasting::NoCounts(one(rng, &[400, 503])),
            _ => Lasting::HeavyRows,
        }
    }

    /// What fails in this world; `None` where there is no record that could.
    pub fn begin(self, world: &World, script: &Script) -> Option<LastingTrouble> {
        let picked = |object, which| Some((object, pick(world, object, which)?));
        let records = match self {
            Lasting::Record(which, _) => vec![picked(object(which), which)?],
            Lasting::BadNumber(which) => {
                (0..=which / 10 % 3).filter_map(|n| picked(object(which), which + 17 * n)).collect()
            }
            // Those are edited together.
            Lasting::Three(_) if world.count(Resource::Contacts) < TURNS as usize * 3 => return None,
            Lasting::Three(_) => (0..3).filter_map(|which| picked(Object::Contact, which * TURNS)).collect(),
            _ => Vec::new(),
        };
        let unlisted = world.definitions.iter().find(|known| known.key == "motto")?.id.to_string();
        let definitions = world.definitions.len();
        let page_cap = script.page_cap;
        let pages_by_value = page_cap > FEW_ROWS && !script.tied;
        Some(LastingTrouble { what: self, records, unlisted, definitions, page_cap, pages_by_value })
    }
}

/// What fails, with the records that it is about.
pub struct LastingTrouble {
    what: Lasting,
    records: Vec<(Object, String)>,
    /// The definition that [`Lasting::Unlisted`] is about.
    unlisted: String,
    /// How many definitions there are, and how many rows a page has.
    definitions: usize,
    page_cap: usize,
    /// Whether records can be read without cursors.
    pages_by_value: bool,
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
            Lasting::PageWindow(pages) => {
                vec![Rule::new(Fault::PageWindow(pages as usize * self.page_cap)).with_param("cursor").forever()]
            }
            Lasting::CoarseTimes => vec![Rule::new(Fault::CoarseTimes).lists().forever()],
            Lasting::BadNumber(_) => {
                let ids: Vec<&str> = self.records.iter().map(|(_, id)| id.as_str()).collect();
                vec![Rule::new(bodies::bad_number(&ids.join(" "))).forever()]
            }
            Lasting::RefusedCursors(status) => vec![Rule::new(Fault::Status(status)).with_param("cursor").forever()],
            Lasting::NoCounts(status) => vec![Rule::new(Fault::Status(status)).with_param("count").forever()],
            Lasting::Unlisted => {
                let hidden = Fault::Hide(Hidden::ids([self.unlisted.as_str()]));
                vec![Rule::new(hidden).on(Resource::CustomFields).forever()]
            }
        }
    }

    /// Whether a difference is one that cannot be helped meanwhile.
    pub fn excuses(&self, difference: &str) -> bool {
        match self.what {
            Lasting::Record(..) | Lasting::Three(_) | Lasting::BadNumber(_) => self
                .records
                .iter()
                .any(|(object, id)| difference.contains(id.as_str()) || difference.starts_with(&format!("{object}: "))),
            Lasting::List(Resource::Contacts, _) => difference.contains("contact") || difference.contains("ct_"),
            Lasting::List(Resource::Companies, _) => difference.contains("compan") || difference.contains("co_"),
            // Definitions and members have no values to go on by.
            Lasting::RefusedCursors(_) | Lasting::PageWindow(_) => {
                let without_values = ["custom_field_definitions", "options of", "team_members"];
                !self.pages_by_value || without_values.iter().any(|list| difference.starts_with(list))
            }
            Lasting::Unlisted => difference.contains("motto") || difference.contains(&self.unlisted),
            _ => false,
        }
    }

    /// Whether the cursors of that time are worth nothing afterwards.
    pub fn ends_cursors(&self) -> bool {
        self.counts_rows() || matches!(self.what, Lasting::RefusedCursors(_))
    }

    /// Whether the cursors of that time count rows.
    pub fn counts_rows(&self) -> bool {
        matches!(self.what, Lasting::PageWindow(_))
    }

    /// Whether many records are changed at one moment meanwhile. Those that were created at one moment as well could not be
    /// told from a bad one.
    pub fn has_ties(&self, script: &Script) -> bool {
        !(script.tied && matches!(self.what, Lasting::BadNumber(_)))
    }

    /// Whether lists that are always read whole lack something.
    pub fn cuts_lists(&self) -> bool {
        matches!(self.what, Lasting::Unlisted)
    }

    /// How many requests a day to what fails are too many.
    pub fn most_a_day(&self) -> usize {
        match self.what {
            // In the first hours 5 an hour, then 5 a day, each of several attempts.
            Lasting::Record(..) | Lasting::Three(_) => 60 * self.records.len(),
            // After the first hours 24 a day, each with the attempts of several steps.
            Lasting::List(..) | Lasting::NoCounts(_) => 500,
            Lasting::HeavyRows
            | Lasting::RefusedCursors(_)
            | Lasting::PageWindow(_)
            | Lasting::CoarseTimes
            | Lasting::BadNumber(_) => usize::MAX,
            // Ten readings, each of the pages of both objects.
            Lasting::Unlisted => 10 * (self.definitions / self.page_cap + 2),
        }
    }

    /// Whether a request is one to what fails.
    pub fn concerns(&self, entry: &LoggedRequest) -> bool {
        match self.what {
            Lasting::Record(..) | Lasting::Three(_) => {
                self.records.iter().any(|(object, id)| entry.asked.route == Route::One(*object, id.clone()))
            }
            Lasting::List(resource, _) => entry.asked.lists(resource),
            Lasting::NoCounts(_) => entry.asked.param("count").is_some(),
            Lasting::Unlisted => entry.asked.lists(Resource::CustomFields),
            _ => false,
        }
    }
}
