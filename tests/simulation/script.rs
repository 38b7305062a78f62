//! What happens in one simulated life: drawn from a seed, printed as a short script, and reduced event by event.

use std::fmt;

use crm_mirror::model::Resource;
use fastrand::Rng;

/// One life: its circumstances and its events in order.
#[derive(Clone, Debug)]
pub struct Script {
    pub seed: u64,
    pub days: u32,
    /// The first moment, as text.
    pub start: &'static str,
    pub zone: &'static str,
    pub schedule: &'static str,
    pub contacts: u32,
    pub companies: u32,
    pub page_cap: usize,
    pub offsets: bool,
    pub budget: u64,
    pub events: Vec<Event>,
}

/// Something that happens so many minutes after the beginning.
#[derive(Clone, Debug)]
pub struct Event {
    pub minute: u32,
    pub what: What,
}

/// What happens. A record is picked by a number among those that are there.
#[derive(Clone, Debug)]
pub enum What {
    Create(u32),
    Edit(u32, u32),
    EditNotes(u32, u32),
    EditStory(u32, u32),
    EditSilently(u32, u32),
    /// A change that becomes visible this many seconds after its date.
    CommitLate(u32, u32),
    Remove(u32),
    /// This share of the contacts at once.
    RemoveMany(u32),
    BulkEdit(u32, u32),
    Team(u32),
    Archive(u32),
    Reactivate(u32),
    Define(u32),
    Relabel(u32),
    /// A person edits the mirror in SQL.
    Sql(u32, u32),
    /// The service misbehaves for some minutes.
    Trouble(Trouble, u32),
    /// The mirror's clock is wrong by so many seconds for some minutes.
    ClockJump(i64, u32),
    /// The next run is killed before this commit.
    Kill(u32),
    /// An entry of the mirror's private state becomes unreadable.
    Junk(u32),
    /// The key loses the right to read one object for some minutes.
    ScopeLost(Resource, u32),
    /// A person asks for a whole copy, or for a verification with repair.
    Resync,
    Verify,
}

/// How the service misbehaves: a share of the requests in percent, or all.
#[derive(Clone, Debug)]
pub enum Trouble {
    FalseNotFound(u32),
    Html(u16, u32),
    Status(u16, u32),
    RateLimit(u64, u32),
    Gateway(u16, u32),
    Reset(u32),
    Lost(u32),
    Truncated(u32),
    Redirect(u16),
    RefusedCursors(u32),
    Lag(u32, u32),
    EmptyLists,
    Hidden(u8),
    NoDate,
    WrongDate(i64),
    Unordered(u32),
    RepeatedPages(u32),
    BadRecord(u32, u16),
}

fn one<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.usize(..of.len())]
}

