//! What `status` claims: looked into after every run, and before the requests of a run that count records, when a list was
//! read and is not compared yet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crm_mirror::app::status::{self, ObjectStatus};
use crm_mirror::config::Config;
use crm_mirror::model::{Instant, Object};
use crm_mirror::sandbox::{RequestLine, World};
use crm_mirror::store::Reader;
use rusqlite::{Connection, OpenFlags};

/// Just before a record returned, it was not there.
const MOMENT: Duration = Duration::from_millis(1);

/// The records of a table, and when they were last changed.
pub type Rows = BTreeMap<String, Option<String>>;

/// The rows of a table.
pub fn rows(conn: &Connection, object: Object) -> Rows {
    let sql = format!("SELECT id, updated_at FROM {}", object.table());
    let mut stmt = conn.prepare_cached(&sql).unwrap();
    let rows = stmt.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// When a record in the mirror was created; a row without it was always there.
fn created_at(conn: &Connection, object: Object, id: &str) -> Option<Instant> {
    let sql = format!("SELECT created_at FROM {} WHERE id = ?1", object.table());
    let mut stmt = conn.prepare_cached(&sql).ok()?;
    stmt.query_row([id], |row| row.get::<_, Option<String>>(0)).ok()??.parse().ok()
}

/// The records that the mirror lacks where it still has a removed one with the same two dates, and those removed ones: no
/// count tells such a pair apart.
pub fn twins((world, conn): (&World, &Connection), object: Object, there: &Rows) -> BTreeSet<String> {
    let seconds = |dates: [Option<Instant>; 2]| dates.map(|at| at.map(Instant::whole_second));
    let of_service = |id: &str| {
        let shown = world.list_json(object.resource(), id);
        let created = shown.and_then(|shown| shown["createdAt"].as_str()?.parse().ok());
        seconds([created, world.updated_at(object, id)])
    };
    let ids = world.ids(object.resource()).into_iter();
    let missing: Vec<_> =
        ids.filter(|id| !there.contains_key(id)).map(|id| (of_service(id.as_str()), id.to_string())).collect();
    let mut twins = BTreeSet::new();
    for (id, updated) in there.iter().filter(|(id, _)| world.etag(object, id).is_none()) {
        let updated = updated.as_ref().and_then(|at| at.parse().ok());
        let dates = seconds([created_at(conn, object, id), updated]);
        for (_, twin) in missing.iter().filter(|(of, _)| *of == dates) {
            twins.extend([id.clone(), twin.clone()]);
        }
    }
    twins
}

/// What was looked into of the claims.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// Up to when changes were claimed to be complete, as far as that was looked into.
    claimed: BTreeMap<Object, Instant>,
    /// The records that the service listed at the time of which a list is claimed to be complete.
    listed: BTreeMap<Object, (Instant, BTreeSet<String>)>,
    /// When the file was replaced by one that was saved while a clock was wrong, or a day after: its claims may be wrong.
    restored_at: Option<Instant>,
    /// When removed records returned at the service.
    returns: Vec<Instant>,
    /// The records that were changed with a date before the one that they had, and these dates.
    pub dated_back: BTreeMap<String, BTreeSet<String>>,
}

impl Claims {
    /// The file was replaced by an older one; `in_doubt_at` if that may be one with wrong claims.
    pub fn restored(&mut self, in_doubt_at: Option<Instant>) {
        self.restored_at = in_doubt_at.or(self.restored_at);
        self.claimed.clear();
    }

    /// Removed records return at the service.
    pub fn records_return(&mut self, now: Instant) {
        self.returns.push(now);
    }

