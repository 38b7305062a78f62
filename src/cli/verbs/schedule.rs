//! `crm-mirror pause` and `crm-mirror resume`: the daemon's schedule rests, and goes on.

use serde_json::{Value, json};

use crate::cli::Failure;
use crate::cli::ui::output;
use crate::cli::{Global, remote, session};
use crate::exit::Exit;

/// Let the daemon's schedule rest, also over a restart, until it is resumed.
///
/// What a person asks for is still done.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror pause")]
pub struct PauseArgs {}

/// Let the daemon's schedule go on, beginning with a run for changes.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror resume")]
pub struct ResumeArgs {}

/// Carries `pause` out.
///
/// # Errors
/// If no daemon keeps the mirror.
pub fn pause(global: &Global, _: &PauseArgs) -> Result<Exit, Failure> {
    tell(global, "/pause")?;
    output::note("the schedule rests; `crm-mirror resume` lets it go on");
    Ok(Exit::Done)
}

/// Carries `resume` out.
///
/// # Errors
/// If no daemon keeps the mirror.
pub fn resume(global: &Global, _: &ResumeArgs) -> Result<Exit, Failure> {
    tell(global, "/resume")?;
    output::note("the schedule goes on");
    Ok(Exit::Done)
}

fn tell(global: &Global, path: &str) -> Result<(), Failure> {
    let config = global.load()?;
    session::runtime()?.block_on(async {
        let Some((client, _)) = remote::daemon(&config).await? else {
            let told = format!("no daemon of this mirror listens on {}", config.socket.display());
            return Err(Failure::new(Exit::Unavailable, told)
                .hint("without a daemon nothing runs by the schedule; `systemctl start crm-mirror` starts it"));
        };
        client.post::<Value>(path, &json!({})).await?;
        Ok(())
    })
}
