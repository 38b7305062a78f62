//! What holds after every step, whatever happened: nothing is removed beyond the guard, no row becomes older, `status`
//! claims nothing that is not so, the ledger and the service's own count agree, the rate is bounded, and every edit is
//! carried out at most once and unaltered.

mod edits;
mod short_lists;

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use crm_mirror::app::status::{self, MirrorStatus};
use crm_mirror::budget::Ledger;
use crm_mirror::config::{Config, Environment, Sources};
use crm_mirror::model::{Clock, Instant, Object, Resource};
use crm_mirror::sandbox::{LoggedRequest, RequestLine, Route, World};
use crm_mirror::store::Reader;
use crm_mirror::store::outbox_report::EditCounts;
use rusqlite::{Connection, OptionalExtension};

use short_lists::ShortList;

use crate::claims::{Claims, Rows, rows};
use crate::people::Edits;
use crate::script::{Event, Script, What};
use crate::support::{Crm, Mirror};
use crate::trouble::Trouble;

const DAY: Duration = Duration::from_secs(86_400);
/// The share of a table that may be removed within a day without confirmation; small tables are not guarded.
const GUARD: f64 = 0.2;
const SMALL: usize = 10;

/// Until when what the service shows may be wrong, and until when rows may go, or go back, because of it.
#[derive(Clone, Copy, Debug)]
pub struct Doubts {
    pub until: Instant,
    pub of_rows_until: Instant,
}

/// What was seen so far.
pub struct Watch {
    /// The request units of a window, if they are observed, and how long a window is.
    pub budget: Option<u64>,
    window: Duration,
    /// What the service charged, and how many requests it saw.
    pub charged: u64,
    pub requests: u64,
    fingerprint: DefaultHasher,
    pub config: Config,
    /// What was looked into of the claims of `status`.
    pub claims: Claims,
    rows: BTreeMap<Object, Rows>,
    /// When rows went, and how many.
    gone: BTreeMap<Object, Vec<(Instant, usize)>>,
    /// How often each edit was carried out.
    carried_out: BTreeMap<(u32, String), u32>,
    /// When each edit was first sent.
    first_sent: BTreeMap<(u32, String), Instant>,
    /// Whether the clock may have been wrong when the file was saved.
    is_saved_in_doubt: bool,
    /// Whether nothing in the run that ended may have made a row older, even if the service shows an old picture.
    is_strict: bool,
    /// Whether a person accepted another workspace since the rows were last looked at.
    was_replaced: bool,
    /// Until when a clock may be wrong, or a day after.
    pub clocks_until: Instant,
    /// The records that were shown in an earlier version up to the last run: a second look may decide that it is right.
    older: HashSet<String>,
    /// The lists that are always read whole.
    short_lists: [ShortList; 2],
    /// The oldest entry of the history, once there is one.
    oldest_change: Option<i64>,
    /// Up to where it was read.
    newest_change: Option<i64>,
    spent: Vec<(Instant, u64)>,
    last_run: Instant,
    /// One connection for all queries: parsing the schema takes longer than the queries.
    conn: Option<Connection>,
    reader: Option<Reader>,
}

/// An entry of the mirror's state.
fn state_entry(conn: &Connection, name: &str) -> Option<String> {
    let mut stmt = conn.prepare_cached("SELECT value FROM state WHERE name = ?1").ok()?;
    stmt.query_row([name], |row| row.get(0)).ok()
}

