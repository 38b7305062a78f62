//! `crm-mirror sandbox`: the API of the reference on this machine, with generated data.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::cli::Failure;
use crate::cli::signals::Signals;
use crate::cli::ui::output;
use crate::cli::ui::progress::Progress;
use crate::cli::{Global, logging, session};
use crate::exit::Exit;
use crate::format;
use crate::model::{Instant, SystemClock};
use crate::sandbox::{SCOPES, Sandbox, generate};

/// Serve the API locally with generated data, for trying things out. Nothing leaves this machine.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror sandbox --contacts 5000 --latency 50ms\n  \
                        crm-mirror sandbox --port 0 --key readonly=contacts:read,companies:read")]
pub struct SandboxArgs {
    /// The port on 127.0.0.1; 0 finds a free one.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// How many contacts there are.
    #[arg(long, default_value_t = 1000, value_name = "NUMBER")]
    contacts: usize,
    /// How many companies there are.
    #[arg(long, default_value_t = 100, value_name = "NUMBER")]
    companies: usize,
    /// The same seed gives the same data.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long every answer takes.
    #[arg(long, default_value = "0", value_name = "DURATION", value_parser = crate::config::duration)]
    latency: Duration,
    /// A further key, and what it may do; may be repeated.
    #[arg(long = "key", value_name = "KEY=SCOPE,SCOPE")]
    keys: Vec<ScopedKey>,
}

/// A key and its scopes, as given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ScopedKey {
    secret: String,
    scopes: Vec<&'static str>,
}

impl FromStr for ScopedKey {
    type Err = String;

    fn from_str(text: &str) -> Result<ScopedKey, String> {
        let (secret, scopes) = text.split_once('=').ok_or("it must be KEY=SCOPE,SCOPE")?;
        if secret.is_empty() {
            return Err("the key is empty".into());
        }
        let scopes = scopes.split(',').map(str::trim).filter(|scope| !scope.is_empty());
        let scopes: Result<Vec<&str>, String> = scopes
            .map(|scope| {
                let known = SCOPES.into_iter().find(|known| *known == scope);
                known.ok_or_else(|| format!("`{scope}` is no scope; there are {}", SCOPES.join(", ")))
            })
            .collect();
        Ok(ScopedKey { secret: secret.into(), scopes: scopes? })
    }
}

/// Carries the verb out.
///
/// # Errors
/// When the port cannot be had.
pub fn run(global: &Global, args: &SandboxArgs) -> Result<Exit, Failure> {
    logging::start(&global.log_alone()?, &Progress::nothing());
    session::runtime()?.block_on(async {
        let mut signals = Signals::listen()?;
        let world = generate(args.seed, args.contacts, args.companies, Instant::system_now());
        let sandbox = Sandbox::new(world, Arc::new(SystemClock));
        sandbox.configure(|settings| settings.latency = args.latency);
        let running = sandbox.start(args.port).await.map_err(|source| {
            let failure = Failure::new(Exit::Unavailable, NoPort { port: args.port, source });
            failure.hint("`--port 0` finds a free one")
        })?;
        output::text(&ready(&sandbox, &running.base_url, &args.keys))?;
        output::note(&hint(&running.base_url));
        signals.next().await;
        let log = sandbox.log();
        output::note(&format!(
            "answered {}, {} charged",
            format::counted(log.len() as u64, "request", "requests"),
            format::ru(log.ru())
        ));
        Ok(Exit::Done)
    })
}

#[derive(Debug, thiserror::Error)]
#[error("could not listen on 127.0.0.1:{port}")]
struct NoPort {
    port: u16,
    source: std::io::Error,
}

/// What a script reads: the address, the key that may do everything, and the further ones.
fn ready(sandbox: &Sandbox, base_url: &str, keys: &[ScopedKey]) -> String {
    let mut text = format!("base_url: {base_url}\napi_key: {}\n", sandbox.full_key());
    for key in keys {
        sandbox.set_key(&key.secret, &key.scopes);
        let scopes = if key.scopes.is_empty() { "no scope".into() } else { key.scopes.join(",") };
        text.push_str(&format!("key: {} {scopes}\n", key.secret));
    }
    text
}

fn hint(base_url: &str) -> String {
    format!(
        "mirror it from another terminal:\n  export CRM_MIRROR_API__BASE_URL={base_url}\n  \
         export CRM_MIRROR_API__KEY=<the api_key above>\n  crm-mirror sync\nCtrl-C ends it; nothing is kept"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_known_scopes() {
        let key: ScopedKey = "k=contacts:read, team-members:read".parse().unwrap();
        assert_eq!(key.scopes, ["contacts:read", "team-members:read"]);
        assert!("k=".parse::<ScopedKey>().unwrap().scopes.is_empty());
        for text in ["k", "=contacts:read", "k=contacts:eat"] {
            assert!(text.parse::<ScopedKey>().is_err(), "{text}");
        }
    }
}
