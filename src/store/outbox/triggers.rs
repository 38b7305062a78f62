//! `UPDATE contacts_full SET …`: triggers that turn a change of a view's row into an edit in the outbox.
//!
//! The triggers are created with the views, from the catalogue and the definitions, in the same transaction. They use
//! the syntax of the oldest supported SQLite, because users bring their own shell: there, `RAISE` needs a constant.
//! Where edits are not accepted, one trigger says so: every connection to the file parses and keeps them all, and those
//! of the columns would be three quarters of a megabyte.
//!
//! # Invariants
//! - An edit and its first history entry are one statement: either both exist or neither.
//! - A value is stored exactly as written, or is refused with a message that names its column.
//! - The view shows the service's values until the edit has been applied there.
//! - Columns that are not part of the statement are not part of the edit, whatever other edits are waiting.
//!
//! # How a row's edit is made
//! Every column that can be edited has its own `UPDATE OF` trigger: it validates the value, converts it to the column's
//! form and stores it in `outbox_values`. The trigger without a column runs after them and creates the edit; two
//! triggers of `outbox` write its first history entry and merge it with waiting edits ([`queue`]). SQLite runs the
//! triggers of a view in the reverse order of their creation, but does not promise it: in another order, the last
//! trigger would find a change that is not in `outbox_values`, and refuse it.
//!
//! Two expressions look redundant but are not: `'+0 days'` makes an older SQLite validate the calendar date, and `||
//! ''` turns the result of a JSON function into a plain text.

use std::collections::BTreeSet;

use super::queue::{EFFECT, EFFECT_OPEN, END, EditedRecord, NEW_FIELDS};
use crate::model::editable::{CUSTOM_KEYS, Editability};
use crate::model::{Editable, Object};
use crate::store::program_objects::OWN_TRIGGER;
use crate::store::{
    EditsTx, GUARDED_TABLES, ReadTx, Result, StateKey, Statements, accepted_values, editable, known_values, literal,
    queue,
};

const OFF: &str = "writing back is off: set enabled = true below [write_back] in the configuration of crm-mirror, and run crm-mirror sync";

const OUTBOX: &str = "contacts_full and companies_full take edits, crm-mirror outbox decides on them";

const ARMS: usize = 200;

const NOW: &str = "strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z'";

const NOT_ASCII: &str = "GLOB '*[^' || char(1) || '-' || char(127) || ']*'";

/// How many characters of a text are checked one by one: a list of their places takes no temporary table.
const PLACES: usize = 128;

/// Detects a text of `outbox_values` that is not UTF-8: SQLite reads an invalid byte sequence as a different character.
/// It is halved down to parts of [`PLACES`] characters, so that the time grows with the length of the text.
fn not_utf8() -> String {
    // One literal: every connection keeps the parsed trigger, where a list of values would be 40 KB.
    let places: Vec<String> = (1..=PLACES).map(|place| place.to_string()).collect();
    let halved = format!("FROM part WHERE length(p) > {PLACES} AND p {NOT_ASCII}");
    format!(
        "EXISTS (SELECT 1 FROM outbox_values AS v WHERE v.change {NOT_ASCII} AND EXISTS (
    WITH RECURSIVE part(p) AS (
      SELECT v.change UNION ALL SELECT substr(p, 1, length(p) / 2) {halved} UNION ALL SELECT substr(p, length(p) / 2 + 1) {halved})
    SELECT 1 FROM part WHERE length(p) <= {PLACES} AND p {NOT_ASCII} AND EXISTS (
      SELECT 1 FROM (SELECT substr(p, value, 1) AS t FROM json_each('[{}]') WHERE value <= length(p))
      WHERE t <> char(unicode(t)) AND hex(t) NOT IN ('EFBFBE', 'EFBFBF'))))",
        places.join(",")
    )
}

/// Why a column cannot be edited whose value was not read, to follow its name.
const NOT_READ: &str = "is unknown in one of these rows: it was not read yet, or no answer showed it; crm-mirror sync reads details (unless sync.details \
     is off), AND fetched_at IS NOT NULL leaves out rows without, and crm-mirror edit reads the record before it sends";

/// Why a column cannot be edited that does not hold the service's value, to follow its name.
const NOT_FITTING: &str = "is unknown in one of these rows: the value of the service does not fit the column and is kept in extra; \
     crm-mirror edit queues the edit as a conflict that shows it";

