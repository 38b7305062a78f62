//! The file in other programs: an older SQLite, a read-only directory, a tool that reads the schema.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::prepared::prepared;
use crate::support::{Crm, Mirror, noon, shell};
use crm_mirror::daemon::job::Trigger;
use crm_mirror::model::{DataType, EditState, Object, Resource, TimeField};
use crm_mirror::sandbox::{NewField, generate};
use crm_mirror::store::RunOutcome;
use crm_mirror::sync::Job;
use serde_json::json;
use strum::VariantNames as _;

/// A mirror with everything: all types, an archived field, a removed record, changes, unusual values, an audit.
async fn lived_in() -> (Crm, Mirror) {
    let make = || async move {
        let mut world = generate(5, 120, 20, noon());
        for data_type in DataType::ALL {
            let key = format!("Own {}", data_type.as_str());
            world.fields().define(NewField::new(Object::Contact, &key, data_type).options(&["a"]));
            world.fields().define(NewField::new(Object::Company, &key, data_type).options(&["a"]));
        }
        let ids = world.ids(Object::Contact.resource());
        world.set_raw(Object::Contact, &ids[0], "name", "7");
        let crm = Crm::serve(world).await;
        let mirror = Mirror::empty();
        mirror.sync(&crm).await;
        crm.sandbox.with_world(|world| {
            world.fields().archive(Object::Contact, "Own DECIMAL");
            world.remove(Object::Contact, &ids[1]);
            world.edit(
                Object::Contact,
                &ids[2],
                &json!({"customFields": {"Own MULTI_SELECT": ["a"], "Own LONG_TEXT": "x"}}),
            );
        });
        crm.wait(7 * 3600);
        mirror.resync(&crm).await;
        (crm, mirror)
    };
    prepared("lived in".into(), make).await
}

#[tokio::test]
async fn sqlite_with_lower_limits_reads_everything() {
    let (_crm, mirror) = lived_in().await;
    let conn = mirror.read();
    // Like the JDBC driver: a view that it cannot parse would prevent all reading.
    conn.set_limit(rusqlite::limits::Limit::SQLITE_LIMIT_FUNCTION_ARG, 100).unwrap();
    let sql = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')";
    let mut stmt = conn.prepare(sql).unwrap();
    let names: Vec<String> = stmt.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    for name in names {
        conn.query_row(&format!("SELECT count(*) FROM \"{name}\""), [], |row| row.get::<_, i64>(0)).unwrap();
    }
}

#[tokio::test]
async fn older_sqlite_shell_reads_everything() {
    if !shell::is_there() {
        return;
    }
    let (_crm, mirror) = lived_in().await;
    let ask = |sql: &str| shell::run(&mirror.path, sql).unwrap();
    assert_eq!(ask("PRAGMA integrity_check"), "ok");
    for (view, table) in [("contacts_full", "contacts"), ("companies_full", "companies")] {
        assert_eq!(ask(&format!("SELECT count(*) FROM (SELECT * FROM {view})")), mirror.count(table).to_string());
        assert_eq!(ask(&format!("SELECT count(*) FROM {view} WHERE details_current")), mirror.count(table).to_string());
    }
    for table in
        ["removed_records", "changes", "sync_runs", "mirror_columns", "custom_multi_values", "custom_field_options"]
    {
        assert_eq!(ask(&format!("SELECT count(*) > 0 FROM {table}")), "1", "{table}");
    }
    assert_eq!(ask("SELECT max(json_valid(fields)) FROM changes"), "1");
    assert_eq!(ask("PRAGMA quick_check; PRAGMA journal_mode"), "ok\nwal");
}

