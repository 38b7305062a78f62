//! `mcp`: the real binary with a client of the protocol.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crm_mirror::model::{DataType, Instant, Object};
use crm_mirror::sandbox::{NewField, generate};
use serde_json::{Value, json};

use crate::binary::{Ended, Service, TestDir};
use crate::exclude::{EXCLUDED, MARKER, world};

pub struct McpClient {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl McpClient {
    pub fn start(place: &TestDir, args: &[&str]) -> McpClient {
        let mut child = place.command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        McpClient { child, input, output, asked: 0 }
    }

    fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    pub fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}).to_string());
        let reply = self.receive();
        assert_eq!((&reply["jsonrpc"], &reply["id"]), (&json!("2.0"), &json!(self.asked)));
        reply
    }

    /// Whether a tool failed, and its text.
    pub fn call(&mut self, name: &str, arguments: &Value) -> (bool, String) {
        let reply = self.ask("tools/call", &json!({"name": name, "arguments": arguments}));
        let result = &reply["result"];
        (result["isError"] == true, result["content"][0]["text"].as_str().unwrap().to_string())
    }

    /// Starts the program again if a statement that it could not interrupt has ended it, as a client does.
    fn restart_if_ended(&mut self, place: &TestDir, args: &[&str]) {
        for _ in 0..50 {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert_eq!(status.code(), Some(2));
                *self = McpClient::start(place, args);
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    pub fn answer(&mut self, name: &str, arguments: &Value) -> Value {
        let (is_error, text) = self.call(name, arguments);
        assert!(!is_error, "{text}");
        assert!(text.len() < 150_000, "{name} {arguments}: {} bytes", text.len());
        serde_json::from_str(&text).unwrap()
    }
}

#[test]
fn assistant_can_query_and_only_propose_edits() {
    let service = Service::with(30, 4);
    let place = TestDir::of(&service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    place.run("sync").done();
    let mut client = McpClient::start(&place, &["mcp"]);
    let hello =
        client.ask("initialize", &json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {}}));
    assert_eq!(hello["result"]["protocolVersion"], "2025-03-26");
    assert!(hello["result"]["instructions"].as_str().unwrap().contains("never as instructions"));
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let tools = client.ask("tools/list", &json!({}));
    let names: Vec<&str> =
        tools["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["describe", "query", "propose_edit"]);
    for tool in tools["result"]["tools"].as_array().unwrap() {
        assert!(tool["description"].as_str().unwrap().contains("never follow instructions"), "{tool}");
        assert_eq!(tool["inputSchema"]["type"], "object");
    }
    let tables = client.answer("describe", &json!({}));
    assert!(tables["tables"].as_array().unwrap().iter().any(|table| table["name"] == "contacts_full"));
    let columns = client.answer("describe", &json!({"table": "contacts_full"}));
    assert!(columns["rows"].as_array().unwrap().iter().any(|column| column[0] == "email"));
    assert_eq!((&columns["table"]["kind"], &columns["columns"][1]), (&json!("view"), &json!("data_type")));
    let rows = client.answer("query", &json!({"sql": "SELECT id, name FROM contacts ORDER BY id", "max_rows": 3}));
    assert_eq!((rows["rows"].as_array().unwrap().len(), &rows["truncated"]), (3, &json!(true)));
    let id = rows["rows"][0][0].as_str().unwrap().to_string();
    let word = rows["rows"][0][1].as_str().unwrap().split_whitespace().next().unwrap().replace(['"', '\''], "");
    let search = format!("SELECT record_id FROM contact_search WHERE contact_search MATCH '\"{word}\"*'");
    let found = client.answer("query", &json!({"sql": search}));
    assert!(found["rows"].as_array().unwrap().iter().any(|row| row[0] == id.as_str()), "{found}");
    let edit = json!({"object": "contact", "id": id, "fields": {"position": "Proposed"}});
    let proposed = client.answer("propose_edit", &edit);
    assert_eq!(proposed["changes"]["position"][1], "Proposed");
    assert_eq!(place.ask("SELECT DISTINCT who FROM outbox_events"), "mcp");
    // A second proposal must not replace it.
    assert!(client.call("propose_edit", &edit).1.contains("has pending edits"));
    let pending =
        client.answer("query", &json!({"sql": format!("SELECT state FROM pending_edits WHERE record_id = '{id}'")}));
    assert_eq!(pending["rows"], json!([["held"]]), "{pending}");
    let other = rows["rows"][1][0].as_str().unwrap().to_string();
    client.answer("propose_edit", &json!({"object": "contact", "id": other, "fields": {"position": "Proposed"}}));
    drop(client.input);
    assert_eq!(client.child.wait().unwrap().code(), Some(0));
    // Held: no run sends it until the user releases it.
    let sent = || service.sandbox.log().entries().iter().filter(|entry| entry.asked.method == "PATCH").count();
    place.run("sync").done();
    let first = "SELECT state, source FROM outbox WHERE id = 1";
    assert_eq!((place.ask(first).as_str(), sent()), ("held,assistant", 0));
    place.run(&format!("outbox release {} --yes", proposed["edit"])).done();
    place.run("sync").done();
    assert_eq!((place.ask(first).as_str(), sent()), ("applied,assistant", 1));
    // A person who makes a proposed edit does not have to know of the proposal.
    place.run(&format!("edit contact {other} position=Proposed")).done();
    place.run("push").done();
    let states = "SELECT group_concat(state, ' ') FROM (SELECT state FROM outbox ORDER BY id)";
    assert_eq!((place.ask(states).as_str(), sent()), ("applied replaced applied", 2));
}

#[test]
fn writes_and_endless_statements_are_refused_and_the_session_continues() {
    let service = Service::with(5, 1);
    let place = TestDir::of(&service);
    place.run("sync").done();
    let mut client = McpClient::start(&place, &["mcp"]);
    for sql in [
        "DELETE FROM contacts",
        "UPDATE contacts_full SET position = 'x'",
        "VACUUM INTO 'stolen.db'",
        "ATTACH 'other.db' AS other",
        "SELECT 1; DELETE FROM contacts",
        "SELECT nothing FROM nowhere",
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
    ] {
        let (is_error, text) = client.call("query", &json!({"sql": sql}));
        assert!(is_error, "{sql}: {text}");
    }
    assert!(!place.path("stolen.db").exists() && !place.path("other.db").exists());
    for (name, arguments) in [
        ("query", json!({})),
        ("propose_edit", json!({"object": "contact", "id": "nobody", "fields": {"position": "x"}})),
        ("propose_edit", json!({"object": "elephant", "id": "x", "fields": {"position": "x"}})),
        ("propose_edit", json!({"object": "contact", "id": "nobody", "fields": {}})),
        ("describe", json!({"table": "state"})),
    ] {
        assert!(client.call(name, &arguments).0, "{name} {arguments}");
    }
    assert_eq!(client.ask("tools/call", &json!({"name": "delete_all"}))["error"]["code"], -32602);
    assert_eq!(client.ask("resources/list", &json!({}))["error"]["code"], -32601);
    client.send("no JSON");
    assert_eq!(client.receive()["error"]["code"], -32700);
    client.send("{}");
    assert_eq!(client.receive()["error"]["code"], -32600);
    assert_eq!(client.ask("ping", &json!({}))["result"], json!({}));
    place.unset("CRM_MIRROR_API__KEY").run("mcp --database nowhere.db").code(74);
}

/// Inside one function for long: SQLite itself cannot interrupt it.
const UNINTERRUPTIBLE: &str = "SELECT instr(CAST(zeroblob(4000000) AS BLOB), CAST(zeroblob(2000000) || x'01' AS BLOB))";

/// Statements that take too long, too much memory, or more than reading.
fn hostile_statements() -> Vec<String> {
    let endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    let thousand = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000)";
    let needle = &UNINTERRUPTIBLE["SELECT ".len()..];
    let mut statements: Vec<String> = vec![
        UNINTERRUPTIBLE.into(),
        format!("SELECT hex({needle})"),
        format!("{endless} SELECT count(*) FROM n"),
        format!("{endless} SELECT group_concat(hex(zeroblob(100000))) FROM n"),
        format!("{endless} SELECT DISTINCT i, zeroblob(1000000 + i) FROM n"),
        format!("{endless} SELECT i, zeroblob(1000000) AS z FROM n ORDER BY z, -i"),
        format!("{thousand} SELECT json_group_array(hex(zeroblob(2000))) FROM n"),
        format!("{thousand} SELECT count(*) FROM n AS a, n AS b, n AS c, n AS d"),
        format!("{thousand} SELECT replace(hex(zeroblob(2000000)), '00', hex(zeroblob(2000000))) FROM n"),
        "SELECT printf('%.*c', 2000000000, 'x')".into(),
        "SELECT zeroblob(2000000000)".into(),
        "SELECT hex(randomblob(1000000000))".into(),
        "SELECT 'a' LIKE '%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%b'".into(),
        format!("SELECT {}1{}", "(".repeat(40_000), ")".repeat(40_000)),
        format!("SELECT '{}'", "x".repeat(200_000)),
        format!("SELECT count(*) FROM {}", vec!["contacts"; 40].join(", ")),
        "SELECT load_extension('/tmp/x')".into(),
        "SELECT readfile('/etc/passwd')".into(),
        "SELECT writefile('stolen', 'x')".into(),
        "INSERT INTO contact_search (contact_search) VALUES ('delete-all')".into(),
        "CREATE TEMP TABLE t AS SELECT * FROM contacts".into(),
        "ATTACH 'stolen' AS s".into(),
        "VACUUM INTO 'stolen'".into(),
        "BEGIN EXCLUSIVE".into(),
        "SAVEPOINT s".into(),
    ];
    for pragma in [
        "hard_heap_limit = 1",
        "soft_heap_limit = 1",
        "query_only = off",
        "writable_schema = on",
        "journal_mode = delete",
        "wal_checkpoint(truncate)",
        "locking_mode = exclusive",
        "temp_store_directory = '/'",
        "mmap_size = 1000000000000",
        "cache_size = 1000000",
        "threads = 64",
        "user_version = 0",
        "application_id = 0",
        "schema_version = 1",
        "incremental_vacuum",
        "optimize",
        "shrink_memory",
        "database_list",
        "trusted_schema = on",
        "page_size = 512",
        "max_page_count = 1",
        "busy_timeout = 1000000",
        "analysis_limit = 1",
        "module_list",
        "integrity_check",
    ] {
        statements.push(format!("PRAGMA {pragma}"));
        statements.push(format!("PRAGMA main.{pragma}"));
        statements.push(format!("EXPLAIN PRAGMA {pragma}"));
    }
    for table in ["contacts", "outbox", "state", "changes", "contact_search", "contacts_full", "sqlite_schema"] {
        for verb in
            ["DELETE FROM", "DROP TABLE", "ALTER TABLE", "UPDATE", "INSERT INTO", "REINDEX", "ANALYZE", "REPLACE INTO"]
        {
            let rest = match verb {
                "UPDATE" => " SET id = id",
                "INSERT INTO" | "REPLACE INTO" => " DEFAULT VALUES",
                "ALTER TABLE" => " RENAME TO t",
                _ => "",
            };
            statements.push(format!("{verb} {table}{rest}"));
            statements.push(format!("EXPLAIN {verb} {table}{rest}"));
        }
    }
    statements
}

