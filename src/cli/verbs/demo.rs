//! `crm-mirror demo`: a simulated CRM, its mirror, changes that are mirrored, and queries, in a few seconds.
//!
//! Everything except the CRM is real: the runs are those of `sync` and `resync`, over HTTP on loopback.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use serde_json::json;

use crate::api::{ApiKey, BaseUrl};
use crate::app::MirrorSettings;
use crate::budget::Limits;
use crate::cli::Failure;
use crate::cli::session::{self, Session};
use crate::cli::signals::StopSignals;
use crate::cli::ui::output;
use crate::cli::ui::progress::ProgressView;
use crate::cli::verbs::demo_questions as questions;
use crate::cli::verbs::sql;
use crate::cli::{Global, identity, logging};
use crate::config::{ApiConfig, ChangesSchedule};
use crate::exit::Exit;
use crate::format;
use crate::model::{Instant, Object, Resource, Ru, SystemClock};
use crate::sandbox::{Sandbox, SandboxServer, World, generate};
use crate::store::{MOST_INDEXED, ReadTx, Reader, RunOutcome, StoreError, ViewOptions, open, report};
use crate::sync::checkpoints::Identity;
use crate::sync::{Job, Summary, SyncSettings};

const CONTACTS: usize = 600;
const COMPANIES: usize = 80;
const SEED: u64 = 7;

/// Show everything at once on a local sandbox, in a few seconds: no key, no configuration, no network.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror demo\n  crm-mirror demo --path /tmp/demo.db")]
pub struct DemoArgs {
    /// The mirror to create; a mirror of an earlier demo is replaced.
    #[arg(long, default_value = "./crm-mirror-demo.db", value_name = "FILE")]
    path: PathBuf,
}

/// Runs the verb.
///
/// # Errors
/// Returns an error if the file is something else, or a step fails.
pub fn run(global: &Global, args: &DemoArgs) -> Result<Exit, Failure> {
    identity::take(&args.path)?;
    // The steps report what happens; log lines in between would repeat it.
    let progress = ProgressView::bars_or_nothing();
    logging::start(&global.log_alone()?, &progress);
    make_room(&args.path)?;
    let ended = session::runtime()?.block_on(steps(&args.path, progress))?;
    if ended != Exit::Done {
        return Ok(ended);
    }
    questions::run(&sql::connect(&args.path)?)?;
    let path = args.path.display();
    output::text(&format!(
        "\nThe mirror is {path}, {}. To query it yourself:\n  sqlite3 -readonly {path}\n  \
         crm-mirror sql --database {path} 'SELECT * FROM mirror_columns LIMIT 10'\n",
        format::bytes(report::sizes(&args.path).0),
    ))?;
    Ok(Exit::Done)
}

/// Removes the mirror of an earlier demo; refuses any other file.
fn make_room(path: &Path) -> Result<(), Failure> {
    let reader = match Reader::open(path) {
        Ok(reader) => reader,
        Err(StoreError::Missing { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if !is_of_a_demo(&reader.begin()?)? {
        let message = format!("{} is a mirror that the demo did not make", path.display());
        return Err(
            Failure::new(Exit::Storage, message).hint("choose another file with `--path`; this one was not changed")
        );
    }
    drop(reader);
    // Another demo may be writing it: creating it takes the lock or fails.
    let lock = open::create(path)?;
    // The lock file is removed last: it contains the RU ledger of the earlier runs, which would count for the next.
    for suffix in ["", "-wal", "-shm", ".lock"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match std::fs::remove_file(&name) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::Io { path: name.into(), source }.into());
            }
            _ => {}
        }
    }
    drop(lock);
    Ok(())
}

/// Whether the mirror is one of a sandbox, and every run was a demo's.
fn is_of_a_demo(mirror: &ReadTx<'_>) -> Result<bool, StoreError> {
    let identity: Option<Identity> = mirror.state(&Identity::ENTRY)?;
    let loopback = identity.is_none_or(|identity| {
        let url: Result<BaseUrl, _> = identity.base_url.parse();
        url.is_ok_and(|url| url.is_loopback())
    });
    Ok(loopback && report::all_runs_by(mirror, "demo")?)
}

