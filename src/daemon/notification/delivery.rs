//! Delivers a message to a command or a webhook.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::episodes::Notice;
use crate::api::transport::install_tls;
use crate::config::NotifyConfig;

/// How long a receiver may take.
const WITHIN: Duration = Duration::from_secs(20);

/// The interval between two looks at a running command.
const LOOK: Duration = Duration::from_millis(20);

/// Delivers a message as one JSON document. An error names neither the address nor the arguments, which may be secrets.
pub(super) async fn deliver(config: &NotifyConfig, notice: &Notice) -> Result<(), String> {
    let body = serde_json::to_string(notice).map_err(|error| error.to_string())?;
    match config {
        NotifyConfig::Command(command) => run(command, body, WITHIN).await,
        NotifyConfig::Webhook(address) => post(address, body).await,
        NotifyConfig::Off => Ok(()),
    }
}

/// Runs a command with the message as its standard input, and without the secrets of this process.
async fn run(command: &[String], body: String, within: Duration) -> Result<(), String> {
    let [program, arguments @ ..] = command else { return Ok(()) };
    let is_ours = |name: &str| name.starts_with("CRM_MIRROR_") || name == "CREDENTIALS_DIRECTORY";
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // So that one that takes too long is ended together with what it started.
    command.process_group(0);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_ours(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    let mut child = command.spawn().map_err(|error| format!("{program} cannot be run: {error}"))?;
    let ended = tokio::task::spawn_blocking(move || {
        if let Some(mut input) = child.stdin.take() {
            // A message fits into a pipe, and a command that does not read it is none the worse for it.
            let _ = input.write_all(body.as_bytes());
            let _ = input.write_all(b"\n");
        }
        let begun = Instant::now();
        loop {
            match child.try_wait() {
                Ok(None) if begun.elapsed() < within => std::thread::sleep(LOOK),
                Ok(None) => {
                    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                    let _ = child.wait();
                    return Err("the command takes too long".to_string());
                }
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("the command ended with {status}")),
                Err(error) => return Err(format!("the command cannot be waited for: {error}")),
            }
        }
    });
    ended.await.unwrap_or_else(|error| Err(error.to_string()))
}

async fn post(address: &reqwest::Url, body: String) -> Result<(), String> {
    install_tls();
    let built = reqwest::Client::builder().timeout(WITHIN).redirect(reqwest::redirect::Policy::none()).build();
    let client = built.map_err(|error| error.without_url().to_string())?;
    let request = client.post(address.clone()).header("content-type", "application/json").body(body);
    let answer = request.send().await.map_err(|error| {
        let kind = if error.is_connect() { "no connection" } else { "no answer" };
        format!("the webhook gives {kind}")
    })?;
    if answer.status().is_success() { Ok(()) } else { Err(format!("the webhook answered {}", answer.status())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn command_that_takes_too_long_is_ended_with_what_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        // The one that is started keeps the pipe open for as long as it lives.
        let script = format!("(sleep 600; true) >{} & wait", fifo.display());
        let command = ["/bin/sh", "-c", &script].map(String::from);
        let open = tokio::task::spawn_blocking(move || std::fs::read(&fifo));
        let ended = run(&command, "{}".into(), Duration::from_millis(300)).await;
        assert_eq!(ended, Err("the command takes too long".to_string()));
        assert_eq!(open.await.unwrap().unwrap(), b"");
    }
}
