//! `UPDATE contacts_full SET …`: triggers that turn a change of a view's row into an edit in the outbox.
//!
//! The triggers are made with the views, from the catalogue and the definitions, in the same transaction; when nothing
//! is defined anew, nothing is made anew. They are written for the oldest SQLite that must read the file, since whoever
//! edits brings a shell of their own: `RAISE` takes a constant there, so every column has its message.
//!
//! # Always true
//! - An edit and the first line of its trail are one statement: both are there or neither is.
//! - What is refused raises an error and leaves nothing, in whatever shell it was tried.
//! - The view goes on showing the service's truth until the edit has been applied there.
//!
//! # How a row's edit is made
//! The columns that can be edited are laid out as rows (name, before, after), which SQLite allows in any number. Those
//! that changed are joined with their definitions, brought into the form of the column, and judged; what is refused
//! becomes `{}`, which no column holds, and raises the message of its column. Two spellings look idle and are not:
//! `'+0 days'` makes an older SQLite look at its calendar, and `|| ''` makes a JSON function's text a text like any other.

use crate::model::catalogue::Object;
use crate::model::custom::DataType;
use crate::model::editable::{CUSTOM_KEYS, EditTarget, Editability, Editable, LONG_TEXT, MULTI_SELECT, SHORT_TEXT};
use crate::store::error::{Doing, StoreError};
use crate::store::outbox::editable;
use crate::store::state::StateKey;
use crate::store::tx::MirrorTx;

const DOING: &str = "remake the triggers of the views";

/// The most messages in one `CASE`.
const ARMS: usize = 200;

/// The time, in the form of the mirror's columns.
const NOW: &str = "strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z'";

/// What the text of a timestamp `t` is cut into, and what is a real one: `[seconds][fraction][zone]`.
const TIMESTAMP: &str = "CASE WHEN t.seconds IS strftime('%Y-%m-%dT%H:%M:%S', t.seconds, '+0 days')
      AND (t.fraction = '' OR t.fraction GLOB '.[0-9]*' AND length(t.fraction) <= 7
           AND substr(t.fraction, 2) NOT GLOB '*[^0-9]*')
    THEN coalesce(strftime('%Y-%m-%dT%H:%M:%S', t.seconds || t.zone)
           || '.' || substr(substr(t.fraction, 2) || '000000', 1, 6) || 'Z', x'00')
    ELSE x'00' END";

/// The changed columns of one row, in the form of their columns; what can have none is a blob, which no column holds.
fn changed(object: Object, rows: &str) -> String {
    format!(
        "SELECT v.name AS name, v.before AS before, d.id AS definition, d.data_type AS data_type,
  coalesce(d.required, 0) = 0 AND coalesce(d.nullable, 1) = 1 AS clearable,
  CASE d.data_type
    WHEN 'SHORT_TEXT' THEN nullif(v.after, '')
    WHEN 'LONG_TEXT' THEN nullif(v.after, '')
    WHEN 'SINGLE_SELECT' THEN nullif(v.after, '')
    WHEN 'MULTI_SELECT' THEN
      CASE WHEN v.after IS NULL THEN NULL WHEN json_valid(v.after) = 0 THEN x'00'
        WHEN json_type(v.after) <> 'array' THEN x'00'
        ELSE (SELECT nullif(json_group_array(j.value), '[]') FROM json_each(v.after) AS j) END
    WHEN 'DATETIME' THEN CASE WHEN v.after IS NULL THEN NULL ELSE (SELECT {TIMESTAMP} FROM (
      SELECT z.seconds AS seconds, z.zone AS zone, substr(z.rest, 1, length(z.rest) - length(z.zone)) AS fraction FROM (
        SELECT substr(v.after, 1, 19) AS seconds, substr(v.after, 20) AS rest,
          CASE WHEN v.after GLOB '*Z' THEN 'Z' WHEN v.after GLOB '*[+-][0-9][0-9]:[0-9][0-9]'
            THEN substr(v.after, -6) ELSE ' none' END AS zone) AS z) AS t) END
    ELSE v.after END AS after,
  CASE WHEN substr(v.after, 1, 1) = '-' THEN substr(v.after, 2) ELSE v.after END AS digits
FROM (SELECT NULL AS name, NULL AS before, NULL AS after UNION ALL VALUES {rows}) AS v
LEFT JOIN custom_field_definitions AS d ON d.object_type = '{object}' AND d.column_name = v.name
WHERE v.before IS NOT v.after"
    )
}

