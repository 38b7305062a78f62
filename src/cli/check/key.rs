//! The key: where it comes from, and who else can read it. It is never shown.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::line::Line;
use crate::config::{Config, KeyPlace};
use crate::exit::Exit;

/// Looks at the key.
pub fn check(config: &Config) -> Vec<Line> {
    let place = config.key_place();
    let mut lines = vec![match config.api_key() {
        Ok(_) => Line::ok("key.source", source(&place)),
        Err(error) => {
            let fix = error.hint().unwrap_or("make a new key in the workspace console");
            Line::fail("key.source", Exit::Config, crate::error_chain::error_chain(&error), fix)
        }
    }];
    if let KeyPlace::File(path) = &place
        && let Ok(meta) = std::fs::metadata(path)
    {
        lines.push(permissions(path, meta.permissions().mode()));
    }
    lines
}

fn source(place: &KeyPlace) -> String {
    match place {
        KeyPlace::Variable { name, instead_of: None } => format!("from the variable {name}"),
        KeyPlace::Variable { name, instead_of: Some(file) } => {
            format!("from the variable {name}, which wins over {}", file.display())
        }
        KeyPlace::File(path) => format!("from {}", path.display()),
        KeyPlace::Credential(path) => format!("from the systemd credential {}", path.display()),
        KeyPlace::Nowhere => "nowhere".into(),
    }
}

/// Only its owner should read a key.
fn permissions(path: &Path, mode: u32) -> Line {
    let mode = mode & 0o777;
    let who = match (mode & 0o007, mode & 0o070) {
        (0, 0) => return Line::ok("key.permissions", format!("only its owner can read it ({mode:04o})")),
        (0, _) => "its group",
        _ => "every user of this machine",
    };
    Line::warn(
        "key.permissions",
        format!("{who} has a right to {} ({mode:04o})", path.display()),
        format!("chmod 600 {}", path.display()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::line::State;

    #[test]
    fn a_key_that_others_can_read_is_a_warning() {
        for (mode, state, part) in [
            (0o100600, State::Ok, "(0600)"),
            (0o100400, State::Ok, "(0400)"),
            (0o100640, State::Warn, "its group"),
            (0o100604, State::Warn, "every user"),
            (0o100666, State::Warn, "every user"),
        ] {
            let line = permissions(Path::new("k"), mode);
            assert_eq!(line.state, state, "{mode:o}");
            assert!(line.says.contains(part), "{}", line.says);
        }
        let open = permissions(Path::new("k"), 0o644);
        assert_eq!(open.fix.as_deref(), Some("chmod 600 k"));
    }

    #[test]
    fn a_variable_that_wins_over_a_file_says_so() {
        let place = KeyPlace::Variable { name: "X", instead_of: Some("/k".into()) };
        assert_eq!(source(&place), "from the variable X, which wins over /k");
    }
}