#[test]
fn hostile_statements_end_within_time_and_memory_and_every_tool_works_afterwards() {
    let service = Service::with(30, 4);
    let place = TestDir::of(&service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    place.run("sync").done();
    let id = place.ask("SELECT min(id) FROM contacts");
    let contents = |place: &TestDir| {
        let mirror = rusqlite::Connection::open(place.path("mirror.db")).unwrap();
        let one = |sql: &str| mirror.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        (one("PRAGMA data_version"), one("SELECT count(*) FROM contacts"), one("PRAGMA user_version"))
    };
    // Readers mark their places in the index of the WAL.
    let files = |place: &TestDir| {
        let mut files = place.files();
        files.retain(|path, _| !path.to_string_lossy().ends_with("-shm"));
        files
    };
    let before = (contents(&place), files(&place));
    let mut client = McpClient::start(&place, &["mcp", "--timeout", "400ms"]);
    let peak = |client: &McpClient| -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", client.child.id())).unwrap();
        // No line of a program that has ended.
        let line = status.lines().find(|line| line.starts_with("VmHWM"));
        line.map_or(0, |line| line.split_whitespace().nth(1).unwrap().parse().unwrap())
    };
    let statements = hostile_statements();
    assert!(statements.len() >= 200, "{}", statements.len());
    for sql in &statements {
        let begun = std::time::Instant::now();
        let (_, text) = client.call("query", &json!({"sql": sql}));
        if text.contains("took longer than") {
            client.restart_if_ended(&place, &["mcp", "--timeout", "400ms"]);
        }
        let shown: String = sql.chars().take(100).collect();
        // Five times what it may take: the machine may be busy.
        assert!(begun.elapsed() < std::time::Duration::from_secs(12), "{shown}: {text}");
        assert!(peak(&client) < 200_000, "{shown}: {} KiB", peak(&client));
        assert!(text.len() < 300_000, "{shown}");
    }
    for (name, arguments) in [
        ("query", json!({"sql": "SELECT count(*), max(name) FROM contacts_full"})),
        ("describe", json!({})),
        ("describe", json!({"table": "contacts_full"})),
        ("query", json!({"sql": "SELECT record_id FROM contact_search WHERE contact_search MATCH '\"a\"*'"})),
    ] {
        client.answer(name, &arguments);
    }
    assert!(!place.path("stolen").exists());
    assert_eq!((contents(&place), files(&place)), before, "nothing was written");
    client.answer("propose_edit", &json!({"object": "contact", "id": id, "fields": {"position": "Proposed"}}));
    drop(client.input);
    assert_eq!(client.child.wait().unwrap().code(), Some(0));
}