/// Whether a changed column `c` takes its new value: what `outbox::check` says, as far as SQL can.
fn taken(object: Object) -> String {
    let standard = match object {
        Object::Contact => "1",
        // White space as Unicode has it; the service wants one other character in the texts of a company.
        Object::Company => {
            "trim(c.after, char(9, 10, 11, 12, 13, 32, 133, 160, 5760, 8192, 8193, 8194, 8195, 8196, 8197, 8198,
      8199, 8200, 8201, 8202, 8232, 8233, 8239, 8287, 12288)) <> ''"
        }
    };
    format!(
        "CASE WHEN typeof(c.after) IN ('blob', 'real') THEN 0 WHEN c.after IS NULL THEN c.clearable
    WHEN c.definition IS NULL THEN typeof(c.after) = 'text' AND {standard}
    ELSE CASE c.data_type
    WHEN 'SHORT_TEXT' THEN typeof(c.after) = 'text' AND length(c.after) <= {SHORT_TEXT}
    WHEN 'LONG_TEXT' THEN typeof(c.after) = 'text' AND length(c.after) <= {LONG_TEXT}
    WHEN 'INTEGER' THEN typeof(c.after) = 'integer'
    WHEN 'BOOLEAN' THEN typeof(c.after) = 'integer' AND c.after IN (0, 1)
    WHEN 'DECIMAL' THEN typeof(c.after) = 'text' AND c.digits NOT GLOB '*[^0-9.]*' AND c.digits GLOB '[0-9]*'
      AND c.digits GLOB '*[0-9]' AND c.digits NOT GLOB '*.*.*'
      AND length(ltrim(substr(c.digits, 1, instr(c.digits || '.', '.') - 1), '0')) <= 20
      AND length(rtrim(substr(c.digits, instr(c.digits || '.', '.') + 1), '0')) <= 10
    WHEN 'DATE' THEN c.after IS date(c.after, '+0 days')
    WHEN 'DATETIME' THEN typeof(c.after) = 'text'
    WHEN 'SINGLE_SELECT' THEN EXISTS (SELECT 1 FROM custom_field_options AS o
      WHERE o.definition_id = c.definition AND o.value = c.after)
    WHEN 'MULTI_SELECT' THEN json_array_length(c.after) <= {MULTI_SELECT} AND NOT EXISTS (
      SELECT 1 FROM json_each(c.after) AS j WHERE j.type <> 'text' OR j.value NOT IN (
        SELECT o.value FROM custom_field_options AS o WHERE o.definition_id = c.definition))
    ELSE 0 END END"
    )
}

/// What a field takes, as the message of its column says it.
fn takes(field: &Editable) -> String {
    let (what, clearable) = match &field.target {
        EditTarget::Standard(_) if field.object == Object::Company => {
            ("text with a character that is not white space".into(), true)
        }
        EditTarget::Standard(_) => ("text".into(), true),
        EditTarget::Custom(custom) => {
            let what = match custom.data_type {
                DataType::ShortText => format!("text of at most {SHORT_TEXT} characters"),
                DataType::LongText => format!("text of at most {LONG_TEXT} characters"),
                DataType::Integer => "a whole number of 64 bits".into(),
                DataType::Decimal => "a decimal as text, at most 20 digits before the point and 10 behind it".into(),
                DataType::Boolean => "0 or 1".into(),
                DataType::Date => "a real date, YYYY-MM-DD".into(),
                DataType::DateTime => {
                    "a timestamp with a time zone, YYYY-MM-DDTHH:MM:SSZ, to the microsecond at most".into()
                }
                DataType::SingleSelect => "the value of one of its options, see select_labels".into(),
                DataType::MultiSelect => {
                    format!("a JSON array of at most {MULTI_SELECT} values of its options, see select_labels")
                }
                DataType::Unknown => "nothing that this program knows".into(),
            };
            (what, custom.clearable)
        }
    };
    let clears = if clearable { "NULL clears it" } else { "it cannot be cleared" };
    format!("{} takes {what}; {clears}", field.column)
}

/// `SELECT CASE … END;` for so many arms at a time.
fn cases(of: &str, arms: &[String]) -> String {
    arms.chunks(ARMS).map(|arms| format!("SELECT CASE {of}\n  {} END;\n", arms.join("\n  "))).collect()
}

