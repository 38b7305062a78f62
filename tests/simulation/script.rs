//! The events of one simulated life: drawn from a seed, printed as a short script, and reduced event by event.

mod beside;
mod calm;

use std::fmt;
use std::time::Duration;

use fastrand::Rng;

use crate::lasting::{Lasting, Never};
use crate::trouble::Trouble;

/// One life: its circumstances and its events in order.
#[derive(Clone, Debug)]
pub struct Script {
    pub seed: u64,
    pub days: u32,
    /// The start time as text.
    pub start: &'static str,
    pub zone: &'static str,
    pub schedule: &'static str,
    /// How many minutes after any moment the next run is due at most where no clocks change.
    pub longest_wait: u32,
    pub contacts: u32,
    pub companies: u32,
    pub members: u32,
    pub page_cap: usize,
    pub offsets: bool,
    /// Whether one import created all records, in the same moment.
    pub tied: bool,
    /// Whether answers have a `Date`.
    pub dates: bool,
    /// Whether a list of ids may have 320 characters only.
    pub short_id_lists: bool,
    /// Whether lists omit custom keys without a value.
    pub omits_nulls: bool,
    /// Whether details are read.
    pub details: bool,
    /// Request units of a window, and how long that is.
    pub budget: u64,
    pub window: Duration,
    /// How many requests are under way at once.
    pub concurrency: u32,
    /// Edits within an hour that need no person's word.
    pub max_edits: u64,
    /// Whether the life begins with a file, which is a copy of another workspace.
    pub frozen: bool,
    /// Whether it is large, and nothing misbehaves: audits count, and no sweep reads everything again.
    pub is_calm: bool,
    /// What the service never does.
    pub never: Option<Never>,
    /// What fails for ever in the end.
    pub lasting: Option<Lasting>,
    pub events: Vec<Event>,
}

/// An event this many minutes after the start; those at the start precede the first copy.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its place in the script of the seed.
    pub number: usize,
    pub minute: u32,
    pub what: What,
}

/// The kinds of events. A record is picked by a number among the existing ones.
#[derive(Clone, Debug)]
pub enum What {
    Create(u32),
    Edit(u32, u32),
    EditNotes(u32, u32),
    EditStory(u32, u32),
    EditSilently(u32, u32),
    /// A change that becomes visible this many seconds after its date.
    CommitLate(u32, u32),
    /// A change that is dated so many seconds before the one before it, as by two servers whose clocks differ.
    EditBack(u32, u32),
    /// A change after which a contact has something else than an object in the place of its location, or has it again.
    OddLocation(u32, u32),
    /// The service is restored to its records of so many hours ago.
    Rewind(u32),
    /// After a bulk change was read, one record changes with a date in its middle, and one of it changes again.
    LateBeside(u32),
    /// The newest record is removed, and one appears that is dated just before it; then an audit runs.
    Swap(u32),
    /// A change that is dated in the year 2099.
    DateAhead(u32, u32),
    Remove(u32),
    /// A removed record returns, as from a trash.
    Return(u32),
    /// This share of the contacts at once.
    RemoveMany(u32),
    BulkEdit(u32, u32),
    /// The same at one moment: all of them have the same date.
    TiedEdit(u32, u32),
    /// During the next run, from this request on, a few of these happen between its requests.
    Burst(u32, u32),
    Team(u32),
    Archive(u32),
    Reactivate(u32),
    Define(u32),
    Relabel(u32),
    /// A person edits the mirror in SQL: one record, or all of a table in one statement.
    Sql(u32, u32),
    SqlMany(u32),
    /// A person empties a field.
    SqlEmpty(u32),
    /// A person writes a text that is not UTF-8.
    SqlJunk(u32),
    /// A person sets the old value again, while an edit waits.
    TakeBack(u32),
    /// Another program spoils an edit in the outbox, at once where the second number is even.
    SpoilEdit(u32, u32),
    /// A person retries, releases or drops an edit.
    Decide(u32),
    /// A person undoes one to three applied edits.
    Undo(u32),
    /// A person makes a backup or copies the file, or puts the last of these in the place of the mirror.
    Backup,
    Copy,
    Restore,
    /// A person makes a view.
    View(u32),
    /// A person pauses the schedule for some minutes.
    Pause(u32),
    ClearHold,
    /// A person asks for a whole copy, or for a verification with repair.
    Resync,
    Verify,
    /// The daemon is stopped, a person runs `sync`, and the daemon begins again.
    OtherProcess,
    /// The key of another workspace, which has records with the same ids, and a person accepts it.
    OtherWorkspace(u32),
    /// The service misbehaves for some minutes.
    Trouble(Trouble, u32),
    /// The mirror's clock is wrong by this many seconds for some minutes.
    ClockJump(i64, u32),
    /// The next run is killed before this commit.
    Kill(u32),
    /// An entry of the mirror's private state becomes unreadable.
    Junk(u32),
    /// The key loses a scope for some minutes.
    ScopeLost(&'static str, u32),
    /// The key is refused, and some minutes later the daemon gets another.
    KeyRotated(u32),
    /// The service forgets the cursors that it gave out.
    CursorsDie,
    /// The configuration allows another budget.
    Budget(u64),
    /// During the next run no file can grow beyond so many KiB.
    DiskFull(u32),
    /// Another program holds the write lock when the next run begins.
    Locked,
    /// Another program reads in one transaction for some minutes.
    LongReader(u32),
}

pub fn one<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.usize(..of.len())]
}