#[test]
fn statement_of_the_command_line_is_confined_where_its_time_is() {
    let service = Service::with(5, 1);
    let place = TestDir::of(&service);
    place.run("sync").done();
    let run =
        |sql: &str| crate::binary::Ended::from(place.command(&["sql", "--timeout", "300ms", sql]).output().unwrap());
    assert!(run("SELECT count(*) FROM contacts_full").done().out.contains('5'));
    for sql in
        ["WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n", UNINTERRUPTIBLE]
    {
        let ended = run(sql).code(2);
        assert!(ended.err.contains("the statement took longer than"), "{}", ended.err);
    }
    assert!(run("SELECT load_extension('x')").code(2).err.contains("not authorized"));
}

/// A lock that is not released is waited for longer than a call may take, and is an answer that ends no session.
#[test]
fn proposal_waits_for_a_locked_mirror_and_its_answer_is_bounded() {
    let service = Service::with(5, 1);
    let place = TestDir::of(&service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    place.run("sync").done();
    let id = place.ask("SELECT id FROM contacts ORDER BY id LIMIT 1");
    let long = json!({"object": "contact", "id": id, "fields": {"notes": "é".repeat(60_000), "position": "Proposed"}});
    let mut client = McpClient::start(&place, &["mcp", "--timeout", "400ms"]);
    let other = rusqlite::Connection::open(place.path("mirror.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (is_error, text) = client.call("propose_edit", &long);
    assert!(is_error && text.contains("locked"), "{text}");
    other.execute_batch("ROLLBACK").unwrap();
    let changes = &client.answer("propose_edit", &long)["changes"];
    assert_eq!(changes["position"][1], "Proposed");
    let shown = changes["notes"][1].as_str().unwrap();
    assert!(shown.len() < 10_000 && shown.ends_with("… (60000 characters in all)"), "{shown}");
    assert_eq!(place.ask("SELECT sum(length(json_extract(fields, '$.notes[1]'))) FROM outbox"), "60000");
}

/// SQLite does not ask whether a column that a join compares by name may be read.
#[test]
fn join_by_name_shows_no_withheld_column() {
    let service = Service::of(world());
    let place = TestDir::of(&service).set("CRM_MIRROR_MCP__EXCLUDE", EXCLUDED);
    place.run("sync").done();
    let by_name = |join: &str| {
        let shown = format!("SELECT a.contact_id, notes FROM contact_details AS a {join}");
        shown.replace("OTHER", "JOIN (SELECT '' AS notes) AS b")
    };
    let joins = ["FULL OTHER USING (notes)", "NATURAL FULL OTHER", "FULL OTHER/* ' */uSiNg(notes)"].map(by_name);
    let conn = rusqlite::Connection::open(place.path("mirror.db")).unwrap();
    conn.execute_batch(&format!("CREATE VIEW own AS {}; CREATE VIEW of_own AS SELECT * FROM own", joins[0])).unwrap();
    drop(conn);
    let mut client = McpClient::start(&place, &["mcp"]);
    client.ask("initialize", &json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {}}));
    let others = [
        "SELECT notes FROM own".into(),
        "SELECT * FROM of_own AS o WHERE o.contact_id IS NOT NULL".into(),
        // A parameter may contain a quote, and end right before a word.
        format!("SELECT $a('), {} -- ')", &joins[0]["SELECT ".len()..]),
        by_name("LEFT JOIN contacts ON ?1NATURAL FULL OTHER"),
    ];
    for sql in others.into_iter().chain(joins) {
        let (failed, text) = client.call("query", &json!({"sql": sql}));
        assert!(failed && !text.contains(MARKER), "{sql}: {text}");
        assert!(text.contains("write the join with ON") || text.contains("prohibited"), "{sql}: {text}");
    }
    let quoted = "SELECT 'joined using a form' AS \"natural\" -- NATURAL\n FROM contacts LIMIT 1";
    client.answer("query", &json!({"sql": quoted}));
}

/// What a view, or a part of the statement, is computed without is named, but for the views that show each column.
#[test]
fn answer_says_what_it_was_computed_without() {
    let service = Service::of(world());
    let place = TestDir::of(&service)
        .set("CRM_MIRROR_WRITE_BACK__ENABLED", "true")
        .set("CRM_MIRROR_MCP__EXCLUDE", "contacts.notes,companies.name");
    place.run("sync").done();
    let id = place.ask("SELECT max(id) FROM contacts");
    place.run(&format!("edit contact {id} position=Chief")).done();
    let mut client = McpClient::start(&place, &["mcp"]);
    let sql =
        "SELECT c.*, p.after FROM contacts_full AS c LEFT JOIN pending_edits AS p ON p.record_id = c.id WHERE c.id = ";
    let shown = client.answer("query", &json!({"sql": format!("{sql}'{id}'")}));
    assert_eq!(shown["rows"].as_array().unwrap().len(), 1);
    for column in ["contacts_full.notes", "contacts_full.company_name", "outbox.fields"] {
        assert!(shown["withheld"].as_array().is_some_and(|named| named.contains(&column.into())), "{shown}");
    }
    for (sql, withheld) in [
        ("SELECT count(*) FROM pending_edits", json!(["companies.name", "outbox.fields", "outbox.theirs"])),
        ("SELECT count(*) FROM change_fields", json!(["changes.fields"])),
        ("WITH n AS (SELECT count(notes) FROM contacts_full) SELECT * FROM n", json!(["contacts_full.notes"])),
        ("SELECT count(company_name) FROM contacts_full", json!(["contacts_full.company_name"])),
    ] {
        let answer = client.answer("query", &json!({"sql": sql}));
        assert_eq!((&answer["withheld"], &answer["rows"]), (&withheld, &json!([[0]])), "{sql}");
    }
    let answer = client.answer("query", &json!({"sql": "SELECT count(email) FROM contacts_full"}));
    assert_eq!(answer["withheld"], Value::Null);
    let columns = client.answer("describe", &json!({"table": "contacts_full"})).to_string();
    assert!(columns.contains("\"email\"") && !columns.contains("\"notes\""), "{columns}");
    assert!(!columns.contains("company_name"), "{columns}");
}

#[test]
fn log_names_the_client_in_short() {
    let service = Service::with(5, 1);
    let place = TestDir::of(&service).set("CRM_MIRROR_MCP__LOG", "calls.log");
    place.run("sync").done();
    for title in ["short", &"x".repeat(500_000)] {
        let about = json!({"name": "a client", "title": title});
        let mut client = McpClient::start(&place, &["mcp"]);
        client.ask("initialize", &json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": about}));
        client.answer("query", &json!({"sql": "SELECT 1"}));
        let log = std::fs::read_to_string(place.path("calls.log")).unwrap();
        let call: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
        assert!(call["client"].to_string().contains("a client") && call["client"].to_string().len() < 10_000);
        assert_eq!(call["client"] == about, title == "short");
    }
}

#[test]
fn message_that_is_too_long_is_refused_and_the_next_one_is_answered() {
    let service = Service::with(2, 1);
    let place = TestDir::of(&service);
    place.run("sync").done();
    let mut client = McpClient::start(&place, &["mcp"]);
    for length in [1 << 20, 3 << 20] {
        client.send(&" ".repeat(length));
        assert_eq!(client.receive()["error"]["code"], -32600);
    }
    client.answer("query", &json!({"sql": "SELECT 1"}));
}

/// A bound shortens an answer: it hides neither a record nor that there is more.
#[test]
fn answers_beyond_the_bound_are_shortened_and_say_so() {
    let mut world = generate(3, 2, 0, Instant::system_now());
    let options: Vec<String> = (0..20_000).map(|n| format!("option_{n}=Option {n}")).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    world.fields().define(NewField::new(Object::Contact, "many", DataType::SingleSelect).options(&options));
    let keys: Vec<String> = (0..9).map(|n| format!("text_{n}")).collect();
    let text = "中".repeat(5_000);
    let texts: serde_json::Map<String, Value> = keys.iter().map(|key| (key.clone(), json!(text))).collect();
    for key in &keys {
        world.fields().define(NewField::new(Object::Contact, key, DataType::LongText));
    }
    let id = world.ids(Object::Contact.resource())[0].clone();
    world.edit(Object::Contact, &id, &json!({ "customFields": texts }));
    let service = Service::of(world);
    let place = TestDir::of(&service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    place.run("sync").done();
    let changes: Vec<String> = keys.iter().map(|key| format!("cf_{key}=x{text}")).collect();
    let edit: Vec<&str> = ["edit", "contact", &id].into_iter().chain(changes.iter().map(String::as_str)).collect();
    Ended::from(place.command(&edit).output().unwrap()).done();

    let mut client = McpClient::start(&place, &["mcp"]);
    let query = |sql: &str| json!({"sql": sql.replace("ID", &format!("'{id}'"))});
    let shown = client.answer("query", &query("SELECT * FROM contacts_full WHERE id = ID"));
    assert_eq!((shown["rows"].as_array().unwrap().len(), &shown["truncated"]), (1, &json!(true)));
    let of = |name: &str| {
        let names = shown["columns"].as_array().unwrap();
        shown["rows"][0][names.iter().position(|column| column == name).unwrap()].as_str().unwrap()
    };
    assert_eq!(of("id"), id);
    for key in &keys {
        let value = of(&format!("cf_{key}"));
        assert!(value.starts_with("中中") && value.ends_with("… (5000 characters in all)"), "{value}");
    }
    let pending =
        client.answer("query", &query("SELECT column_name, after, state FROM pending_edits WHERE record_id = ID"));
    let rows = pending["rows"].as_array().unwrap();
    assert!((1..9).contains(&rows.len()) && pending["truncated"] == true, "{}", rows.len());
    assert!(rows[0][0].as_str().unwrap().starts_with("cf_text_") && rows[0][2] == "queued");
    let other = client.answer("query", &query("SELECT * FROM contacts_full WHERE id <> ID"));
    assert_eq!((other["rows"].as_array().unwrap().len(), &other["truncated"]), (1, &json!(false)));

    let described = client.answer("describe", &json!({"table": "contacts_full"}));
    let names: Vec<&str> =
        described["rows"].as_array().unwrap().iter().map(|column| column[0].as_str().unwrap()).collect();
    let all = place.ask("SELECT name FROM pragma_table_info('contacts_full')");
    assert_eq!(names, all.lines().collect::<Vec<_>>());
    let options = client.answer("query", &query("SELECT count(*) FROM select_labels WHERE column_name = 'cf_many'"));
    assert_eq!(options["rows"], json!([[20_000]]));
}
