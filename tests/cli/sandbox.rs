//! `sandbox`: it prints everything that `sync` needs, and any SQLite can read the resulting mirror.

use crate::binary::{Going, Service, TestDir, has_sqlite3, sqlite3};

#[test]
fn sandbox_is_mirrored_and_read_by_the_systems_sqlite() {
    let place = TestDir::empty();
    let mut sandbox = Going::start(place.command(&[
        "sandbox",
        "--port",
        "0",
        "--contacts",
        "150",
        "--companies",
        "20",
        "--seed",
        "5",
        "--log-level",
        "debug",
    ]));
    let base_url = sandbox.line();
    let base_url = base_url.strip_prefix("base_url: ").unwrap();
    let key = sandbox.line();
    let key = key.strip_prefix("api_key: ").unwrap();
    let place = place.set("CRM_MIRROR_API__BASE_URL", base_url).set("CRM_MIRROR_API__KEY", key);
    place.run("sync").done();
    if has_sqlite3() {
        let mirror = place.path("mirror.db");
        assert_eq!(sqlite3(&mirror, "PRAGMA integrity_check"), "ok\n");
        assert_eq!(sqlite3(&mirror, "SELECT count(*), sum(details_current) FROM contacts_full"), "150|150\n");
        assert_eq!(sqlite3(&mirror, "SELECT count(*), sum(details_current) FROM companies_full"), "20|20\n");
    }
    sandbox.signal("-TERM");
    let (code, rest) = sandbox.end();
    assert_eq!(code, Some(0), "{rest}");
    assert!(rest.contains("DEBUG GET /contacts?limit=100&sort=createdAt&count=exact 200 1 RU"), "{rest}");
}

#[test]
fn port_in_use_is_reported() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let ended = TestDir::empty().run(&format!("sandbox --contacts 0 --companies 0 --port {port}")).code(69);
    assert!(ended.err.contains(&format!("could not listen on 127.0.0.1:{port}")), "{}", ended.err);
    assert!(ended.err.contains("hint: `--port 0`"), "{}", ended.err);
}

#[test]
fn log_counts_what_it_no_longer_has() {
    let service = Service::with(30, 4);
    service.sandbox.configure(|settings| settings.log_limit = Some(10));
    let place = TestDir::of(&service);
    place.run("sync").done();
    let log = service.sandbox.log();
    assert_eq!(log.ru().get().to_string(), place.ask("SELECT sum(ru) FROM sync_runs"));
    assert!(log.len() > 34 && log.entries().len() <= 12, "{} of {}", log.entries().len(), log.len());
}