/// The trigger that takes an UPDATE of an object's view.
fn update(object: Object, columns: &[(String, Editability)]) -> String {
    let (mut fixed, mut rows, mut messages, mut details) = (vec![], vec![], vec![], vec![]);
    for (name, standing) in columns {
        match standing {
            Editability::Editable(field) => {
                rows.push(format!("('{name}', OLD.{name}, NEW.{name})"));
                messages.push(format!("WHEN '{name}' THEN RAISE(ABORT, '{}')", takes(field)));
                if field.detail_only() {
                    details.push(format!("'{name}'"));
                }
            }
            Editability::Archived => {}
            other => {
                let why = other.refusal().unwrap_or_default();
                fixed.push(format!("WHEN NEW.{name} IS NOT OLD.{name} THEN RAISE(ABORT, '{name} {why}')"));
            }
        }
    }
    let view = object.full_view();
    format!(
        "CREATE TRIGGER {view}_update INSTEAD OF UPDATE ON {view} BEGIN
SELECT RAISE(ABORT, 'writing back is off: set enabled = true below [write_back] in the configuration of crm-mirror, and run crm-mirror sync')
WHERE NOT EXISTS (SELECT 1 FROM state WHERE name = '{write_back}' AND value = 'true');
{fixed}INSERT INTO outbox (object_type, record_id, source, fields, base_etag, queued_at)
SELECT '{object}', OLD.id, 'sql', json_group_object(e.name, json_array(e.before, 
  CASE WHEN NOT e.taken THEN json('{{}}') WHEN typeof(e.after) = 'text' THEN e.after || '' ELSE e.after END)),
  -- What only details carry was seen as of the detail: an edit of it is based on that version, or on none.
  CASE WHEN max(e.name IN ({details})) AND NOT OLD.details_current
    THEN (SELECT etag FROM {detail_table} WHERE {detail_key} = OLD.id) ELSE OLD.etag END, {NOW}
FROM (SELECT c.name AS name, c.before AS before, c.after AS after, {taken} AS taken
FROM ({changed}) AS c WHERE c.before IS NOT c.after) AS e GROUP BY NULL;
{messages}SELECT RAISE(ABORT, 'an edit changes at most {CUSTOM_KEYS} custom fields of a record at once')
WHERE changes() > 0 AND (SELECT count(*) FROM outbox AS o JOIN json_each(o.fields) AS f
  WHERE o.id = last_insert_rowid() AND substr(f.key, 1, 3) = 'cf_') > {CUSTOM_KEYS};
INSERT INTO outbox_events (outbox_id, at, from_state, to_state, why)
SELECT id, queued_at, NULL, state, 'changed with SQL' FROM outbox WHERE id = last_insert_rowid() AND changes() > 0;
END",
        write_back = StateKey::WriteBack,
        fixed = cases("", &fixed),
        details = details.join(", "),
        detail_table = object.detail_table(),
        detail_key = object.detail_key(),
        taken = taken(object),
        changed = changed(object, &rows.join(",\n  ")),
        messages = cases(
            "(SELECT f.key FROM outbox AS o JOIN json_each(o.fields) AS f
  WHERE o.id = last_insert_rowid() AND changes() > 0 AND json_type(f.value, '$[1]') = 'object' LIMIT 1)",
            &messages
        ),
    )
}

/// The triggers that say what the service has no operation for.
fn refused(object: Object) -> [String; 2] {
    let view = object.full_view();
    [("INSERT", "made"), ("DELETE", "removed")].map(|(what, word)| {
        format!(
            "CREATE TRIGGER {view}_{} INSTEAD OF {what} ON {view} BEGIN
SELECT RAISE(ABORT, 'a {object} cannot be {word} here: the service can only update one'); END",
            what.to_lowercase()
        )
    })
}

impl MirrorTx<'_> {
    /// Makes the triggers of views that were just made; those of the old ones went with them.
    pub(in crate::store) fn make_edit_triggers(&self) -> Result<(), StoreError> {
        for object in Object::ALL {
            let columns = editable::columns(&self.conn, object, &self.shapes)?;
            let [insert, delete] = refused(object);
            for sql in [update(object, &columns), insert, delete] {
                self.conn.execute_batch(&sql).doing(DOING)?;
            }
        }
        Ok(())
    }

    /// Says whether edits are taken, as the configuration has it.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn set_write_back(&self, enabled: bool) -> Result<(), StoreError> {
        self.set_state(&StateKey::WriteBack, &enabled)
    }
}
