//! `crm-mirror sandbox`: serves the API of the reference locally, with generated data.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::{Failure, Global, identity, logging, output, session};
use crate::daemon::StopSignals;
use crate::exit::Exit;
use crate::model::Instant;
use crate::sandbox::{
    Development, DevelopmentError, FaultLine, SCOPES, Sandbox, WorldOrigin, churn_interval, key_of_seed,
};

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror sandbox --contacts 5000 --fault latency:50ms\n  \
                        crm-mirror sandbox --state crm.state --churn 5/s\n  \
                        crm-mirror sandbox --port 0 --fixture crm.json --now 2026-01-01T00:00:00Z\n  \
                        crm-mirror sandbox --fault 429:1%,503:2%,latency:50..400ms")]
pub struct SandboxArgs {
    /// The port on 127.0.0.1; 0 picks a free one.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// The number of contacts.
    #[arg(long, default_value_t = 1000, value_name = "NUMBER")]
    contacts: usize,
    /// The number of companies.
    #[arg(long, default_value_t = 100, value_name = "NUMBER")]
    companies: usize,
    /// The same seed gives the same data and the same key.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Generate data full of edge cases, for tests.
    #[arg(long)]
    nasty: bool,
    /// Serve these records: one JSON object with `contacts`, `companies`, `customFieldDefinitions`, `teamMembers`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["contacts", "companies", "nasty"])]
    fixture: Option<PathBuf>,
    /// Keep the world in this file: it survives restarts and kills.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Fix the clock at this time: the same command then gives byte-identical answers.
    #[arg(long, value_name = "TIME")]
    now: Option<Instant>,
    /// Change records at this rate.
    #[arg(long, value_name = "NUMBER/s", value_parser = churn_interval)]
    churn: Option<Duration>,
    /// Make a share of the requests fail, or delay them.
    #[arg(long, value_name = "KIND:SHARE%,…", default_value = "", hide_default_value = true)]
    fault: FaultLine,
}

pub fn run(global: &Global, args: &SandboxArgs) -> Result<Exit, Failure> {
    if let Some(state) = &args.state {
        identity::take(state)?;
    }
    logging::start(&global.log_alone()?);
    let origin = match &args.fixture {
        Some(path) => WorldOrigin::Fixture(std::fs::read_to_string(path).map_err(|source| {
            Failure::new(Exit::Usage, format!("could not read the fixture {}: {source}", path.display()))
        })?),
        None => WorldOrigin::Generated { contacts: args.contacts, companies: args.companies, nasty: args.nasty },
    };
    let (state, faults) = (args.state.clone(), args.fault.clone());
    let development = Development { origin, seed: args.seed, now: args.now, state, faults };
    let (sandbox, seed) = Sandbox::develop(&development).map_err(|error| match error {
        DevelopmentError::Fixture(_) => Failure::new(Exit::Usage, error),
        _ => Failure::new(Exit::Storage, error),
    })?;
    session::runtime()?.block_on(async {
        let mut signals = StopSignals::listen()?;
        let server = sandbox.start(args.port).await.map_err(|source| {
            let message = format!("could not listen on 127.0.0.1:{}: {source}", args.port);
            Failure::new(Exit::Unavailable, message).hint("`--port 0` picks a free one")
        })?;
        let key = key_of_seed(seed);
        sandbox.set_key(&key, &SCOPES);
        // For scripts.
        output::text(&format!("base_url: {}\napi_key: {key}", server.base_url))?;
        let steps = format!("`crm-mirror init --base-url {}`, the key in a file `api-key`", server.base_url);
        output::note(&format!("to mirror it: {steps}, and `crm-mirror sync`; press Ctrl-C to stop"));
        match args.churn {
            None => signals.next().await,
            Some(every) => tokio::select! {
                () = signals.next() => {}
                () = sandbox.churn(every, seed) => {}
            },
        }
        Ok(Exit::Done)
    })
}
