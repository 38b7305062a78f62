//! What `crm-mirror check` looks at, from the configuration to the disk.
//!
//! A failure ends nothing: whatever can still be looked at is. Nothing is changed: no file is made, and what it asks of the
//! service (1 RU for each resource) is entered in the mirror's ledger. Where it could not be entered, nothing is asked: while
//! another process writes the mirror, and during a hold. Each subject has a file of its own, which judges facts that it is
//! given as far as it can.

mod budget;
mod configuration;
mod key;
pub mod line;
mod meter;
mod mirror;
mod readers;
mod schedule;
mod service;
mod space;

use crate::cli::Failure;
use crate::cli::session::{self, Setup};
use crate::config::{Config, ConfigError, Sources};
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::model::{Instant, Object, Resource};
use crate::store::{StoreError, lock};
use crate::sync::SyncError;
use line::{Findings, Line};
use mirror::Mirror;
use service::Asked;

/// Looks at everything.
///
/// # Errors
/// Only where nothing can be said at all; what is wrong is in the findings.
pub fn run(sources: &Sources, read: &Result<Config, ConfigError>, offline: bool) -> Result<Findings, Failure> {
    let mut lines = configuration::check(sources, read);
    if let Ok(config) = read {
        lines.extend(rest(config, offline)?);
    }
    Ok(Findings::new(lines))
}

/// What depends on a configuration that can be used.
fn rest(config: &Config, offline: bool) -> Result<Vec<Line>, Failure> {
    let now = Instant::system_now();
    let limits = crate::sync::setup::limits(&config.budget);
    let database = &config.database;
    let writer = lock::who_writes(database);
    let found = Mirror::read(database, &limits, now);
    let wanted = service::wanted(config.sync.objects.as_deref());

    let asked = ask(config, offline, writer, &found, &wanted)?;
    // After the asking, so that what it cost is told.
    let found = match &asked {
        Ok(_) => Mirror::read(database, &limits, now),
        Err(_) => found,
    };
    let here = found.as_ref().ok();
    let totals = Object::ALL.map(|object| asked.as_ref().ok().and_then(|asked| asked.total(object)));
    let expected = totals.iter().flatten().copied().reduce(|a, b| a + b);

    let mut lines = key::check(config);
    match &asked {
        Ok(asked) => lines.extend(service::check(asked, &wanted, config.write_back)),
        Err(why) => lines.push(Line::skip("service.scopes", why)),
    }
    lines.extend(mirror::check(config, &found, writer, now));
    lines.extend(here.and_then(|here| workspace(config, here, asked.as_ref().ok())));
    lines.extend(space::check(database, here, expected));
    lines.extend(readers::check(database));
    lines.extend(budget::check(config, &limits, here, totals, now));
    lines.extend(schedule::check(&config.sync, now));
    lines.push(schedule::socket(&config.socket, writer));
    Ok(lines)
}

/// Asks the service; or says why it was not asked.
fn ask(
    config: &Config,
    offline: bool,
    writer: Option<Option<u32>>,
    found: &Result<Mirror, StoreError>,
    wanted: &[Resource],
) -> Result<Result<Asked, String>, Failure> {
    let Ok(setup) = Setup::from_config(config) else {
        return Ok(Err("not asked: it takes an address and a key".into()));
    };
    if offline {
        return Ok(Err("not asked: --offline".into()));
    }
    if let Some(pid) = writer {
        let why = "writes the mirror and keeps its ledger; `crm-mirror status` says what it found";
        return Ok(Err(format!("not asked: {} {why}", mirror::process(pid))));
    }
    let runtime = session::runtime()?;
    let asked = match found {
        Ok(here) if here.hold.is_some() => Err("not asked: the service asked for quiet, see `hold`".into()),
        Ok(here) if here.is_older() => {
            Err("not asked, since what it costs cannot be entered before the mirror is up to date".into())
        }
        Ok(here) => {
            let fingerprint = setup.api.key.fingerprint();
            let new = mirror::is_ours(here, setup.api.base_url.as_str(), &fingerprint) == Some(false);
            let asked = runtime.block_on(service::ask_for(&config.database, &setup, wanted, new));
            asked.map_err(|error| format!("not asked, since what it costs cannot be entered: {}", error_chain(&error)))
        }
        Err(StoreError::Missing { .. } | StoreError::NotAMirror { .. }) => {
            Ok(runtime.block_on(service::ask_alone(&setup, wanted)))
        }
        Err(_) => Err("not asked, since what it costs cannot be entered in the mirror".into()),
    };
    Ok(asked)
}

/// Whether the mirror is of the workspace that the key sees.
fn workspace(config: &Config, here: &Mirror, asked: Option<&Asked>) -> Option<Line> {
    let name = "mirror.workspace";
    let api = config.api().ok()?;
    let Some(ours) = mirror::is_ours(here, api.base_url.as_str(), &api.key.fingerprint()) else {
        return Some(Line::skip(name, "no run has asked for anything yet"));
    };
    if ours {
        return Some(Line::ok(name, "of this address and key"));
    }
    let fix = "use the workspace's own key, or another `database.path` for the other workspace";
    Some(match asked.and_then(|asked| asked.recognised.as_ref()) {
        Some(Ok(())) => {
            Line::ok(name, "the key or the address is new, and known records are there: the same workspace")
        }
        Some(Err(error @ SyncError::OtherWorkspace { .. })) => {
            Line::fail(name, Exit::of_sync(error), error_chain(error), fix)
        }
        Some(Err(error)) => Line::warn(name, format!("the key or the address is new: {}", error_chain(error)), fix),
        None => Line::warn(
            name,
            "made with another key or address; whether of the same workspace was not asked",
            "the next run looks up known records first, for 1 RU, and stops if they are not there",
        ),
    })
}
