//! Commands in messages. They repeat the `--config` in force: without it, they would act on another mirror.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::format::shell_word;

static IN_FORCE: OnceLock<Option<PathBuf>> = OnceLock::new();

const BEGINS: &str = "`crm-mirror ";

/// Verbs that read no configuration.
const WITHOUT: [&str; 5] = ["init", "completions", "man", "demo", "sandbox"];

/// Remembers the `--config` of this process. A second call has no effect.
pub fn repeat(config: Option<&Path>) {
    let _ = IN_FORCE.set(config.map(Path::to_path_buf));
}

/// The text with the `--config` in force in each of its commands.
pub fn complete(text: &str) -> String {
    match IN_FORCE.get() {
        Some(Some(config)) => with_config(text, config),
        _ => text.to_string(),
    }
}

fn with_config(text: &str, config: &Path) -> String {
    let option = format!("{BEGINS}-c {} ", shell_word(&config.to_string_lossy()));
    let mut parts = text.split(BEGINS);
    let mut completed = parts.next().unwrap_or_default().to_string();
    for command in parts {
        let verb = command.split([' ', '`']).next().unwrap_or_default();
        let has_none = WITHOUT.contains(&verb) || verb.starts_with('-');
        completed.push_str(if has_none { BEGINS } else { &option });
        completed.push_str(command);
    }
    completed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_repeat_the_configuration() {
        let completed = |text: &str| with_config(text, Path::new("a b.toml"));
        assert_eq!(
            completed(
                "run `crm-mirror sync`, or `crm-mirror status --json`; `crm-mirror init` and `crm-mirror --help` not"
            ),
            "run `crm-mirror -c 'a b.toml' sync`, or `crm-mirror -c 'a b.toml' status --json`; `crm-mirror init` and \
             `crm-mirror --help` not"
        );
        assert_eq!(completed("the crm-mirror daemon"), "the crm-mirror daemon");
    }
}