#[tokio::test]
async fn dictionary_covers_every_public_column() {
    let (_crm, mirror) = lived_in().await;
    let conn = mirror.read();
    let names = |sql: &str| -> Vec<String> {
        conn.prepare(sql).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let own = [
        "state",
        "doubts",
        "goals",
        "frontier",
        "reads",
        "changed_records",
        "outbox_delays",
        "outbox_values",
        "ended_values",
        "filled_records",
        "unshown_columns",
    ];
    let tables = names(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type <> 'shadow'
         AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    );
    for table in ["contacts_full", "contact_search", "company_search", "select_labels"] {
        assert!(tables.iter().any(|name| name == table), "{table}");
    }
    for table in tables.iter().filter(|table| !own.contains(&table.as_str())) {
        let real: Vec<String> = names(&format!("SELECT name FROM pragma_table_info('{table}')"))
            .into_iter()
            // Parked columns are hidden until their field is restored.
            .filter(|name| !name.starts_with("archived_cf_"))
            .collect();
        let entered =
            names(&format!("SELECT column_name FROM mirror_columns WHERE table_name = '{table}' ORDER BY position"));
        let as_set = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
        assert_eq!(as_set(&real), as_set(&entered), "{table}");
        assert_eq!(real.len(), entered.len(), "{table}");
    }
    // The view has the dictionary's order.
    let view = names("SELECT name FROM pragma_table_info('contacts_full')");
    let entered = names("SELECT column_name FROM mirror_columns WHERE table_name = 'contacts_full' ORDER BY position");
    assert_eq!(view, entered);
}

/// What a column says that it holds is what can be stored in it.
#[tokio::test]
async fn dictionary_names_every_value_of_an_enumeration() {
    let (_crm, mirror) = lived_in().await;
    let verify = Job::verify();
    let kinds = [Job::sync(), Job::resync(), verify, Job::push()].map(|job| job.name());
    let resources = Resource::ALL.map(Resource::as_str);
    let dimensions = [TimeField::CreatedAt, TimeField::UpdatedAt].map(TimeField::column);
    let open: Vec<&str> = EditState::VARIANTS.iter().copied().filter(|state| !is_final(state)).collect();
    let cases: [(&str, &str, Vec<&str>); 8] = [
        ("sync_runs", "kind", kinds.to_vec()),
        ("sync_runs", "outcome", RunOutcome::VARIANTS.to_vec()),
        ("sync_runs", "trigger", [Trigger::VARIANTS, &["demo"]].concat()),
        ("outbox", "state", EditState::VARIANTS.to_vec()),
        ("outbox", "source", vec!["sql", "edit", "undo", "assistant"]),
        ("pending_edits", "state", open),
        ("audits", "dimension", dimensions.to_vec()),
        ("service_oddities", "resource", resources.to_vec()),
    ];
    for (table, column, mut stored) in cases {
        let about =
            format!("SELECT about FROM mirror_columns WHERE table_name = '{table}' AND column_name = '{column}'");
        let about = mirror.one(&about).replace(" or ", ", ");
        let mut named: Vec<&str> = about.trim_matches('\'').split(", ").collect();
        named.sort_unstable();
        stored.sort_unstable();
        assert_eq!(named, stored, "{table}.{column}");
    }
}

fn is_final(state: &str) -> bool {
    state.parse::<EditState>().unwrap().is_final()
}

#[tokio::test]
async fn schema_is_readable_by_every_supported_tool() {
    let (_crm, mirror) = lived_in().await;
    let conn = mirror.read();
    let mut stmt = conn.prepare("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL").unwrap();
    let entries: Vec<(String, String, String)> =
        stmt.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap().map(Result::unwrap).collect();
    // Syntax that an older parser does not support makes the whole file unreadable there.
    let too_new = [
        "->",
        "jsonb",
        "right join",
        "full join",
        "is distinct from",
        "is not distinct from",
        "string_agg",
        "concat(",
        "concat_ws(",
        "iif(",
        " if(",
        "contentless_delete",
        "secure-delete",
        "locale=",
        "unistr",
        "timediff",
    ];
    for (kind, name, sql) in &entries {
        // Comments are text.
        let code: String =
            sql.lines().map(|line| line.split("--").next().unwrap_or_default().to_lowercase() + "\n").collect();
        for word in too_new {
            // `group_concat` is as old as views.
            assert!(!code.replace("group_concat(", "").contains(word), "{kind} {name} has `{word}`");
        }
        // Before 3.47, RAISE accepts only a constant text.
        // A doubled quote is one quote in the text.
        for raised in code.replace("''", "").replace("raise(ignore)", "").split("raise(").skip(1) {
            let text = raised.strip_prefix("abort, '").and_then(|rest| rest.split_once('\''));
            assert!(text.is_some_and(|(_, rest)| rest.starts_with(')')), "{kind} {name}: {}", &raised[..80]);
        }
        let shadow = name.contains("_search");
        if kind == "table" && !shadow && !name.starts_with("sqlite_") {
            assert!(code.trim_end().contains("strict"), "{name} is not STRICT");
            assert!(!code.contains(" any"), "{name} has an ANY column");
        }
    }
    let strict: i64 = conn
        .query_row(
            "SELECT count(*) FROM pragma_table_list WHERE type = 'table' AND strict = 0 AND schema = 'main'
             AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE '%\\_search%' ESCAPE '\\'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(strict, 0);
    let pragma = |name: &str| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
    assert!(pragma("user_version") >= 1);
    assert_ne!(pragma("application_id"), 0);
    for (table, to) in [
        ("contacts", "companies,team_members"),
        ("companies", "team_members"),
        ("contact_details", "contacts"),
        ("company_details", "companies"),
        ("custom_field_options", "custom_field_definitions"),
    ] {
        let sql = format!(
            "SELECT group_concat(t) FROM (SELECT DISTINCT \"table\" t FROM pragma_foreign_key_list('{table}') ORDER BY 1)"
        );
        assert_eq!(mirror.one(&sql), format!("'{to}'"));
    }
}

/// Reads the mirror as a user with read access only.
fn as_nobody(path: &Path, sql: &str) -> Option<Result<String, String>> {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|out| out.stdout == b"0\n");
    let mut command = if is_root {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sqlite3"]);
        command
    } else {
        Command::new("sqlite3")
    };
    let ran = command.args(["-batch", "-readonly"]).arg(path).arg(sql).output().ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    Some(if ran.status.success() { Ok(text(&ran.stdout)) } else { Err(text(&ran.stderr)) })
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn read_only_users_can_read_after_a_clean_stop() {
    let (_crm, mirror) = lived_in().await;
    let dir = mirror.dir.path().to_path_buf();
    for entry in std::fs::read_dir(&dir).unwrap() {
        chmod(&entry.unwrap().path(), 0o444);
    }
    chmod(&dir, 0o555);
    let read = as_nobody(&mirror.path, "SELECT count(*) FROM contacts_full");
    chmod(&dir, 0o755);
    for entry in std::fs::read_dir(&dir).unwrap() {
        chmod(&entry.unwrap().path(), 0o644);
    }
    let Some(read) = read.filter(|_| shell::is_there()) else {
        eprintln!("skipped: no `setpriv` to become another user with");
        return;
    };
    assert_eq!(read, Ok(mirror.count("contacts").to_string()));
}