/// Schedules for changes, and how many minutes after any moment the next run is due at most where no clocks change.
const SCHEDULES: [(&str, u32); 6] = [
    ("0 */20 * * * *", 20),
    ("0 0 * * * *", 60),
    ("0 15 */3 * * *", 180),
    ("0 40 */4 * * *", 240),
    ("0 0 */6 * * *", 360),
    ("0 30 2,14 * * *", 720),
];

const BUDGETS: [u64; 6] = [3, 12, 40, 150, 1_000, 1_000_000];

impl Script {
    /// The life of a seed, with the events that are wanted. Without a number of days the seed draws one.
    pub fn of(seed: u64, days: Option<u32>, wanted: impl Fn(&What) -> bool) -> Script {
        let rng = &mut Rng::with_seed(seed);
        let days = days.unwrap_or_else(|| one(rng, &[1, 3, 7, 30, 90]));
        let mut script = Script::without_events(seed, days, rng);
        if script.is_calm {
            script.become_calm(rng, wanted);
            return script;
        }
        // In every second life a few kinds of events happen again and again: what needs several rare ones is met too.
        let usual: Vec<What> = match rng.bool() {
            true => std::iter::repeat_with(|| What::drawn(rng)).take(3).collect(),
            false => Vec::new(),
        };
        for _ in 0..rng.u32(2..days.min(5) * 40 + days) {
            let minute = rng.u32(..days * 1440);
            let drawn = match usual.get(rng.usize(..2 * usual.len().max(1))) {
                Some(usual) => usual.again(rng),
                None => What::drawn(rng),
            };
            // An unwanted disturbance is replaced by a wanted one.
            let others = std::iter::repeat_with(|| What::drawn(rng)).take(500);
            let wanted_one = std::iter::once(drawn.clone())
                .chain(others)
                .find(|what| wanted(what) && what.is_disturbance() == drawn.is_disturbance());
            let Some(what) = wanted_one else { continue };
            if let What::Trouble(trouble, minutes) = &what {
                let beside = beside::of(trouble, (minute, *minutes), rng);
                script.events.extend(beside.into_iter().filter(|event| wanted(&event.what)));
            }
            script.events.push(Event { number: 0, minute, what });
        }
        script.events.retain(|event| event.minute < days * 1440);
        let mut first = Vec::new();
        if rng.u32(..10) == 0 {
            first.push(What::ScopeLost("custom-fields:read", rng.u32(1..1_500)));
        }
        // The first copy is the longest run, and the world does not wait for it.
        if rng.u32(..3) == 0 {
            first.push(What::Burst(rng.u32(..12), rng.u32(..)));
        }
        script.events.extend(first.into_iter().filter(&wanted).map(|what| Event { number: 0, minute: 0, what }));
        script.events.extend(script.other_workspace(rng).filter(|event| wanted(&event.what)));
        script.events.sort_by_key(|event| event.minute);
        script.events.iter_mut().enumerate().for_each(|(number, event)| event.number = number);
        script
    }

