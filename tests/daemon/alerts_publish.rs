//! The alerts about PostgreSQL, with a real server beside a daemon in which time passes. Where Debian's package `postgresql`
//! is not installed, the tests print a note and pass.
//!
//! The daemon looks at the mirror every two seconds of the machine's clock, so each test waits where a publish is due.

use std::os::unix::fs::PermissionsExt;

use crm_mirror::model::{Object, Resource};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::alerts::plant_and_wait;
use crate::fixture::DaemonFixture;
use crate::inside::Inside;
use crate::postgres::Postgres;
use crate::socket;

/// A server to publish to.
pub struct Published {
    runtime: Runtime,
    postgres: Postgres,
    pub url: String,
}

impl Published {
    pub fn start() -> Option<Published> {
        let runtime = Runtime::new().unwrap();
        let postgres = runtime.block_on(Postgres::start())?;
        let url = postgres.url();
        Some(Published { runtime, postgres, url })
    }

    fn settings(&self) -> [(&str, &str); 1] {
        [("PUBLISH__URL", &self.url)]
    }

    /// No list is late within a step of an hour.
    fn hourly(&self) -> [(&str, &str); 2] {
        [("PUBLISH__URL", &self.url), ("SYNC__SCHEDULE", "0 0 * * * *")]
    }

    /// A query's first text.
    pub fn one(&self, sql: &str) -> String {
        self.runtime.block_on(self.postgres.one(sql))
    }

    fn run(&self, sql: &str) {
        self.runtime.block_on(self.postgres.run(sql));
    }