fn column(field: &Editable) -> String {
    let (view, column) = (field.object.full_view(), &field.column);
    let rounded = accepted_values::rounded(field).map_or_else(String::new, |(condition, hint)| {
        format!("SELECT RAISE(ABORT, {}) WHERE {condition};\n", literal(&format!("{column}: {hint}")))
    });
    format!(
        "CREATE TRIGGER {view}_set_{column} INSTEAD OF UPDATE OF {column} ON {view} {OWN_TRIGGER}
{rounded}SELECT RAISE(ABORT, {message}) WHERE NEW.{column} IS NOT OLD.{column} AND NOT coalesce({taken}, 0);
SELECT RAISE(ABORT, {not_read}) WHERE NEW.{column} IS NOT OLD.{column} AND {unread};
SELECT RAISE(ABORT, {not_fitting}) WHERE NEW.{column} IS NOT OLD.{column} AND {unfit};
INSERT OR REPLACE INTO outbox_values (column_name, unproven, effect, change) VALUES ('{column}', {unproven}, {EFFECT_OPEN},
  json_array(OLD.{column}, CASE WHEN {same} THEN OLD.{column} ELSE {settled} END));
END",
        message = literal(&accepted_values::message(field)),
        not_read = literal(&format!("{column} {NOT_READ}")),
        unread = known_values::unread(field, &accepted_values::definition(field)),
        not_fitting = literal(&format!("{column} {NOT_FITTING}")),
        unfit = known_values::unfit(field),
        // Values that only details prove were seen in the detail's version, which may be another; a list may omit
        // custom values.
        unproven = if field.detail_only || field.data_type.is_some() { "NOT OLD.details_current" } else { "0" },
        taken = accepted_values::condition(field),
        same = accepted_values::same(field),
        settled = accepted_values::settled(field),
    )
}

/// The triggers that refuse changes of the other columns, and make the edit of a row.
fn update(object: Object, columns: &[(String, Editability)], in_view: &BTreeSet<String>) -> Vec<String> {
    let (view, mut fixed, mut noted) = (object.full_view(), vec![], vec![]);
    for (name, editability) in columns {
        match editability {
            Ok(_) => noted.push(format!("NEW.{name} IS NOT OLD.{name}")),
            Err(why) if in_view.contains(name) => {
                let why = literal(&format!("{name} {why}"));
                fixed.push((name.as_str(), format!("WHEN NEW.{name} IS NOT OLD.{name} THEN RAISE(ABORT, {why})")));
            }
            Err(_) => {}
        }
    }
    let noted: String = noted
        .chunks(ARMS)
        .map(|arms| {
            format!(
                "SELECT RAISE(ABORT, 'this SQLite runs the triggers of a view in an unsupported order: use crm-mirror edit instead')
WHERE NOT EXISTS (SELECT 1 FROM outbox_values) AND ({});\n",
                arms.join(" OR ")
            )
        })
        .collect();
    let makes_edit = format!(
        "CREATE TRIGGER {view}_update INSTEAD OF UPDATE ON {view} {OWN_TRIGGER}
{noted}SELECT RAISE(ABORT, 'a text of this edit is not UTF-8: write it in the encoding of the database') WHERE {not_utf8};
SELECT RAISE(ABORT, 'an edit changes at most {CUSTOM_KEYS} custom fields of a record at once')
WHERE (SELECT count(*) FROM outbox_values WHERE substr(column_name, 1, 3) = 'cf_') > {CUSTOM_KEYS};
{EFFECT};
{start_merge};
INSERT INTO outbox (object_type, record_id, source, fields, base_etag, queued_at) VALUES ('{object}', OLD.id, 'sql', nullif({NEW_FIELDS}, '{{}}'),
  CASE WHEN (SELECT max(unproven) FROM outbox_values WHERE effect = 1) THEN NULL ELSE OLD.etag END, {NOW});
{END};
END",
        not_utf8 = not_utf8(),
        start_merge = queue::start_merge(object, "OLD.id"),
    );
    let refuses = fixed.chunks(ARMS).enumerate().map(|(part, arms)| {
        let (names, arms): (Vec<&str>, Vec<&str>) = arms.iter().map(|(name, arm)| (*name, arm.as_str())).unzip();
        format!(
            "CREATE TRIGGER {view}_fixed_{part} INSTEAD OF UPDATE OF {} ON {view} {OWN_TRIGGER}\nSELECT CASE\n  {} END; END",
            names.join(", "),
            arms.join("\n  ")
        )
    });
    std::iter::once(makes_edit).chain(refuses).collect()
}

/// The triggers of `outbox` that complete an edit made with SQL. An edit without columns is not made.
fn completing() -> String {
    let merge =
        queue::merge(EditedRecord { object: "NEW.object_type", record: "NEW.record_id", now: NOW, who: "'sql'" });
    format!(
        "DROP TRIGGER IF EXISTS outbox_leave_out_empty;
DROP TRIGGER IF EXISTS outbox_begin_history;
DROP TRIGGER IF EXISTS outbox_merge;
CREATE TRIGGER outbox_leave_out_empty BEFORE INSERT ON outbox WHEN NEW.fields IS NULL {OWN_TRIGGER}
SELECT RAISE(IGNORE); END;
CREATE TRIGGER outbox_begin_history AFTER INSERT ON outbox {OWN_TRIGGER}
INSERT INTO outbox_events (outbox_id, at, to_state, who, why) VALUES (NEW.id, NEW.queued_at, NEW.state, 'sql', 'changed with SQL'); END;
CREATE TRIGGER outbox_merge AFTER UPDATE OF source ON outbox {OWN_TRIGGER}
{};
END",
        merge.join(";\n")
    )
}

