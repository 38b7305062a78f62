//! Publishing by the daemon: changes arrive by themselves, and an unreachable database is retried.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crm_mirror::model::{Object, Resource};
use crm_mirror::publish::{PublishError, PublishPlan, PublishSettings, PublishUrl, keep_published};
use crm_mirror::sandbox::generate;
use secrecy::SecretString;
use serde_json::json;

use crate::equal::assert_equal;
use crate::server::Postgres;
use crate::support::clock::ManualClock;
use crate::support::{Crm, Mirror, noon};

/// Waits until a query returns a text. Other texts and errors may come first.
async fn until(postgres: &Postgres, sql: &str, expected: &str) {
    for _ in 0..2_000 {
        let found = postgres.client.query_one(sql, &[]).await.ok().map(|row| row.get::<_, String>(0));
        if found.as_deref() == Some(expected) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{sql} never gave {expected}");
}

const COUNT: &str = "SELECT count(*)::text FROM crm.contacts";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_published_automatically_and_an_unavailable_database_is_retried() {
    let Some(postgres) = Postgres::start().await else { return };
    let crm = Crm::serve(generate(8, 25, 3, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let is_away = Arc::new(AtomicBool::new(true));
    let (away, url, settings) = (is_away.clone(), postgres.url(), Postgres::settings(&mirror));
    let clock = ManualClock::at(noon());
    let plan = move || {
        let url = if away.load(Ordering::SeqCst) { "postgres://u:s3cret@%2Fnowhere/d".into() } else { url.clone() };
        Some((PublishUrl::new(&SecretString::from(url)), settings.clone()))
    };
    let keeper = tokio::spawn(keep_published(plan, Arc::new(clock.clone())));
    let failures = "SELECT coalesce(json_extract(value, '$.failures'), 0) FROM state WHERE name = 'publish'";
    while mirror.count("state WHERE name = 'publish'") == 0 || mirror.one(failures) == "0" {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    is_away.store(false, Ordering::SeqCst);
    clock.advance(Duration::from_secs(600));
    until(&postgres, COUNT, "25").await;
    crm.sandbox.with_world(|world| {
        let id = world.ids(Resource::Contacts)[0].clone();
        world.edit(Object::Contact, &id, &json!({"position": "arrived"}));
        world.create(Object::Contact, &json!({"name": "New"}));
    });
    crm.wait(600);
    mirror.sync(&crm).await;
    until(&postgres, COUNT, "26").await;
    keeper.abort();
    let _ = keeper.await;
    postgres.publish(&mirror).await;
    assert_equal(&mirror, &postgres).await;
}

/// A plan that gives nothing at first: no settings, no URL, and then another publisher that is at work.
struct SlowStart {
    calls: AtomicU32,
    mirror: PathBuf,
    busy: Mutex<Option<File>>,
    wanted: Mutex<(String, PublishSettings)>,
}

impl SlowStart {
    fn plan(&self) -> PublishPlan {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let mut busy = self.busy.lock().unwrap();
        *busy = (call == 2).then(|| {
            let file = File::create(format!("{}.publish.lock", self.mirror.display())).unwrap();
            file.try_lock().unwrap();
            file
        });
        let (url, settings) = self.wanted.lock().unwrap().clone();
        match call {
            0 => Some((Err(PublishError::Url { reason: "the file is not there".into() }), settings)),
            1 => None,
            _ => Some((PublishUrl::new(&SecretString::from(url)), settings)),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mirror_that_does_not_change_is_published_once_that_is_possible_and_when_the_settings_change() {
    let (Some(postgres), Some(other)) = (Postgres::start().await, Postgres::start().await) else { return };
    let crm = Crm::serve(generate(8, 25, 3, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let start = Arc::new(SlowStart {
        calls: AtomicU32::new(0),
        mirror: mirror.path.clone(),
        busy: Mutex::new(None),
        wanted: Mutex::new((postgres.url(), Postgres::settings(&mirror))),
    });
    let (clock, planner) = (ManualClock::at(noon()), start.clone());
    let keeper = tokio::spawn(keep_published(move || planner.plan(), Arc::new(clock.clone())));
    let passing = tokio::spawn(async move {
        loop {
            clock.advance(Duration::from_secs(1));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    until(&postgres, COUNT, "25").await;
    let column = "SELECT count(*)::text FROM information_schema.columns
        WHERE table_schema = 'crm' AND table_name = 'contacts' AND column_name = 'notes'";
    assert_eq!(postgres.one(column).await, "1");
    start.wanted.lock().unwrap().1.exclude = vec!["contacts.notes".into()];
    until(&postgres, column, "0").await;
    start.wanted.lock().unwrap().0 = other.url();
    until(&other, COUNT, "25").await;
    passing.abort();
    keeper.abort();
    let _ = keeper.await;
}

#[tokio::test]
async fn mirror_that_is_not_published_is_not_kept_open() {
    let crm = Crm::serve(generate(8, 25, 3, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let (looked, mut looks) = tokio::sync::mpsc::unbounded_channel();
    let plan = move || {
        looked.send(()).unwrap();
        None
    };
    let keeper = tokio::spawn(keep_published(plan, Arc::new(ManualClock::at(noon()))));
    // With the third look, what the first two have led to is over.
    for _ in 0..3 {
        looks.recv().await.unwrap();
    }
    let open = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|file| file.unwrap().path().read_link().ok());
    assert_eq!(open.filter(|file| *file == mirror.path).count(), 0);
    keeper.abort();
    let _ = keeper.await;
}

/// A problem of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Down,
    Slow,
    Full,
    ReadOnly,
    Restarted,
}

impl Trouble {
    async fn begin(self, postgres: &Postgres) {
        let name = &postgres.name;
        match self {
            Trouble::Full => {
                postgres
                    .run(
                        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
                             $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$;
                         CREATE TRIGGER full_disk BEFORE UPDATE ON crm.publish_state
                             FOR EACH ROW EXECUTE FUNCTION full_disk()",
                    )
                    .await;
            }
            Trouble::ReadOnly => {
                postgres.run(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on")).await;
            }
            // As while a server is restarted: it is there, and accepts no connection.
            Trouble::Restarted => {
                postgres.administer(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false")).await;
                postgres
                    .run(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                         WHERE datname = current_database() AND pid <> pg_backend_pid()",
                    )
                    .await;
            }
            Trouble::Down | Trouble::Slow => {}
        }
    }

    async fn end(self, postgres: &Postgres) {
        let name = &postgres.name;
        match self {
            Trouble::Full => postgres.run("DROP TRIGGER full_disk ON crm.publish_state").await,
            Trouble::ReadOnly => {
                postgres
                    .run(&format!(
                        "SET transaction_read_only = off; ALTER DATABASE {name} RESET default_transaction_read_only"
                    ))
                    .await;
            }
            Trouble::Restarted => postgres.administer(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true")).await,
            Trouble::Down | Trouble::Slow => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_in_trouble_delays_no_run_by_a_request() {
    let Some(postgres) = Postgres::start().await else { return };
    let dir = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp").unwrap();
    // Accepts connections and never answers.
    let silent = tokio::net::UnixListener::bind(dir.path().join(".s.PGSQL.5432")).unwrap();
    let at = |dir: &std::path::Path| format!("postgres://u:s3cret@{}/d", dir.display().to_string().replace('/', "%2F"));
    let crm = Crm::serve(generate(8, 25, 3, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    postgres.publish(&mirror).await;
    let requests = async |n: usize| {
        crm.wait(600);
        crm.sandbox.with_world(|world| {
            let id = world.ids(Resource::Contacts)[n].clone();
            world.edit(Object::Contact, &id, &json!({"position": n.to_string()}));
        });
        crm.sandbox.clear_log();
        mirror.sync(&crm).await;
        crm.sandbox.log().len()
    };
    requests(0).await;
    let undisturbed = requests(1).await;
    let clock = ManualClock::at(noon());
    let troubles = [Trouble::Down, Trouble::Slow, Trouble::Full, Trouble::ReadOnly, Trouble::Restarted];
    for (n, trouble) in troubles.into_iter().enumerate() {
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, url, settings) = (is_over.clone(), postgres.url(), Postgres::settings(&mirror));
        let wrong = match trouble {
            Trouble::Down => at(std::path::Path::new("/nowhere")),
            Trouble::Slow => at(dir.path()),
            _ => url.clone(),
        };
        let plan = move || {
            let url = if over.load(Ordering::SeqCst) { &url } else { &wrong };
            Some((PublishUrl::new(&SecretString::from(url.clone())), settings.clone()))
        };
        trouble.begin(&postgres).await;
        let keeper = tokio::spawn(keep_published(plan, Arc::new(clock.clone())));
        if trouble == Trouble::Slow {
            let (connection, _) = silent.accept().await.unwrap();
            assert_eq!(requests(n + 2).await, undisturbed, "{trouble:?}");
            drop(connection);
        } else {
            let failures = "SELECT coalesce(json_extract(value, '$.failures'), 0) FROM state WHERE name = 'publish'";
            while mirror.one(failures) == "0" {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            assert_eq!(requests(n + 2).await, undisturbed, "{trouble:?}");
        }
        is_over.store(true, Ordering::SeqCst);
        trouble.end(&postgres).await;
        clock.advance(Duration::from_secs(600));
        let id = crm.sandbox.with_world(|world| world.ids(Resource::Contacts)[n + 2].clone());
        let position = format!("SELECT position FROM crm.contacts WHERE id = '{id}'");
        until(&postgres, &position, &(n + 2).to_string()).await;
        keeper.abort();
        let _ = keeper.await;
    }
    postgres.publish(&mirror).await;
    assert_equal(&mirror, &postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_publishes_the_changes_of_its_runs() {
    let Some(postgres) = Postgres::start().await else { return };
    let crm = Crm::serve(generate(8, 25, 3, noon())).await;
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_crm-mirror"))
        .arg("daemon")
        .env_clear()
        .env("CRM_MIRROR_API__BASE_URL", crm.base_url())
        .env("CRM_MIRROR_API__KEY", &crm.key)
        .env("CRM_MIRROR_DATABASE__PATH", dir.path().join("mirror.db"))
        .env("CRM_MIRROR_SYNC__SCHEDULE", "* * * * * *")
        .env("CRM_MIRROR_PUBLISH__URL", postgres.url())
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until(&postgres, COUNT, "25").await;
    // A person erases a removed record while the daemon runs.
    let id = crm.sandbox.with_world(|world| {
        let id = world.ids(Resource::Contacts)[3].clone();
        world.remove(Object::Contact, &id);
        id
    });
    let verb = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crm-mirror"));
        command.args(line.split(' ')).env_clear().current_dir(dir.path());
        for (name, value) in [
            ("API__BASE_URL", crm.base_url()),
            ("API__KEY", crm.key.as_str()),
            ("DATABASE__PATH", dir.path().join("mirror.db").to_str().unwrap()),
        ] {
            command.env(format!("CRM_MIRROR_{name}"), value);
        }
        let ended = command.output().unwrap();
        assert!(ended.status.success(), "{line}: {}", String::from_utf8_lossy(&ended.stderr));
    };
    verb("resync contacts");
    until(&postgres, COUNT, "24").await;
    until(&postgres, "SELECT count(*)::text FROM crm.removed_records", "1").await;
    verb(&format!("forget contact {id} --yes"));
    until(&postgres, "SELECT count(*)::text FROM crm.removed_records", "0").await;
    until(
        &postgres,
        &format!("SELECT count(*)::text FROM crm.changes WHERE record_id = '{id}' AND fields <> '{{}}'"),
        "0",
    )
    .await;
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
