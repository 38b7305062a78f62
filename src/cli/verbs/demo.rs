//! `crm-mirror demo`: a simulated CRM, its mirror, changes that are mirrored, and queries, in a few seconds.
//!
//! Everything except the CRM is real: the runs are those of `sync` and `resync`, over HTTP on loopback. The queries are plain SQL.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::api::BaseUrl;
use crate::app::{Mirror, MirrorSettings};
use crate::cli::ui::rows::{self, RowFormat};
use crate::cli::verbs::{edit, sync};
use crate::cli::{Failure, Global, identity, logging, output, session};
use crate::config::{Config, Sources};
use crate::daemon::{self, DaemonSignals, StopSignals};
use crate::exit::Exit;
use crate::format;
use crate::model::{Instant, Object, RecordId, Resource, SystemClock};
use crate::outbox::{EditRequest, queue};
use crate::sandbox::{Development, FaultLine, Sandbox, SandboxServer, World, WorldOrigin};
use crate::store::{
    ReadTx, Reader, RunOutcome, StateKey, StoreError, beside, open, record, remove_database, report, write_beside,
};
use crate::sync::checks::identity::Identity;
use crate::sync::{Job, JobKind, Silent};

const CONTACTS: usize = 600;
const COMPANIES: usize = 80;
const SEED: u64 = 7;
const PAGE: &str = "127.0.0.1:8787";
const CHURN: Duration = Duration::from_secs(3);

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror demo\n  crm-mirror demo --serve\n  crm-mirror demo --path /tmp/demo.db")]
pub struct DemoArgs {
    /// The mirror to create; a mirror of an earlier demo is replaced.
    #[arg(long, default_value = "./crm-mirror-demo.db", value_name = "FILE")]
    path: PathBuf,
    /// Data full of edge cases, for tests.
    #[arg(long)]
    nasty: bool,
    /// Then keep the CRM changing, and run the daemon with its status page at this address until Ctrl-C.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = PAGE)]
    serve: Option<SocketAddr>,
}

pub fn run(global: &Global, args: &DemoArgs) -> Result<Exit, Failure> {
    identity::take(&args.path)?;
    logging::start(&global.log_alone()?);
    make_room(&args.path)?;
    let runtime = session::runtime()?;
    let origin = WorldOrigin::Generated { contacts: CONTACTS, companies: COMPANIES, nasty: args.nasty };
    let development = Development { origin, seed: SEED, now: None, state: None, faults: FaultLine::default() };
    let (sandbox, _) = Sandbox::develop(&development).map_err(|error| Failure::new(Exit::Internal, error))?;
    let running = runtime.block_on(sandbox.start(0))?;
    runtime.block_on(steps(&args.path, &running))?;
    answer_questions(&Reader::open_for_queries(&args.path)?)?;
    let path = args.path.display();
    output::text(&format!(
        "\nThe mirror is {path}, {}. To query it yourself:\n  \
         crm-mirror sql --database {path} \\\n    'SELECT name, position FROM contacts_full LIMIT 5'\n  \
         sqlite3 -readonly {path}\n",
        format::bytes(report::sizes(&args.path).0),
    ))?;
    match args.serve {
        Some(page) => runtime.block_on(serve(&args.path, &running, page)),
        None => Ok(output::text(&format!(
            "\n`crm-mirror demo --serve` keeps the CRM changing, with the daemon's status page\nat http://{PAGE}/.\n"
        ))?),
    }
}

/// The configuration of the demo: nothing else is read.
fn sources(path: &Path, running: &SandboxServer) -> Sources {
    let flags = vec![
        ("api.base_url", running.base_url.clone()),
        ("database.path", path.display().to_string()),
        ("sync.definitions_schedule", "off".into()),
        ("write_back.enabled", "true".into()),
    ];
    let environment = [("CRM_MIRROR_API__KEY", running.sandbox.full_key())].into_iter().collect();
    Sources { environment, flags, ..Sources::default() }
}

async fn serve(path: &Path, running: &SandboxServer, page: SocketAddr) -> Result<Exit, Failure> {
    let mut sources = sources(path, running);
    sources.flags.extend([("daemon.http", page.to_string()), ("sync.schedule", "auto".into())]);
    let signals = DaemonSignals::listen()?;
    output::text(&format!("\nThe status page is at http://{page}/ until you press Ctrl-C.\n"))?;
    tokio::select! {
        ended = daemon::run(sources, Arc::new(SystemClock), signals) => ended?,
        () = running.sandbox.churn(CHURN, SEED) => {}
    }
    Ok(Exit::Done)
}

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
    let removed = remove_database(path).and_then(|()| std::fs::remove_file(beside(path, ".lock")));
    removed.map_err(|source| StoreError::Io { path: path.into(), source })?;
    drop(lock);
    Ok(())
}