fn closed(object: Object) -> String {
    let view = object.full_view();
    format!("CREATE TRIGGER {view}_update INSTEAD OF UPDATE ON {view} {OWN_TRIGGER}\nSELECT RAISE(ABORT, '{OFF}'); END")
}

impl EditsTx<'_> {
    /// Creates the triggers of new views; those of the old views were dropped with them.
    pub(in crate::store) fn make_edit_triggers(&self) -> Result<()> {
        let takes_edits = self.tx.takes_edits()?;
        for object in Object::ALL {
            let triggers = if takes_edits { self.taking(object)? } else { vec![closed(object)] };
            triggers.iter().try_for_each(|sql| self.batch(sql))?;
        }
        self.batch(&completing())
    }

    /// The triggers that take edits. The one that makes the edit is made first, and so runs last.
    fn taking(&self, object: Object) -> Result<Vec<String>> {
        let columns = editable::columns(&self.tx.conn, object, &self.tx.shapes())?;
        let in_view = self.tx.shapes().view(object).into_iter().map(|column| column.name);
        let mut triggers = update(object, &columns, &in_view.chain(["details_current".into()]).collect());
        triggers.extend(columns.iter().filter_map(|(_, editability)| Some(column(editability.as_ref().ok()?))));
        Ok(triggers)
    }

    pub fn set_write_back(&self, enabled: bool) -> Result<()> {
        // Of an entry that was lost, nobody knows which triggers the views have.
        if self.tx.state(&StateKey::WriteBack)? == Some(enabled) {
            return Ok(());
        }
        self.tx.set_state(&StateKey::WriteBack, &enabled)?;
        self.tx.derived().rebuild_views()
    }

    /// Makes the triggers that refuse changes to the tables that only crm-mirror writes: the service's next answer
    /// would overwrite such a change, or it would never be noticed. They are plain: every SQLite runs them. The
    /// program's own connections disable triggers (`SQLITE_DBCONFIG_ENABLE_TRIGGER`); a dump writes its rows before its
    /// triggers, and a backup copies pages, so both are unaffected.
    pub(in crate::store) fn make_table_guards(&self) -> Result<()> {
        let unless_a_view = "NOT EXISTS (SELECT 1 FROM outbox_values)";
        for (table, what, when) in [
            // The triggers of the views write these: they have the values of a statement meanwhile. An edit without
            // columns is left out by another trigger.
            ("outbox", "INSERT", format!(" WHEN NEW.fields IS NOT NULL AND {unless_a_view}")),
            ("outbox", "UPDATE", format!(" WHEN {unless_a_view}")),
            ("outbox_events", "INSERT", format!(" WHEN {unless_a_view}")),
            // The table is empty between two statements, so nothing else can be done to it.
            ("outbox_values", "INSERT", format!(" WHEN NEW.effect <> {EFFECT_OPEN}")),
            ("outbox", "DELETE", String::new()),
            ("outbox_events", "UPDATE", String::new()),
            ("outbox_events", "DELETE", String::new()),
        ] {
            self.make_guard(table, what, &when, OUTBOX)?;
        }
        for table in GUARDED_TABLES.split_whitespace() {
            let is_of = |object: &Object| [object.table(), object.detail_table()].contains(&table);
            let instead = match Object::ALL.iter().find(|object| is_of(object)) {
                Some(object) => format!("change {} instead", object.full_view()),
                None => "contacts_full and companies_full take edits".into(),
            };
            for what in ["INSERT", "UPDATE", "DELETE"] {
                self.make_guard(table, what, "", &instead)?;
            }
        }
        Ok(())
    }

    fn make_guard(&self, table: &str, what: &str, when: &str, instead: &str) -> Result<()> {
        let sql = format!(
            "CREATE TRIGGER IF NOT EXISTS {table}_refuse_{} BEFORE {what} ON {table}{when} {OWN_TRIGGER}
SELECT RAISE(ABORT, '{table} is written by crm-mirror alone: {instead}'); END",
            what.to_lowercase()
        );
        self.batch(&sql)
    }
}

impl ReadTx<'_> {
    pub fn takes_edits(&self) -> Result<bool> {
        Ok(self.state(&StateKey::WriteBack)?.unwrap_or(false))
    }
}
