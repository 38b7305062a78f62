//! The systemd unit that reads a configuration file: the user that it runs as, and the credential that it loads.
//!
//! The files of `/etc/crm-mirror` belong to units: `config.toml` to `crm-mirror.service`, `NAME.toml` to
//! `crm-mirror@NAME.service`. A check by root therefore reports what the unit can access, not what root can access. The
//! unit is read with `systemctl cat`, including drop-ins; without a running systemd there is no unit.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The directory whose files belong to units.
const FOLDER: &str = "/etc/crm-mirror";
/// The parent of the state directories.
const STATE: &str = "/var/lib";

/// An installed unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUnit {
    /// Its name.
    pub name: String,
    /// The user of its process.
    pub user: String,
    /// The credential `api-key` that it loads.
    pub credential: Option<UnitCredential>,
    /// Its state directory, which systemd creates.
    pub state_directory: Option<PathBuf>,
}

/// The location of a unit's credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitCredential {
    /// In a file.
    Plain(PathBuf),
    /// In a file that systemd decrypts.
    Encrypted(PathBuf),
}

impl UnitCredential {
    /// The file of the credential.
    pub fn path(&self) -> &Path {
        match self {
            UnitCredential::Plain(path) | UnitCredential::Encrypted(path) => path,
        }
    }
}

/// Whether this process can determine what a unit can access.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// The unit that reads this configuration file, if one is installed. `None` unless the process is root.
pub fn of_file(file: &Path) -> Option<ServiceUnit> {
    let name = name_of(file).filter(|_| is_root())?;
    let output = Command::new("systemctl").args(["cat", "--no-pager", &name]).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| parse(&name, &String::from_utf8_lossy(&output.stdout)))
}

/// The name of the unit that a configuration file belongs to.
pub fn name_of(file: &Path) -> Option<String> {
    let stem = file.file_name()?.to_str()?.strip_suffix(".toml")?;
    match stem {
        _ if file.parent()? != Path::new(FOLDER) => None,
        "config" => Some("crm-mirror.service".into()),
        instance => Some(format!("crm-mirror@{instance}.service")),
    }
}

/// Parses the output of `systemctl cat`: the unit's file and its drop-ins. A later line overrides an earlier one; an
/// empty value clears a list.
fn parse(name: &str, text: &str) -> ServiceUnit {
    let instance = name.split_once('@').and_then(|(_, rest)| rest.strip_suffix(".service")).unwrap_or_default();
    let mut unit = ServiceUnit { name: name.into(), user: "root".into(), credential: None, state_directory: None };
    for line in text.lines() {
        let Some((key, value)) = line.split_once('=') else { continue };
        let value = value.trim().replace("%i", instance).replace("%%", "%");
        match key.trim() {
            "User" if !value.is_empty() => unit.user = value,
            "StateDirectory" => {
                unit.state_directory = value.split_whitespace().next().map(|dir| Path::new(STATE).join(dir))
            }
            "LoadCredential" => set_credential(&mut unit, &value, UnitCredential::Plain),
            "LoadCredentialEncrypted" => set_credential(&mut unit, &value, UnitCredential::Encrypted),
            _ => {}
        }
    }
    unit
}

fn set_credential(unit: &mut ServiceUnit, value: &str, kind: fn(PathBuf) -> UnitCredential) {
    match value.split_once(':') {
        Some(("api-key", path)) => unit.credential = Some(kind(path.into())),
        None if value.is_empty() => {
            // Each of the two lists is cleared by its own empty line.
            let same = |known: &UnitCredential| *known == kind(known.path().into());
            unit.credential = unit.credential.take().filter(|known| !same(known));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_belongs_to_one_unit() {
        let name = |file: &str| name_of(Path::new(file));
        assert_eq!(name("/etc/crm-mirror/config.toml").as_deref(), Some("crm-mirror.service"));
        assert_eq!(name("/etc/crm-mirror/acme.toml").as_deref(), Some("crm-mirror@acme.service"));
        for other in ["/etc/crm-mirror/api-key", "/home/ada/crm-mirror/config.toml", "config.toml", "/"] {
            assert_eq!(name(other), None, "{other}");
        }
    }

    #[test]
    fn packaged_units_are_parsed() {
        let unit = parse("crm-mirror.service", include_str!("../../systemd/crm-mirror.service"));
        let key = UnitCredential::Plain("/etc/crm-mirror/api-key".into());
        assert_eq!((unit.user.as_str(), unit.credential), ("crmmirror", Some(key)));
        assert_eq!(unit.state_directory.as_deref(), Some(Path::new("/var/lib/crm-mirror")));
        let unit = parse("crm-mirror@acme.service", include_str!("../../systemd/crm-mirror@.service"));
        assert_eq!(unit.credential, Some(UnitCredential::Plain("/etc/crm-mirror/acme.key".into())));
        assert_eq!(unit.state_directory.as_deref(), Some(Path::new("/var/lib/crm-mirror/acme")));
    }

    #[test]
    fn drop_in_replaces_the_credential() {
        let packaged = include_str!("../../systemd/crm-mirror.service");
        let encrypted = "[Service]\nLoadCredential=\nLoadCredentialEncrypted=api-key:/etc/k.cred\n";
        let unit = parse("crm-mirror.service", &format!("{packaged}\n# /etc/drop-in\n{encrypted}"));
        assert_eq!(unit.credential, Some(UnitCredential::Encrypted("/etc/k.cred".into())));
        let none = parse("crm-mirror.service", &format!("{packaged}\n[Service]\nLoadCredential=\nUser=ada\n"));
        assert_eq!((none.credential, none.user.as_str()), (None, "ada"));
    }
}
