//! What holds after every step, whatever happened: nothing is removed beyond the guard, no row becomes older, the ledger
//! and the service's own count agree, the rate is bounded, and every edit is carried out at most once.

use std::collections::BTreeMap;
use std::time::Duration;

use crm_mirror::app::status;
use crm_mirror::config::{Config, Environment, Sources};
use crm_mirror::model::{Clock, Instant, Object};
use crm_mirror::sandbox::LoggedRequest;
use rusqlite::Connection;

use crate::script::Script;
use crate::support::{Crm, Mirror};

const DAY: Duration = Duration::from_secs(86_400);
/// The part of a table that may go within a day without a person's word; small tables are not guarded.
const GUARD: f64 = 0.2;
const SMALL: usize = 10;

/// What was seen so far.
pub struct Watch {
    /// The request units of a day, as long as they are watched.
    pub budget: Option<u64>,
    rows: BTreeMap<Object, BTreeMap<String, Option<String>>>,
    /// When rows went, and how many.
    gone: BTreeMap<Object, Vec<(Instant, usize)>>,
    checked: usize,
    /// How often each value of an edit was carried out.
    carried_out: BTreeMap<u32, u32>,
    spent: Vec<(Instant, u64)>,
    last_run: Instant,
}

fn rows(conn: &Connection, object: Object) -> BTreeMap<String, Option<String>> {
    let sql = format!("SELECT id, updated_at FROM {}", object.table());
    let mut stmt = conn.prepare(&sql).unwrap();
    let rows = stmt.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// What the ledger says was spent, ever.
fn ledger(mirror: &Mirror) -> u64 {
    let stored = |conn: &Connection| {
        let sql = "SELECT value FROM state WHERE name = 'ledger'";
        let text: String = conn.query_row(sql, [], |row| row.get(0)).ok()?;
        serde_json::from_str::<serde_json::Value>(&text).ok()?["total"].as_u64()
    };
    if mirror.path.exists() { stored(&mirror.read()).unwrap_or(0) } else { 0 }
}

impl Watch {
    /// Nothing was seen yet of a mirror with so many request units a day.
    pub fn of(budget: u64) -> Watch {
        Watch {
            budget: Some(budget),
            rows: BTreeMap::new(),
            gone: BTreeMap::new(),
            checked: 0,
            carried_out: BTreeMap::new(),
            spent: Vec::new(),
            last_run: Instant::EPOCH,
        }
    }

    /// Looks at the mirror and the log after a run. After a kill the ledger lies beside the file until the next run.
    /// `doubt_until` says until when lists, or the mirror's clock, gave a picture that was wrong in itself.
    pub fn after_run(
        &mut self,
        script: &Script,
        crm: &Crm,
        mirror: &Mirror,
        killed: bool,
        doubt_until: Instant,
    ) -> Result<(), String> {
        let now = crm.clock.now();
        if mirror.path.exists() {
            let conn = mirror.read();
            for object in Object::ALL {
                let there = rows(&conn, object);
                let before = self.rows.get(&object);
                let removed = before.into_iter().flat_map(|rows| rows.keys()).filter(|id| !there.contains_key(*id));
                let world = crm.sandbox.world();
                let wrong = removed.into_iter().find(|id| world.etag(object, id).is_some());
                if let Some(id) = wrong.filter(|_| self.last_run >= doubt_until) {
                    return Err(format!("{object} {id} was removed, and the service has it"));
                }
                drop(world);
                self.table(object, there, now)?;
            }
            self.claims(crm, mirror, doubt_until)?;
        }
        self.last_run = now;
        let log = crm.sandbox.log();
        self.requests(script, log.entries(), now)?;
        let (ledger, charged) = (ledger(mirror), log.ru().get());
        if !killed && ledger < charged {
            return Err(format!("the ledger says {ledger} RU, the service charged {charged}"));
        }
        Ok(())
    }

    /// What `status` says is complete was complete: no record that the service had then, and still has, is missing.
    fn claims(&self, crm: &Crm, mirror: &Mirror, doubt_until: Instant) -> Result<(), String> {
        let now = crm.clock.now();
        let flags = vec![("database.path", mirror.path.display().to_string())];
        let sources =
            Sources { file: None, default_file: "/nowhere".into(), environment: Environment::default(), flags };
        let config = Config::load(&sources).map_err(|error| error.to_string())?;
        let status = status::read(&config, now).map_err(|error| format!("no status: {error}"))?;
        for object in Object::ALL {
            let said = status.objects.iter().find(|said| said.object == object.resource());
            let Some(as_of) = said.and_then(|said| said.complete_as_of.filter(|_| said.differences == 0)) else {
                continue;
            };
            // A claim about the future is one of a wrong clock, which is not over yet.
            if as_of < doubt_until || as_of > now {
                continue;
            }
            let there = rows(&mirror.read(), object);
            let world = crm.sandbox.world();
            let missing = world
                .as_of(as_of)
                .ids(object.resource())
                .into_iter()
                .find(|id| !there.contains_key(id) && world.etag(object, id).is_some());
            if let Some(id) = missing {
                return Err(format!(
                    "status says that {object} records are complete as of {as_of}, and {id} is missing"
                ));
            }
        }
        Ok(())
    }

    fn table(
        &mut self,
        object: Object,
        now_there: BTreeMap<String, Option<String>>,
        now: Instant,
    ) -> Result<(), String> {
        let before = self.rows.entry(object).or_default();
        let removed = before.keys().filter(|id| !now_there.contains_key(*id)).count();
        for (id, updated) in &now_there {
            let older = matches!((before.get(id), updated), (Some(Some(was)), Some(is)) if is < was);
            if older {
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

    fn requests(&mut self, script: &Script, log: &[LoggedRequest], now: Instant) -> Result<(), String> {
        for entry in &log[self.checked..] {
            self.spent.push((entry.at, entry.ru.get()));
            let Some(body) = entry.body.as_deref().filter(|_| entry.changed) else { continue };
            for number in numbers(body) {
                let times = self.carried_out.entry(number).or_default();
                *times += 1;
                if *times > 1 {
                    return Err(format!("the edit `ours {number}` was carried out twice"));
                }
            }
        }
        self.checked = log.len();
        self.spent.retain(|(at, _)| now.since(*at) < DAY);
        // Two windows touch any period of the length of one.
        let spent: u64 = self.spent.iter().map(|(_, ru)| ru).sum();
        if let Some(budget) = self.budget.filter(|budget| spent > 2 * budget) {
            return Err(format!("{spent} RU were charged within a day; the budget is {budget}"));
        }
        let hour = self.spent.iter().filter(|(at, _)| now.since(*at).as_secs() < 3600).count();
        let records = (script.contacts + script.companies) as usize;
        let most = 400 + 8 * records;
        if hour > most {
            return Err(format!("{hour} requests within an hour; {most} are the bound"));
        }
        Ok(())
    }

    /// Every edit was carried out, or the outbox says why not.
    pub fn edits(&self, mirror: &Mirror, made: &BTreeMap<u32, (String, &'static str)>) -> Result<(), String> {
        let conn = mirror.read();
        let mut stmt = conn.prepare("SELECT fields, state FROM outbox").unwrap();
        let states: Vec<(String, String)> =
            stmt.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect();
        for (number, target) in made {
            let times = self.carried_out.get(number).copied().unwrap_or(0);
            let new = |fields: &str| fields.contains(&format!("\"ours {number}\"]"));
            let found: Vec<&str> =
                states.iter().filter(|(fields, _)| new(fields)).map(|(_, state)| state.as_str()).collect();
            if found.iter().any(|state| matches!(*state, "queued" | "sending")) {
                return Err(format!("the edit `ours {number}` is still {found:?} after undisturbed days"));
            }
            // A later edit of the same field may have taken its place before it was sent.
            let replaced = made.iter().any(|(other, of)| other > number && of == target);
            if times == 0 && !replaced && (found.is_empty() || found.contains(&"applied")) {
                return Err(format!("the edit `ours {number}` was never carried out and is {found:?}"));
            }
        }
        Ok(())
    }
}

/// The numbers of the edits whose values a text holds.
fn numbers(text: &str) -> Vec<u32> {
    let after = text.split("ours ").skip(1);
    after.filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()).collect()
}