    /// The server accepts connections or, as while it is restarted, none.
    pub fn accept(&self, accepts: bool) {
        let name = &self.postgres.name;
        self.runtime.block_on(self.postgres.administer(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS {accepts}")));
        self.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        );
    }
}

/// Waits until `status` has this value about publishing.
fn until(inside: &Inside, member: &str, value: u64) {
    socket::until(member, || (inside.status()["publish"][member] == value).then_some(()));
}

/// Waits until everything is published and was compared: a table that is loaded later is compared again.
fn compared(inside: &Inside) {
    let mut looks = 0;
    socket::until("the comparison", || {
        looks += 1;
        if looks % 200 == 0 {
            // A publish that met a run is tried again after a delay.
            inside.crm.wait(10);
        }
        let publish = &inside.status()["publish"];
        (publish["equal_at"].is_string() && publish["entries"] == 0).then_some(())
    });
}

fn edit(inside: &Inside, position: &str) {
    inside.crm.sandbox.with_world(|world| {
        let id = world.ids(Resource::Contacts)[0].clone();
        world.edit(Object::Contact, &id, &json!({"position": position}));
    });
}

#[test]
fn postgresql_that_is_away_fires_one_alert() {
    let Some(published) = Published::start() else { return };
    let away = |inside: &Inside| {
        compared(inside);
        published.accept(false);
        edit(inside, "Waits");
    };
    let mend = |_: &Inside| published.accept(true);
    plant_and_wait("PostgreSQL is away and something changes", &published.settings(), away, |_, _| {}, mend);
}

#[test]
fn postgresql_that_is_away_while_nothing_changes_fires_one_alert() {
    let Some(published) = Published::start() else { return };
    let away = |inside: &Inside| {
        compared(inside);
        published.accept(false);
    };
    let mend = |_: &Inside| published.accept(true);
    plant_and_wait("PostgreSQL is away and nothing changes", &published.hourly(), away, |_, _| {}, mend);
}

#[test]
fn row_that_postgresql_refuses_fires_one_alert() {
    let Some(published) = Published::start() else { return };
    let refuse = |inside: &Inside| {
        compared(inside);
        published.run("ALTER TABLE crm.contacts ADD CONSTRAINT ours CHECK (position <> 'forbidden')");
        edit(inside, "forbidden");
    };
    let rest = |inside: &Inside, _| until(inside, "refused", 1);
    let mend = |inside: &Inside| edit(inside, "allowed");
    plant_and_wait("PostgreSQL refuses a row", &published.settings(), refuse, rest, mend);
}

#[test]
fn value_that_somebody_changes_in_postgresql_fires_one_alert() {
    let Some(published) = Published::start() else { return };
    let change = |inside: &Inside| {
        compared(inside);
        published.run("UPDATE crm.contacts SET name = 'theirs' WHERE id = (SELECT min(id) FROM crm.contacts)");
    };
    // The daemon compares once a day.
    let rest = |inside: &Inside, passed| {
        if passed > 86_400 {
            until(inside, "differences", 1);
        }
    };
    let mend = |inside: &Inside| {
        inside.verb(&["publish", "--verify", "--repair"], &[("PUBLISH__URL", &published.url)]);
    };
    plant_and_wait("somebody changes a published value", &published.hourly(), change, rest, mend);
}

/// It may quote a value: here that of an expression index.
#[test]
fn what_postgresql_says_is_neither_logged_nor_on_the_page() {
    let Some(published) = Published::start() else { return };
    let fixture = DaemonFixture::with(6, 1)
        .set("CRM_MIRROR_DAEMON__HTTP", "127.0.0.1:0")
        .set("CRM_MIRROR_LOG__LEVEL", "debug")
        .set("CRM_MIRROR_PUBLISH__URL", &published.url);
    let daemon = fixture.start();
    let page = daemon.page();
    let of_publish = |what: &str, is: &dyn Fn(&Value) -> bool| {
        socket::until(what, || Some(daemon.status()["publish"].clone()).filter(is))
    };
    let write = |position: &str| {
        fixture.service.sandbox.with_world(|world| {
            let ids = world.ids(Resource::Contacts);
            ids.iter().for_each(|id| _ = world.edit(Object::Contact, id, &json!({"position": position})));
        });
        daemon.sync();
    };
    let assert_private = |status: &Value, said: &str| {
        assert!(status[said].to_string().contains("zqmarker"), "{status}");
        let page = socket::ask_page(&page, "/status").with(200).body;
        assert!(!page.contains("zqmarker"), "{page}");
        let log = daemon.log();
        assert!(!log.contains("zqmarker"), "{log}");
    };
    write("1");
    of_publish("the first load", &|publish| publish["equal_at"].is_string());
    published.run("CREATE INDEX ours ON crm.contacts ((position::int))");
    write("zqmarker");
    let refused = of_publish("the refusal", &|publish| publish["refused"] == 6);
    daemon.until_logged("The published database refuses contacts ct_");
    assert_private(&refused, "refused_rows");
    published.run("ALTER TABLE crm.contacts DROP CONSTRAINT contacts_pkey");
    write("zqmarker again");
    let left = of_publish("the index that could not follow", &|publish| publish["left_behind"][0].is_string());
    daemon.until_logged("left behind");
    assert_private(&left, "left_behind");
    published.accept(false);
    write("2");
    daemon.until_logged("Publishing failed and will be retried: could not connect to the server at ");
    assert!(daemon.log().contains("SQLSTATE 55000"), "{}", daemon.log());
    daemon.stop();
}

/// The file of the URL is missing, or has a wrong one, before anything was published.
#[test]
fn postgresql_that_never_answered_fires_one_alert() {
    let Some(published) = Published::start() else { return };
    for url in [None, Some("postgres://u:p@127.0.0.1:1/d")] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("url");
        let write = |url: &str| {
            std::fs::write(&file, url).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        };
        url.into_iter().for_each(write);
        let settings = [("PUBLISH__URL_FILE", file.to_str().unwrap())];
        let fails = |inside: &Inside| {
            socket::until("the failure", || inside.status()["publish"]["last_error"].is_string().then_some(()));
        };
        let mend = |_: &Inside| write(&published.url);
        plant_and_wait("PostgreSQL never answered", &settings, fails, |_, _| {}, mend);
    }
}
