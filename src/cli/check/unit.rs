//! The unit that reads the configuration: checks what its user can access, when root runs the check.

use std::path::{Path, PathBuf};

use super::facts::CheckFacts;
use super::finding::Finding;
use super::unit_user::FileAccess;
use crate::config::{KeyPlace, Sources};
use crate::exit::Exit;

pub(super) fn check(facts: &CheckFacts<'_>, sources: &Sources) -> Vec<Finding> {
    let Some(user) = &facts.unit else { return Vec::new() };
    let (unit, name) = (&user.unit, &user.unit.user);
    if !user.exists() {
        let message = format!("{} runs as {name}, which does not exist", unit.name);
        let fix = "create it with `systemd-sysusers crm-mirror.conf`, or reinstall the package";
        return vec![Finding::fail("unit.user", Exit::Config, message, fix)];
    }
    let mut findings = vec![Finding::ok("unit.user", format!("{} runs as {name}", unit.name))];
    let place = facts.config.key_place();
    if let KeyPlace::Variable { .. } = place {
        let variable = KeyPlace::VARIABLE;
        let message =
            format!("the key is from the variable {variable} of this shell, which {} does not have", unit.name);
        let fix = "`env -u CRM_MIRROR_API__KEY crm-mirror check` checks the key of the unit";
        findings.push(Finding::warn("unit.key", message, fix));
    }
    let files = sources.files().unwrap_or_default();
    let mut needed: Vec<PathBuf> = files.into_iter().map(|(path, _)| path).collect();
    if let KeyPlace::File(path) = place {
        needed.push(path.clone());
    }
    needed.extend(facts.config.publish.url_file().map(Path::to_path_buf));
    let refused = needed.iter().find(|path| path.exists() && user.may(FileAccess::Read, path) == Some(false));
    findings.push(match refused {
        None => Finding::ok("unit.files", format!("{name} can read the configuration")),
        Some(path) => {
            let shown = path.display();
            let fix = format!("chgrp {name} {shown} && chmod 640 {shown}");
            Finding::fail("unit.files", Exit::Config, format!("{name} cannot read {shown}"), fix)
        }
    });
    findings
}