impl Script {
    /// The life of a seed, with the events that are wanted.
    pub fn of(seed: u64, days: u32, wanted: impl Fn(&What) -> bool) -> Script {
        let rng = &mut Rng::with_seed(seed);
        let mut script = Script {
            seed,
            days,
            // The last ones reach the hours in which clocks are changed.
            start: one(rng, &["2026-06-03T09:17:00Z", "2026-03-27T20:40:00Z", "2026-10-23T22:05:00Z"]),
            zone: one(rng, &["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
            schedule: one(rng, &["0 0 * * * *", "0 15 */3 * * *", "0 40 */4 * * *", "0 0 */6 * * *"]),
            contacts: rng.u32(0..60),
            companies: rng.u32(0..14),
            page_cap: rng.usize(2..12),
            offsets: rng.u32(..4) == 0,
            budget: one(rng, &[40, 150, 1_000, 1_000_000]),
            events: Vec::new(),
        };
        for _ in 0..rng.u32(2..days * 20) {
            let minute = rng.u32(..days * 1440);
            let drawn = What::drawn(rng);
            // An unwanted disturbance makes room for a wanted one.
            let others = std::iter::repeat_with(|| What::drawn(rng)).take(500);
            let wanted = std::iter::once(drawn.clone())
                .chain(others)
                .find(|what| wanted(what) && what.is_disturbance() == drawn.is_disturbance());
            script.events.extend(wanted.map(|what| Event { minute, what }));
        }
        script.events.sort_by_key(|event| event.minute);
        script
    }
}

impl What {
    /// The name of the event, or of the trouble.
    pub fn name(&self) -> String {
        let text = match self {
            What::Trouble(trouble, _) => format!("{trouble:?}"),
            other => format!("{other:?}"),
        };
        text.split('(').next().unwrap_or_default().to_string()
    }

    /// Whether this is something wrong, rather than somebody's work.
    pub fn is_disturbance(&self) -> bool {
        use What::{ClockJump, Junk, Kill, ScopeLost};
        matches!(self, What::Trouble(..) | ClockJump(..) | Kill(_) | Junk(_) | ScopeLost(..))
    }

    fn drawn(rng: &mut Rng) -> What {
        let (a, b) = (rng.u32(..1000), rng.u32(1..1_000_000));
        match rng.u32(..100) {
            0..8 => What::Create(b),
            8..24 => What::Edit(a, b),
            24..30 => What::EditNotes(a, b),
            30..34 => What::EditStory(a, b),
            34..36 => What::EditSilently(a, b),
            36..40 => What::CommitLate(a, b % 50),
            40..46 => What::Remove(a),
            46..47 => What::RemoveMany(5 + b % 60),
            47..49 => What::BulkEdit(20 + b % 80, b),
            49..50 => What::Team(b),
            50..52 => What::Archive(a),
            52..54 => What::Reactivate(a),
            54..56 => What::Define(a),
            56..57 => What::Relabel(a),
            57..70 => What::Sql(a, b),
            70..87 => What::Trouble(Trouble::drawn(rng), rng.u32(1..400)),
            87..90 => {
                let jump = one(rng, &[-86_400 * 40, -86_400, -7_200, -30, 30, 5_400, 86_400, 86_400 * 400]);
                What::ClockJump(jump, rng.u32(1..600))
            }
            90..95 => What::Kill(b % 14),
            95..96 => What::Junk(b),
            96..97 => What::ScopeLost(one(rng, &[Resource::Contacts, Resource::Companies]), rng.u32(1..400)),
            97..98 => What::Resync,
            _ => What::Verify,
        }
    }
}

impl Trouble {
    fn drawn(rng: &mut Rng) -> Trouble {
        let share = one(rng, &[5, 20, 50, 100]);
        match rng.u32(..18) {
            0 => Trouble::FalseNotFound(share),
            1 => Trouble::Html(one(rng, &[403, 404, 502, 503]), share),
            2 => Trouble::Status(one(rng, &[400, 403, 502, 408, 503, 425, 500, 503, 504, 520]), share),
            3 => Trouble::RateLimit(one(rng, &[1, 30, 600, 7_200]), share),
            4 => Trouble::Gateway(one(rng, &[408, 502, 504]), share),
            5 => Trouble::Reset(share),
            6 => Trouble::Lost(share),
            7 => Trouble::Truncated(share),
            8 => Trouble::Redirect(one(rng, &[302, 303, 307])),
            9 => Trouble::RefusedCursors(share),
            10 | 11 => Trouble::Lag(rng.u32(1..240), share),
            12 => Trouble::EmptyLists,
            13 => Trouble::Hidden(one(rng, &[5, 30, 50, 90])),
            14 => Trouble::NoDate,
            15 => Trouble::WrongDate(one(rng, &[-86_400, -600, 600, 86_400])),
            16 => {
                if rng.bool() {
                    Trouble::Unordered(share)
                } else {
                    Trouble::RepeatedPages(share.min(20))
                }
            }
            _ => Trouble::BadRecord(rng.u32(..1000), one(rng, &[400, 403, 503, 500, 520])),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}, {} days from {} in {}, schedule \"{}\", {} contacts, {} companies, pages of {}{}, {} RU a day",
            self.seed,
            self.days,
            self.start,
            self.zone,
            self.schedule,
            self.contacts,
            self.companies,
            self.page_cap,
            if self.offsets { " by offset" } else { "" },
            self.budget
        )?;
        for Event { minute, what } in &self.events {
            let (day, hour, minute) = (minute / 1440, minute / 60 % 24, minute % 60);
            writeln!(f, "  day {day} +{hour:02}:{minute:02}  {what:?}")?;
        }
        Ok(())
    }
}