async fn steps(path: &Path, progress: ProgressView) -> Result<Exit, Failure> {
    let mut signals = StopSignals::listen()?;
    let sandbox = Sandbox::new(generate(SEED, CONTACTS, COMPANIES, Instant::system_now()), Arc::new(SystemClock));
    let running = sandbox.start(0).await?;
    output::text(&format!(
        "A simulated CRM runs at {}: {CONTACTS} contacts, {COMPANIES} companies, {} custom fields.\n",
        running.base_url,
        sandbox.with_world(|world| world.definitions().len()),
    ))?;
    let session = Session::open(setup(path, &running)?, Arc::new(progress)).await?;
    let contacts = [Resource::Contacts];
    let mut ended = Exit::Done;
    for (title, change, job) in [
        ("First copy", None, Job::sync()),
        ("The CRM changes; sync fetches only the changes", Some(edit as fn(&mut World)), Job::sync()),
        (
            "A contact is deleted, which a list of changes does not show; resync finds it",
            Some(delete as fn(&mut World)),
            Job::resync().of(&contacts),
        ),
    ] {
        if let Some(change) = change {
            sandbox.with_world(change);
        }
        let ran = session.run(&job, "demo", &mut signals).await?;
        output::text(&step(title, &ran.summary))?;
        if ran.summary.outcome != RunOutcome::Done {
            ended = Exit::Paused;
            break;
        }
    }
    session.close().await;
    Ok(ended)
}

fn step(title: &str, summary: &Summary) -> String {
    let n = format::count;
    format!(
        "\n{title}.\n  {} new, {} changed, {} removed; {}; {} in {}\n",
        n(summary.inserted),
        n(summary.updated),
        n(summary.removed),
        format::counted(summary.details_read, "detail", "details"),
        format::ru(Ru::new(summary.ru.spent)),
        format::duration(Duration::from_secs_f64(summary.seconds.max(0.0))),
    )
}

/// Edits three contacts and a company, including custom fields, and creates one contact.
fn edit(world: &mut World) {
    let contacts = world.ids(Resource::Contacts);
    let companies = world.ids(Resource::Companies);
    let changes = [
        json!({"position": "Chief Data Officer"}),
        json!({"customFields": {"tier": "silver", "lifetime_value": "1234567.89"}}),
        json!({"customFields": {"topics": ["api", "pricing"], "tier": "gold"}, "notes": "Asked for the price list."}),
    ];
    for (id, change) in contacts.iter().zip(&changes) {
        world.edit(Object::Contact, id, change);
    }
    if let Some(id) = companies.first() {
        let change = json!({"employeeCount": 1200, "customFields": {"credit_limit": "250000.50"}});
        world.edit(Object::Company, id, &change);
    }
    let new = json!({
        "name": "Ada Demo", "firstName": "Ada", "lastName": "Demo", "email": "ada@demo.example",
        "position": "Engineer", "companyId": companies.first(), "customFields": {"tier": "silver"},
    });
    world.create(Object::Contact, &new);
}

fn delete(world: &mut World) {
    if let Some(id) = world.ids(Resource::Contacts).get(10) {
        world.remove(Object::Contact, id);
    }
}

fn setup(path: &Path, running: &SandboxServer) -> Result<MirrorSettings, Failure> {
    let base_url: Result<BaseUrl, _> = running.base_url.parse();
    let key = ApiKey::new(&running.sandbox().full_key());
    Ok(MirrorSettings {
        definitions: None,
        schedule: (ChangesSchedule::Off, TimeZone::UTC),
        api: ApiConfig {
            base_url: base_url.map_err(|error| Failure::new(Exit::Internal, error))?,
            key: key.map_err(|error| Failure::new(Exit::Internal, error))?,
            concurrency: 4,
            timeout: Duration::from_secs(30),
        },
        database: path.to_path_buf(),
        custom_indexes: MOST_INDEXED,
        views: ViewOptions::default(),
        limits: Limits { limit: Ru::new(10_000), window: Duration::from_secs(86_400), charge_failed: true },
        sync: SyncSettings::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_that_is_not_of_the_demo_is_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("notes.txt");
        std::fs::write(&text, "mine").unwrap();
        assert_eq!(make_room(&text).unwrap_err().exit(), Exit::Storage);
        assert_eq!(std::fs::read_to_string(&text).unwrap(), "mine");
        let mirror = dir.path().join("mirror.db");
        drop(open::create(&mirror).unwrap());
        rusqlite::Connection::open(&mirror)
            .unwrap()
            .execute("INSERT INTO sync_runs (kind, \"trigger\", started_at) VALUES ('sync', 'manual', '')", [])
            .unwrap();
        let failure = make_room(&mirror).unwrap_err();
        assert!(failure.text().contains("did not make"), "{}", failure.text());
        assert!(mirror.exists());
    }

    #[test]
    fn missing_file_and_earlier_demo_are_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let mirror = dir.path().join("mirror.db");
        make_room(&mirror).unwrap();
        let lock = open::create(&mirror).unwrap();
        lock.note("spent").unwrap();
        drop(lock);
        make_room(&mirror).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