    /// What `status` says is complete was complete then.
    pub fn check(
        &mut self,
        (world, conn): (&World, &Connection),
        object: Object,
        there: &Rows,
        said: &ObjectStatus,
        doubt_until: Instant,
    ) -> Result<(), String> {
        // A claim about the future is one of a wrong clock, which is not over yet.
        let known_from = self.restored_at.map_or(doubt_until, |at| at.max(doubt_until));
        let believable = |as_of: &Instant| *as_of >= known_from && *as_of <= world.now;
        let has_it = |id: &str| world.etag(object, id).is_some();
        if let Some(as_of) = said.complete_as_of.filter(|as_of| said.differences == 0 && believable(as_of)) {
            if self.listed.get(&object).is_none_or(|(at, _)| *at != as_of) {
                self.listed.insert(object, (as_of, world.as_of(as_of).ids(object.resource()).into_iter().collect()));
            }
            let ids = &self.listed[&object].1;
            // One that was removed since then may have returned.
            let since = "SELECT 1 FROM changes WHERE record_id = ?1 AND kind = ?2 AND seen_at >= ?3";
            let was = |id: &str, what: &str| {
                conn.prepare_cached(since).unwrap().exists((id, what, as_of.to_string())).unwrap()
            };
            // One that was removed and returned since then may never have been here.
            let exists_at = |at: Instant, id: &str| world.as_of(at).ids(object.resource()).contains(&id.to_string());
            let returns = || self.returns.iter().copied().filter(|back| *back > as_of);
            let was_away = |id: &str| returns().any(|back| !exists_at(back.minus(MOMENT), id));
            let is_missing =
                |id: &&String| !there.contains_key(*id) && has_it(id) && !was(id, "remove") && !was_away(id);
            let of_twins = |id: &&String| twins((world, conn), object, there).contains(*id);
            if let Some(id) = ids.iter().filter(is_missing).find(|id| !of_twins(id)) {
                return Err(format!("status says that {object} is complete as of {as_of}, and {id} is missing"));
            }
            // One that returned since then, with its old date of creation, may have been removed again, and kept here.
            let is_old = |id: &str| created_at(conn, object, id) <= Some(as_of) && !was(id, "insert");
            let returned = |id: &str| returns().any(|back| exists_at(back, id));
            let gone = |id: &&String| !ids.contains(*id) && !has_it(id) && is_old(id) && !returned(id);
            if let Some(id) = there.keys().filter(gone).find(|id| !of_twins(id)) {
                return Err(format!("status says that {object} is complete as of {as_of}, and {id} is still there"));
            }
        }
        // What a deceiving list left out stays missing until an audit or a sweep looks for it.
        let audited = said.complete_as_of.is_some_and(|as_of| as_of >= doubt_until);
        let changes = said.changes_as_of.filter(|as_of| audited && believable(as_of));
        let Some(as_of) = changes.filter(|as_of| self.claimed.insert(object, *as_of) != Some(*as_of)) else {
            return Ok(());
        };
        let then = world.as_of(as_of);
        for id in then.ids(object.resource()).into_iter().filter(|id| has_it(id)) {
            let row = there.get(&id);
            let here = row.and_then(|at| at.as_ref()?.parse::<Instant>().ok());
            // At the very instant of the claim, a change may follow the answer: time stands still meanwhile.
            let changed = then.updated_at(object, &id);
            if changed == Some(as_of) {
                continue;
            }
            // One that was dated in the future may have been dated back since, and changed again.
            let is_newest = || here == world.updated_at(object, &id);
            let was_dated_back = changed.is_some_and(|changed| changed > world.now) && here > Some(as_of);
            // One that was dated back after an edit that nobody had read yet is later than the row, and in no list of changes; one
            // that was dated back since then looks older than it is.
            let is_dated_back = |at: Option<Instant>| {
                at.zip(self.dated_back.get(&id)).is_some_and(|(at, of)| of.contains(&at.to_string()))
            };
            let is_behind = is_dated_back(changed) || is_dated_back(here);
            // In whole seconds, a version looks older than it is.
            let is_coarse = here.is_some() && here == changed.map(|changed| changed.whole_second());
            // One that returned with its old date is in no list of changes.
            let was_away = |back: &Instant| !world.as_of(back.minus(MOMENT)).ids(object.resource()).contains(&id);
            if row.is_none() && self.returns.iter().any(|back| changed < Some(*back) && was_away(back)) {
                continue;
            }
            let may_be_older = is_coarse || is_behind || is_newest() || was_dated_back;
            if row.is_none() && !is_behind || changed.is_some() && here < changed && !may_be_older {
                return Err(format!(
                    "status says that changes of {object} are here as of {as_of}, and {id} is of {here:?}, not {changed:?}"
                ));
            }
        }
        Ok(())
    }
}

/// The look into the claims of `status` while a run is under way.
#[derive(Debug)]
pub struct DuringRun {
    config: Config,
    claims: Claims,
    doubt_until: Instant,
    open: Option<(Reader, Connection)>,
    violation: Option<String>,
}

impl DuringRun {
    /// Looks at the mirror that the configuration names.
    pub fn new(config: Config) -> DuringRun {
        let claims = Claims::default();
        DuringRun { config, claims, doubt_until: Instant::EPOCH, open: None, violation: None }
    }

    /// A run begins, of whose mirror these claims are known.
    pub fn begin(&mut self, claims: Claims, doubt_until: Instant) {
        (self.claims, self.doubt_until) = (claims, doubt_until);
    }

    /// Looks at the mirror before a request that counts records: all that was read before it is in the file. Of an object
    /// whose counts are over, a missing record and a removed one may have made them equal until a detail shows that.
    pub fn before_request(&mut self, world: &World, asked: &RequestLine) {
        let counted = Object::ALL.into_iter().find(|object| asked.lists(object.resource()));
        let Some(object) = counted.filter(|_| asked.param("count").is_some()) else { return };
        if self.violation.is_none() && self.config.database.exists() {
            self.violation = self.look(world, object).err();
        }
    }

    fn look(&mut self, world: &World, object: Object) -> Result<(), String> {
        let open = || {
            let conn = Connection::open_with_flags(&self.config.database, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
            Some((Reader::open(&self.config.database).ok()?, conn))
        };
        // A disk that is full refuses new readers too.
        let kept = self.open.take().filter(|(reader, _)| reader.begin().is_ok());
        let Some((reader, conn)) = kept.or_else(open) else { return Ok(()) };
        let moment = reader.begin().map_err(|error| format!("the mirror cannot be read: {error}"))?;
        let status = status::at_moment(&moment, &self.config, world.now);
        let status = status.map_err(|error| format!("no status during a run: {error}"))?;
        drop(moment);
        if let Some(said) = status.objects.iter().find(|said| said.object == object.resource()) {
            let there = rows(&conn, object);
            let checked = self.claims.check((world, &conn), object, &there, said, self.doubt_until);
            checked.map_err(|why| format!("during a run, {why}"))?;
        }
        self.open = Some((reader, conn));
        Ok(())
    }

    /// The file is replaced: it is opened anew.
    pub fn restored(&mut self) {
        self.open = None;
    }

    /// What was found during the run that ended.
    pub fn found(&mut self) -> Result<(), String> {
        self.violation.take().map_or(Ok(()), Err)
    }
}