/// The ledger in the file; an empty one if there is none.
fn ledger(conn: &Connection) -> Ledger {
    state_entry(conn, "ledger").and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

impl Watch {
    /// Nothing was seen yet of a mirror with so many request units a window.
    pub fn of(mirror: &Mirror, budget: u64, window: Duration) -> Watch {
        let flags = vec![("database.path", mirror.path.display().to_string())];
        let sources =
            Sources { file: None, default_file: "/nowhere".into(), environment: Environment::default(), flags };
        Watch {
            budget: Some(budget),
            window,
            charged: 0,
            requests: 0,
            fingerprint: DefaultHasher::new(),
            config: Config::load(&sources).unwrap(),
            claims: Claims::default(),
            rows: BTreeMap::new(),
            gone: BTreeMap::new(),
            carried_out: BTreeMap::new(),
            first_sent: BTreeMap::new(),
            is_saved_in_doubt: false,
            is_strict: false,
            was_replaced: false,
            clocks_until: Instant::EPOCH,
            older: HashSet::new(),
            short_lists: [Resource::TeamMembers, Resource::CustomFields].map(ShortList::of),
            oldest_change: None,
            newest_change: None,
            spent: Vec::new(),
            last_run: Instant::EPOCH,
            conn: None,
            reader: None,
        }
    }

    /// Of all requests so far; two lives of one script have the same.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint.finish()
    }

    /// Everything of a request but its idempotency key, which is random.
    fn add_to_fingerprint(&mut self, entry: &LoggedRequest) {
        let LoggedRequest { at, asked, if_match, idempotency_key: _, body, status, ru, .. } = entry;
        let RequestLine { method, path, query, .. } = asked;
        (at.to_string(), method, path, query, if_match, body, status, ru.get()).hash(&mut self.fingerprint);
    }

    /// A record was changed, with a date before the one that it had.
    pub fn dated_back(&mut self, id: String, at: Instant) {
        self.claims.dated_back.entry(id).or_default().insert(at.to_string());
    }

    /// Looks at the mirror and the log after a run. After a kill, or a full disk, the ledger lies beside the file until
    /// the next run: it is not `settled`.
    pub fn after_run(
        &mut self,
        script: &Script,
        crm: &Crm,
        mirror: &Mirror,
        edits: &Edits,
        settled: bool,
        doubts: Doubts,
    ) -> Result<(), String> {
        let now = crm.clock.now();
        let log = crm.sandbox.log();
        crm.sandbox.clear_log();
        self.requests += log.len() as u64;
        self.charged += log.ru().get();
        log.entries().iter().for_each(|entry| self.add_to_fingerprint(entry));
        self.carried_out(log.entries(), edits)?;
        self.few_new_edits(script, edits)?;
        self.rate(script, log.entries(), now)?;
        if !mirror.path.exists() {
            return Ok(());
        }
        let conn = self.conn.take().unwrap_or_else(|| mirror.read());
        if !has_tables(&conn) {
            return Ok(());
        }
        // Only what is looked up by id may be older than the row, or what was shown before, or what a wrong clock lets in.
        let is_lookup = |entry: &LoggedRequest| entry.asked.query.iter().any(|(name, _)| name.starts_with("filter[id"));
        let was_replaced = std::mem::take(&mut self.was_replaced);
        self.is_strict = now >= self.clocks_until && !log.entries().iter().any(is_lookup) && !was_replaced;
        let checked = self.mirror(crm, &conn, doubts).and_then(|()| self.history(&conn, now)).and_then(|()| {
            let world = crm.sandbox.world();
            let mut lists = self.short_lists.iter_mut();
            lists.try_for_each(|list| list.after_run((&world, &conn), log.entries(), doubts.until))
        });
        let ledger = ledger(&conn);
        self.older = older(&conn);
        self.conn = Some(conn);
        checked?;
        self.last_run = now;
        if settled && ledger.total.get() < self.charged {
            return Err(format!("the ledger says {}, the service charged {}", ledger.total, self.charged));
        }
        // A clock that is set by less than a minute does not move the window.
        let was_wrong = self.clocks_until > Instant::EPOCH;
        let begun = if was_wrong { ledger.since.plus(Duration::from_secs(60)) } else { ledger.since };
        let of_window: u64 = self.spent.iter().filter(|(at, _)| *at >= begun).map(|(_, ru)| ru).sum();
        if settled && now >= self.clocks_until && ledger.used.get() < of_window {
            let Ledger { used, since, .. } = ledger;
            return Err(format!("the ledger says {used} since {since}, the service charged {of_window}"));
        }
        Ok(())
    }

    /// The connection that looks at the mirror, once it was there.
    pub fn connection(&self) -> Option<&Connection> {
        self.conn.as_ref()
    }

    /// The file is saved.
    pub fn saved(&mut self, now: Instant) {
        self.is_saved_in_doubt = now < self.clocks_until;
        self.short_lists.iter_mut().for_each(ShortList::saved);
    }

    /// The file was replaced by an older one: what was seen of it no longer holds.
    pub fn restored(&mut self, now: Instant) {
        self.claims.restored(self.is_saved_in_doubt.then_some(now));
        // What was sent since the file was saved waits in it again.
        self.carried_out.values_mut().for_each(|times| *times = 0);
        (self.conn, self.reader) = (None, None);
        self.rows.clear();
        self.gone.clear();
        self.short_lists.iter_mut().for_each(ShortList::restored);
        (self.oldest_change, self.newest_change) = (None, None);
    }

    /// A clock may be wrong until then: what it lets in takes until the next day to be put right.
    pub fn clocks_are_wrong_until(&mut self, until: Instant) {
        self.clocks_until = self.clocks_until.max(until.plus(DAY));
    }

    /// The service has the records of another workspace from now on: those that were seen are replaced.
    pub fn workspace_is_another(&mut self, now: Instant) {
        self.claims.restored(Some(now));
        self.carried_out.values_mut().for_each(|times| *times = 0);
        self.short_lists.iter_mut().for_each(ShortList::replaced);
    }

    /// A person accepts the other workspace.
    pub fn rows_are_replaced(&mut self) {
        self.removals_were_accepted();
        self.was_replaced = true;
        (self.oldest_change, self.newest_change) = (None, None);
    }

    /// A person accepted any number of removals.
    pub fn removals_were_accepted(&mut self) {
        self.rows.clear();
        self.gone.clear();
    }

    fn mirror(&mut self, crm: &Crm, conn: &Connection, doubts: Doubts) -> Result<(), String> {
        // One that was opened while nothing used the file, and without its WAL, ends with the next writer.
        let kept = self.reader.take().filter(|reader| reader.begin().is_ok());
        let reader = kept.map_or_else(|| Reader::open(&self.config.database), Ok);
        let reader = reader.map_err(|error| format!("the mirror cannot be read: {error}"))?;
        let moment = reader.begin().map_err(|error| format!("the mirror cannot be read: {error}"))?;
        let status = status::at_moment(&moment, &self.config, crm.clock.reading())
            .map_err(|error| format!("no status: {error}"))?;
        drop(moment);
        self.reader = Some(reader);
        count_of_edits(conn, &status.edits)?;
        crm.sandbox.with_world(|world| self.tables(world, conn, &status, doubts))
    }

    fn tables(
        &mut self,
        world: &World,
        conn: &Connection,
        status: &MirrorStatus,
        doubts: Doubts,
    ) -> Result<(), String> {
        let last_run = self.last_run;
        for object in Object::ALL {
            let there = rows(conn, object);
            if let Some(said) = status.objects.iter().find(|said| said.object == object.resource()) {
                self.claims.check((world, conn), object, &there, said, doubts.until)?;
            }
            let before = self.rows.get(&object);
            let mut removed = before.into_iter().flat_map(|rows| rows.keys()).filter(|id| !there.contains_key(*id));
            let wrong = removed.find(|id| world.etag(object, id).is_some());
            if let Some(id) = wrong.filter(|_| last_run >= doubts.of_rows_until) {
                return Err(format!("{object} {id} was removed, and the service has it"));
            }
            self.table(object, there, world.now, doubts.of_rows_until)?;
        }
        Ok(())
    }

    fn table(&mut self, object: Object, now_there: Rows, now: Instant, doubt_until: Instant) -> Result<(), String> {
        let before = self.rows.entry(object).or_default();
        let removed = before.keys().filter(|id| !now_there.contains_key(*id)).count();
        for (id, updated) in &now_there {
            // A row that is dated in the future takes any version.
            let ahead = now.plus(DAY).to_string();
            let older = matches!((before.get(id), updated), (Some(Some(was)), Some(is)) if is < was && *was < ahead);
            // In whole seconds, a version looks older than it is.
            let is_of = |at: &String| updated.as_ref().is_some_and(|is| is[..19] == at[..19]);
            let is_dated_back = || self.claims.dated_back.get(id).is_some_and(|at| at.iter().any(is_of));
            let older =
                older && before[id].as_ref().is_none_or(|was| updated.as_ref().is_none_or(|is| was[..19] != is[..19]));
            // A replica that lags, or has stopped, for longer than two looks are apart shows the same older version at both:
            // that is accepted, since a service that was restored from a backup shows it too.
            let is_first_look = self.is_strict && !self.older.contains(id);
            if older && !is_dated_back() && (is_first_look || now >= doubt_until) {
                return Err(format!("{object} {id} went back from {:?} to {updated:?}", before[id]));
            }
        }
        let gone = self.gone.entry(object).or_default();
        gone.retain(|(at, _)| now.since(*at) < DAY);
        if removed > 0 {
            gone.push((now, removed));
            let within_a_day: usize = gone.iter().map(|(_, count)| count).sum();
            let share = within_a_day as f64 / (now_there.len() + within_a_day) as f64;
            if before.len() >= SMALL && share > GUARD {
                return Err(format!(
                    "{within_a_day} {object} records were removed within a day, of {}: {removed} of them in this run",
                    now_there.len() + within_a_day
                ));
            }
        }
        *before = now_there;
        Ok(())
    }

    fn carried_out(&mut self, log: &[LoggedRequest], edits: &Edits) -> Result<(), String> {
        for entry in log {
            self.spent.push((entry.at, entry.ru.get()));
            let (Some(body), Route::One(object, id)) = (&entry.body, &entry.asked.route) else { continue };
            let numbers = edits.of_body(*object, id, body)?;
            for number in &numbers {
                self.first_sent.entry((*number, id.clone())).or_insert(entry.at);
            }
            for number in numbers.into_iter().filter(|_| entry.changed) {
                let times = self.carried_out.entry((number, id.clone())).or_default();
                *times += 1;
                if *times > 1 && !edits.is_expected_again(number, id) {
                    return Err(format!("the edit `ours {number}` of {id} was carried out twice"));
                }
            }
        }
        Ok(())
    }

    /// Beyond the limit, new edits are sent only if a person wants it. One hour of the mirror's clock may touch two hours.
    fn few_new_edits(&self, script: &Script, edits: &Edits) -> Result<(), String> {
        let Some(last) = self.first_sent.values().max() else { return Ok(()) };
        let new = self.first_sent.values().filter(|at| last.since(**at).as_secs() < 3600).count() as u64;
        let most = 2 * script.max_edits + edits.wanted;
        if new > most {
            return Err(format!("{new} edits were first sent within an hour; {most} are the bound"));
        }
        Ok(())
    }

    /// No life is as long as the history is kept.
    /// Nothing is lost from the history, and no entry of it leads back to an older version.
    fn history(&mut self, conn: &Connection, now: Instant) -> Result<(), String> {
        let oldest = "SELECT min(seq) FROM changes";
        let oldest: Option<i64> = conn.prepare_cached(oldest).unwrap().query_row([], |row| row.get(0)).unwrap();
        if self.oldest_change.is_some() && oldest > self.oldest_change
            || oldest.is_none() && self.oldest_change.is_some()
        {
            return Err(format!("the history began with {:?}, and now with {oldest:?}", self.oldest_change));
        }
        self.oldest_change = oldest;
        let newest = "SELECT coalesce(max(seq), 0) FROM changes";
        let newest: i64 = conn.prepare_cached(newest).unwrap().query_row([], |row| row.get(0)).unwrap();
        let seen = self.newest_change.replace(newest).unwrap_or(newest);
        let back = "SELECT object_type || ' ' || record_id || ': ' || (fields -> '$.updated_at') FROM changes
                    WHERE seq > ?1 AND kind = 'update'
                    AND substr(fields ->> '$.updated_at[1]', 1, 19) < substr(fields ->> '$.updated_at[0]', 1, 19)
                    AND fields ->> '$.updated_at[0]' < ?2
                    AND record_id NOT IN (SELECT value FROM json_each(?3))";
        let ahead = now.plus(DAY).to_string();
        let dated_back: Vec<&String> = self.claims.dated_back.keys().chain(&self.older).collect();
        let dated_back = serde_json::to_string(&dated_back).unwrap();
        let back: Option<String> = match seen < newest && self.is_strict {
            true => conn
                .prepare_cached(back)
                .unwrap()
                .query_row((seen, ahead, dated_back), |row| row.get(0))
                .optional()
                .unwrap(),
            false => None,
        };
        back.map_or(Ok(()), |back| Err(format!("the history leads back: {back}")))
    }

    fn rate(&mut self, script: &Script, log: &[LoggedRequest], now: Instant) -> Result<(), String> {
        self.spent.retain(|(at, _)| now.since(*at) < DAY);
        if log.is_empty() {
            return Ok(());
        }
        // Two windows touch any period of the length of one.
        let of_window = self.spent.iter().filter(|(at, _)| now.since(*at) < self.window);
        let spent: u64 = of_window.map(|(_, ru)| ru).sum();
        if let Some(budget) = self.budget.filter(|budget| spent > 2 * budget) {
            return Err(format!("{spent} RU were charged within {:?}; the budget is {budget}", self.window));
        }
        let hour = self.spent.iter().filter(|(at, _)| now.since(*at).as_secs() < 3600).count();
        let records = (script.contacts + script.companies) as usize;
        // Where every list consists of empty pages, each of eight steps asks for twice eleven, in each of six runs.
        let is_empty = |event: &Event| matches!(event.what, What::Trouble(Trouble::EmptyPages(_), _));
        let most = if script.events.iter().any(is_empty) { 1_100 } else { 500 } + 8 * records;
        if hour > most {
            return Err(format!("{hour} requests within an hour; {most} are the bound"));
        }
        Ok(())
    }
}

/// The records that were shown in an earlier version.
fn older(conn: &Connection) -> HashSet<String> {
    let mut stmt =
        conn.prepare_cached("SELECT record_id FROM doubts WHERE why = 'older' AND version IS NOT NULL").unwrap();
    stmt.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

/// What `status` says of the edits is what the outbox has.
fn count_of_edits(conn: &Connection, said: &EditCounts) -> Result<(), String> {
    let mut stmt = conn.prepare_cached("SELECT count(*) FROM outbox WHERE state = ?1").unwrap();
    for (state, said) in
        [("queued", said.queued), ("held", said.held), ("sending", said.sending), ("conflict", said.conflict)]
    {
        let there: i64 = stmt.query_row([state], |row| row.get(0)).unwrap();
        if said != there.unsigned_abs() {
            return Err(format!("status says that {said} edits are {state}, and {there} are"));
        }
    }
    Ok(())
}

/// Whether the tables are there: the first opening may have met a full disk.
fn has_tables(conn: &Connection) -> bool {
    conn.query_row("SELECT 1 FROM sqlite_schema WHERE name = 'mirror_columns'", [], |_| Ok(())).is_ok()
}
