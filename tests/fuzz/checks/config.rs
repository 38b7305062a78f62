//! Configuration: a file and variables. Whatever they contain, the configuration is valid or refused with
//! an error that shows no secret.

use std::path::PathBuf;
use std::sync::LazyLock;

use crm_mirror::config::{Config, Environment, Sources};
use crm_mirror::error_chain::error_chain;
use tempfile::TempDir;

use super::mirrored::temporary;
use super::parts;

const SECRET: &str = "very-secret";

static FOLDER: LazyLock<TempDir> = LazyLock::new(temporary);

/// Checks the text of the file, in two parts, and variables, one per line.
pub fn check(data: &[u8]) {
    let [first, second, variables] = parts(data);
    let file = FOLDER.path().join("config.toml");
    std::fs::write(&file, [first, second].concat()).unwrap();
    let variables = String::from_utf8_lossy(variables);
    let variables = variables.lines().filter_map(|line| line.split_once('='));
    let settings = variables.map(|(name, value)| (format!("CRM_MIRROR_{name}"), value.to_string()));
    let secrets = [("API__KEY", "svc_v1_very-secret"), ("PUBLISH__URL", "postgres://someone:very-secret@127.0.0.1/x")];
    let secrets = secrets.map(|(name, value)| (format!("CRM_MIRROR_{name}"), value.to_string()));
    let environment: Environment = settings.chain(secrets).collect();
    let sources = Sources { file: Some(file), default_file: PathBuf::from("/nowhere"), environment, flags: Vec::new() };
    // A text that contains the secret by itself proves nothing.
    let is_known = data.to_ascii_lowercase().windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
    let shows = |text: &str| text.contains(SECRET) && !is_known;
    match Config::load(&sources) {
        Err(error) => {
            let shown = format!("{error:?} {} {:?}", error_chain(&error), error.hint());
            assert!(!shows(&shown), "{shown}");
        }
        Ok(config) => {
            let shown = format!("{config:?}");
            assert!(!shows(&shown), "{shown}");
            assert_eq!(shown, format!("{:?}", Config::load(&sources).unwrap()));
            assert!(config.api_key().is_ok());
        }
    }
}
