//! `crm-mirror pause` and `crm-mirror resume`: suspend the daemon's schedule, and resume it.

use serde_json::{Value, json};

use crate::cli::Failure;
use crate::cli::ui::output;
use crate::cli::{Global, remote, session};
use crate::exit::Exit;

/// Suspend the daemon's schedule; it stays suspended across restarts.
///
/// Jobs that a person requests still run.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror pause")]
pub struct PauseArgs {}

/// Resume the daemon's schedule, starting with a run for changes.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror resume")]
pub struct ResumeArgs {}

/// Runs `pause`.
///
/// # Errors
/// Returns an error if no daemon owns the mirror.
pub fn pause(global: &Global, _: &PauseArgs) -> Result<Exit, Failure> {
    post(global, "/pause")?;
    output::note("the schedule is paused; `crm-mirror resume` resumes it");
    Ok(Exit::Done)
}

/// Runs `resume`.
///
/// # Errors
/// Returns an error if no daemon owns the mirror.
pub fn resume(global: &Global, _: &ResumeArgs) -> Result<Exit, Failure> {
    post(global, "/resume")?;
    output::note("the schedule is resumed");
    Ok(Exit::Done)
}

fn post(global: &Global, path: &str) -> Result<(), Failure> {
    let config = global.load()?;
    session::runtime()?.block_on(async {
        let Some((client, _)) = remote::daemon(&config).await? else {
            let message = format!("no daemon of this mirror listens on {}", config.socket.display());
            let start = config.unit.map_or("`crm-mirror daemon`".into(), |unit| format!("`systemctl start {unit}`"));
            return Err(Failure::new(Exit::Unavailable, message)
                .hint(format!("without a daemon nothing is scheduled; {start} starts one")));
        };
        let answer: Value = client.post(path, &json!({})).await?;
        if answer["stored"] == false {
            let reason = answer["reason"].as_str().unwrap_or("unknown");
            output::note(&format!("warning: this is in effect, but not stored yet: {reason}; a restart may lose it"));
        }
        Ok(())
    })
}