    /// A life in circumstances that are drawn.
    fn without_events(seed: u64, days: u32, rng: &mut Rng) -> Script {
        // Long lives have fewer runs a day, for the sake of their number.
        let (schedule, longest_wait) = one(rng, if days < 30 { &SCHEDULES[..5] } else { &SCHEDULES[4..] });
        let mut script = Script {
            seed,
            days,
            // The last ones reach the hours of daylight saving changes.
            start: one(rng, &["2026-06-03T09:17:00Z", "2026-03-27T20:40:00Z", "2026-10-23T22:05:00Z"]),
            zone: one(rng, &["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
            schedule,
            longest_wait,
            contacts: rng.u32(0..60),
            companies: rng.u32(0..14),
            members: one(rng, &[3, 3, 24]),
            page_cap: rng.usize(2..12),
            offsets: rng.u32(..4) == 0,
            tied: rng.u32(..3) == 0,
            dates: rng.u32(..6) > 0,
            short_id_lists: rng.u32(..4) == 0,
            omits_nulls: rng.u32(..4) == 0,
            details: rng.u32(..5) > 0,
            budget: one(rng, &BUDGETS),
            window: Duration::from_secs(one(rng, &[3_600, 21_600, 86_400, 86_400, 86_400])),
            concurrency: 1,
            max_edits: one(rng, &[5, 100]),
            frozen: rng.u32(..12) == 0,
            is_calm: rng.u32(..8) == 0,
            never: (rng.u32(..6) == 0).then(|| Never::drawn(rng)),
            lasting: rng.bool().then(|| Lasting::drawn(rng)),
            events: Vec::new(),
        };
        if let Some(never) = script.never {
            never.suits(&mut script);
        }
        if script.frozen {
            // A day after the file was written.
            (script.start, script.is_calm) = ("2026-03-05T12:00:00Z", false);
        }
        script
    }

    /// In few lives, the key becomes one of another workspace.
    fn other_workspace(&self, rng: &mut Rng) -> Option<Event> {
        let minute = rng.u32(..self.days * 1440);
        let is_there = !self.frozen && rng.u32(..8) == 0;
        is_there.then(|| Event { number: 0, minute, what: What::OtherWorkspace(rng.u32(..1_000_000)) })
    }
}

impl What {
    /// The name of the event or of the misbehaviour.
    pub fn name(&self) -> String {
        let text = match self {
            What::Trouble(trouble, _) => format!("{trouble:?}"),
            other => format!("{other:?}"),
        };
        text.split('(').next().unwrap_or_default().to_string()
    }

    /// Whether this is a disturbance rather than normal use.
    pub fn is_disturbance(&self) -> bool {
        use What::{Budget, ClockJump, CursorsDie, DiskFull, Junk, KeyRotated, Kill, Locked, LongReader, ScopeLost};
        matches!(
            self,
            What::Trouble(..)
                | ClockJump(..)
                | Kill(_)
                | Junk(_)
                | ScopeLost(..)
                | KeyRotated(_)
                | CursorsDie
                | Budget(_)
                | DiskFull(_)
                | Locked
                | LongReader(_)
        )
    }

    /// Whether what was read may have to be read again because of it: answers or the mirror's memory of them are lost, or
    /// other columns are there.
    pub fn loses_pages(&self) -> bool {
        use What::{
            Archive, CursorsDie, Define, DiskFull, Junk, KeyRotated, Kill, Locked, OtherWorkspace, Reactivate, Restore,
            ScopeLost,
        };
        matches!(
            self,
            What::Trouble(..)
                | Archive(_)
                | CursorsDie
                | Define(_)
                | DiskFull(_)
                | Junk(_)
                | KeyRotated(_)
                | Kill(_)
                | Locked
                | OtherWorkspace(_)
                | Reactivate(_)
                | Restore
                | ScopeLost(..)
        )
    }

    /// What happens between two requests of a run.
    pub fn drawn_between_requests(rng: &mut Rng) -> What {
        let (a, b) = (rng.u32(..1000), rng.u32(1..1_000_000));
        match rng.u32(..20) {
            0..3 => What::Create(b),
            3..12 => What::Edit(a, b),
            12..14 => What::EditNotes(a, b),
            14..17 => What::EditStory(a, b),
            17..19 => What::Remove(a),
            _ => What::CommitLate(a, b % 50),
        }
    }

    /// How long something lasts: mostly minutes, sometimes days.
    fn minutes(rng: &mut Rng) -> u32 {
        if rng.u32(..8) == 0 { rng.u32(400..3_000) } else { rng.u32(1..400) }
    }

    /// An event of the same kind; the service misbehaves in the same way.
    fn again(&self, rng: &mut Rng) -> What {
        if let What::Trouble(trouble, _) = self {
            return What::Trouble(trouble.clone(), What::minutes(rng));
        }
        let kind = std::mem::discriminant(self);
        let alike = std::iter::repeat_with(|| What::drawn(rng)).take(2_000);
        let found = alike.into_iter().find(|what| std::mem::discriminant(what) == kind);
        found.unwrap_or_else(|| self.clone())
    }

    /// What people do with the mirror while the service misbehaves.
    fn drawn_of_people(rng: &mut Rng) -> What {
        let (a, b) = (rng.u32(..1000), rng.u32(1..1_000_000));
        match rng.u32(..20) {
            0..9 => What::Sql(a, b),
            9 => What::SqlMany(b),
            10 => What::SqlEmpty(a),
            11 => What::TakeBack(a),
            12 => What::SpoilEdit(a, b),
            13..16 => What::Decide(b),
            16 => What::Undo(b),
            17 => What::Verify,
            18 => What::Resync,
            _ => What::OtherProcess,
        }
    }

    fn drawn(rng: &mut Rng) -> What {
        let (a, b) = (rng.u32(..1000), rng.u32(1..1_000_000));
        let minutes = What::minutes(rng);
        let scopes = ["contacts:read", "companies:read", "custom-fields:read", "team-members:read", "contacts:write"];
        match rng.u32(..150) {
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
            70..71 => What::SqlMany(b),
            71..73 => What::Decide(b),
            73..74 => What::View(b),
            74..75 => What::Pause(minutes),
            75..76 => {
                if rng.bool() {
                    What::ClearHold
                } else {
                    What::Resync
                }
            }
            76..77 => What::Resync,
            77..79 => What::Verify,
            79..81 => What::OtherProcess,
            81..101 => What::Trouble(Trouble::drawn(rng), minutes),
            101..104 => {
                let jump = one(rng, &[-86_400 * 40, -86_400, -7_200, -30, 30, 5_400, 86_400, 86_400 * 400]);
                What::ClockJump(jump, rng.u32(1..600))
            }
            104..109 => What::Kill(b % 14),
            109..110 => What::Junk(b),
            110..112 => What::ScopeLost(one(rng, &scopes), minutes),
            112..113 => What::KeyRotated(minutes),
            113..114 => What::Budget(one(rng, &BUDGETS)),
            114..118 => What::DiskFull(one(rng, &[0, 4, 40, 150, 300, 400, 500])),
            118..119 => What::Locked,
            119..120 => What::LongReader(rng.u32(1..150)),
            120..122 => What::Undo(b),
            122..123 => What::Backup,
            123..124 => What::Restore,
            124..125 => What::DateAhead(a, b),
            125..126 => What::SqlJunk(a),
            126..129 => What::TakeBack(a),
            129..130 => What::SpoilEdit(a, b),
            130..132 => What::KeyRotated(minutes),
            132..134 => What::Return(a),
            134..136 => What::OddLocation(a, b),
            136..143 => What::Burst(a % 16, b),
            143..144 => What::CursorsDie,
            144..146 => What::SqlEmpty(a),
            146..148 => What::EditBack(a, one(rng, &[1, 40, 3_600, 36_000])),
            148..149 => What::Copy,
            _ => What::TiedEdit(20 + b % 80, b),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}, {} days from {} in {}, schedule \"{}\", {} contacts, {} companies, pages of {}{}{}{}{}{}, {} RU in \
             {:?}, {} edits an hour{}{}{}{}{}",
            self.seed,
            self.days,
            self.start,
            self.zone,
            self.schedule,
            self.contacts,
            self.companies,
            self.page_cap,
            if self.offsets { " by offset" } else { "" },
            if self.dates { "" } else { " without a date" },
            if self.short_id_lists { ", short lists of ids" } else { "" },
            if self.omits_nulls { ", null is omitted" } else { "" },
            if self.details { "" } else { ", no details" },
            self.budget,
            self.window,
            self.max_edits,
            if self.tied { ", one import" } else { "" },
            if self.is_calm { ", calm" } else { "" },
            if self.frozen { ", a file of another workspace" } else { "" },
            self.never.map(|never| format!(", never {never:?}")).unwrap_or_default(),
            self.lasting.map(|lasting| format!(", in the end {lasting:?}")).unwrap_or_default(),
        )?;
        for Event { minute, what, .. } in &self.events {
            let (day, hour, minute) = (minute / 1440, minute / 60 % 24, minute % 60);
            writeln!(f, "  day {day} +{hour:02}:{minute:02}  {what:?}")?;
        }
        Ok(())
    }
}