/// Whether the mirror is one of a sandbox, and its first run was a demo's: with `--serve`, runs of the daemon follow.
fn is_of_a_demo(mirror: &ReadTx<'_>) -> Result<bool, StoreError> {
    let identity: Option<Identity> = mirror.state(&StateKey::Identity)?;
    let loopback = identity.is_none_or(|identity| {
        let url: Result<BaseUrl, _> = identity.base_url.parse();
        url.is_ok_and(|url| url.is_loopback())
    });
    Ok(loopback && report::began_with(mirror, "demo")?)
}

async fn steps(path: &Path, running: &SandboxServer) -> Result<(), Failure> {
    let mut signals = StopSignals::listen()?;
    let sandbox = &running.sandbox;
    output::text(&format!(
        "A simulated CRM runs at {}:\n{CONTACTS} contacts, {COMPANIES} companies, {} custom fields.\n",
        running.base_url,
        sandbox.with_world(|world| world.definitions.len()),
    ))?;
    let settings = MirrorSettings::new(Config::load(&sources(path, running))?)?;
    // The steps report what happens; log lines in between would repeat it.
    let mirror = Mirror::open(settings, Arc::new(SystemClock), Arc::new(Silent)).await?;
    let mut run = async |title: &str, job: &Job| -> Result<(), Failure> {
        let (summary, found) = session::run_until_stopped(&mirror, job, "demo", &mut signals).await?;
        let text = match job.kind {
            JobKind::Verify => sync::found_text(&summary, &found, job.repair),
            _ => summary.text(Instant::system_now()),
        };
        output::text(&format!("\n{title}\n{text}"))?;
        match summary.outcome {
            RunOutcome::Done => Ok(()),
            _ => Err(Failure::new(Exit::Paused, "the demo was stopped")),
        }
    };
    let steps = async {
        run("First copy.", &Job::sync()).await?;
        let edited = sandbox.with_world(change);
        run("The CRM changes; sync fetches only the changes.", &Job::sync()).await?;

        let before = Instant::system_now();
        let request = EditRequest {
            object: Object::Contact,
            record: RecordId::new(&*edited),
            changes: vec![edit::given("position=Chief Data Officer")?],
        };
        write_beside(path, |tx| queue(tx, &request, before))?;
        let title = format!(
            "An edit in the mirror is sent to the CRM, once.\n\
             `UPDATE contacts_full SET …` does the same.\n  \
             crm-mirror edit contact {edited} position='Chief Data Officer'"
        );
        run(&title, &Job::sync()).await?;
        let reader = Reader::open(path)?;
        let values = record::record(&reader.begin()?, Object::Contact, &edited, Some(before))?.values;
        let position = values.into_iter().find(|(column, _)| column == "position");
        let was = position.and_then(|(_, value)| value.as_str().map(String::from)).unwrap_or_default();
        output::text(&format!("  before, by `crm-mirror show contact {edited} --at TIME`:\n  position {was}\n"))?;

        sandbox.with_world(|world| world.remove(Object::Contact, &world.ids(Resource::Contacts)[10]));
        let title = "A contact is deleted, which no list of changes shows.\n`verify --repair` finds and removes it.";
        run(title, &Job::audit()).await?;
        run("`verify` again:", &Job::verify()).await
    };
    let ended = steps.await;
    mirror.close().await;
    ended
}

/// Changes two contacts and a company, creates a contact, and returns the id of a contact that did not change.
fn change(world: &mut World) -> String {
    let (contacts, companies) = (world.ids(Resource::Contacts), world.ids(Resource::Companies));
    let fields = json!({"customFields": {"tier": "gold", "lifetime_value": "48250.00"}});
    world.edit(Object::Contact, &contacts[0], &fields);
    let fields = json!({"customFields": {"topics": ["api", "pricing"]}, "notes": "Asked for the price list."});
    world.edit(Object::Contact, &contacts[1], &fields);
    let fields = json!({"employeeCount": 1200, "customFields": {"credit_limit": "25000.50"}});
    world.edit(Object::Company, &companies[0], &fields);
    let new = json!({
        "name": "Ada Demo", "firstName": "Ada", "lastName": "Demo", "email": "ada@demo.example",
        "position": "Engineer", "companyId": companies[0], "customFields": {"tier": "silver"},
    });
    world.create(Object::Contact, &new);
    contacts[2].clone()
}

const QUESTIONS: &str = include_str!("demo.sql");

fn answer_questions(mirror: &Reader) -> Result<(), Failure> {
    let questions = QUESTIONS.trim_end().split("\n\n").filter_map(|text| text.strip_prefix("-- ")?.split_once('\n'));
    for (sentence, sql) in questions {
        output::text(&format!("\n{sentence}\n\n  {sql}\n\n"))?;
        rows::write(&mut output::data(), &mut mirror.prepare(sql)?, RowFormat::Table)?;
    }
    Ok(())
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
