//! The systemd unit that reads a configuration file: its directories, its user, and the credential that it loads.
//!
//! The files of `/etc/crm-mirror` belong to units: `config.toml` to `crm-mirror.service`, `NAME.toml` to
//! `crm-mirror@NAME.service`. So every verb finds the unit's mirror, and a check by root reports what the unit can access,
//! not what root can access. The unit's files and drop-ins are read where systemd reads them: that needs no running
//! systemd and no permission.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

pub const FOLDER: &str = "/etc/crm-mirror";
/// Where systemd looks for units, the first one that has a file wins.
const SEARCHED: [&str; 7] = [
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceUnit {
    pub name: String,
    pub user: String,
    pub credential: Option<UnitCredential>,
    pub state_directory: Option<PathBuf>,
    pub runtime_directory: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitCredential {
    pub path: PathBuf,
    /// Whether systemd decrypts it for the unit.
    pub is_encrypted: bool,
}

pub fn of_file(file: &Path) -> Option<ServiceUnit> {
    let name = name_in(Path::new(FOLDER), file)?;
    let text = installed(Path::new("/"), &name)?;
    Some(parse(&name, &text))
}

/// The name of the unit that a file of our folder belongs to, however that folder is spelt.
fn name_in(ours: &Path, file: &Path) -> Option<String> {
    let named = std::path::absolute(file).ok()?;
    let in_folder =
        named.parent()?.canonicalize().ok().map(|folder| folder.join(named.file_name().unwrap_or_default()));
    // A link to a unit's file, wherever it is, stands for the same mirror and the same budget.
    let spellings = [Some(named.clone()), in_folder, named.canonicalize().ok()];
    let file = spellings.into_iter().flatten().find(|file| file.parent() == Some(ours))?;
    match file.file_name()?.to_str()?.strip_suffix(".toml")? {
        "config" => Some("crm-mirror.service".into()),
        instance => Some(format!("crm-mirror@{instance}.service")),
    }
}

/// The unit's file and its drop-ins, as `systemctl cat` shows them. A mask forbids starting and moves no data: what is empty,
/// such as the link to `/dev/null`, hides nothing.
fn installed(root: &Path, name: &str) -> Option<String> {
    let template = name.split_once('@').map(|(prefix, _)| format!("{prefix}@.service"));
    let names: Vec<&str> = std::iter::once(name).chain(template.as_deref()).collect();
    let folders: Vec<PathBuf> = SEARCHED.iter().map(|folder| root.join(folder.trim_start_matches('/'))).collect();
    let files = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let mut text = files.filter_map(|file| fs::read_to_string(file).ok()).find(|text| !text.is_empty())?;
    // The name of a drop-in decides its order; of those with the same name, the first one found counts.
    let mut drop_ins = BTreeMap::new();
    for name in names.iter().copied().chain(["crm-.service", "service"]) {
        for entry in folders.iter().filter_map(|folder| fs::read_dir(folder.join(format!("{name}.d"))).ok()).flatten() {
            let Ok(entry) = entry else { continue };
            if entry.path().extension().is_some_and(|extension| extension == "conf") {
                drop_ins.entry(entry.file_name()).or_insert(entry.path());
            }
        }
    }
    for path in drop_ins.into_values() {
        text.push('\n');
        text.push_str(&fs::read_to_string(path).unwrap_or_default());
    }
    Some(text)
}

/// Parses the unit's file with its drop-ins: a later line overrides an earlier one, and an empty value clears a list.
fn parse(name: &str, text: &str) -> ServiceUnit {
    let instance = name.split_once('@').and_then(|(_, rest)| rest.strip_suffix(".service")).unwrap_or_default();
    let mut unit = ServiceUnit { name: name.into(), user: "root".into(), ..ServiceUnit::default() };
    let first = |value: &str, parent: &str| value.split_whitespace().next().map(|dir| Path::new(parent).join(dir));
    for line in text.lines() {
        let Some((key, value)) = line.split_once('=') else { continue };
        let value = value.trim().replace("%i", instance).replace("%%", "%");
        match key.trim() {
            "User" if !value.is_empty() => unit.user = value,
            "StateDirectory" => unit.state_directory = first(&value, "/var/lib"),
            "RuntimeDirectory" => unit.runtime_directory = first(&value, "/run"),
            "LoadCredential" => set_credential(&mut unit, &value, false),
            "LoadCredentialEncrypted" => set_credential(&mut unit, &value, true),
            _ => {}
        }
    }
    unit
}

fn set_credential(unit: &mut ServiceUnit, value: &str, is_encrypted: bool) {
    match value.split_once(':') {
        Some(("api-key", path)) => unit.credential = Some(UnitCredential { path: path.into(), is_encrypted }),
        // Each of the two lists is cleared by its own empty line.
        None if value.is_empty() => _ = unit.credential.take_if(|known| known.is_encrypted == is_encrypted),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_belongs_to_one_unit() {
        let name = |file: &str| name_in(Path::new(FOLDER), Path::new(file));
        assert_eq!(name("/etc/crm-mirror/config.toml").as_deref(), Some("crm-mirror.service"));
        assert_eq!(name("/etc/crm-mirror/acme.toml").as_deref(), Some("crm-mirror@acme.service"));
        for other in ["/etc/crm-mirror/api-key", "/home/ada/crm-mirror/config.toml", "config.toml", "/"] {
            assert_eq!(name(other), None, "{other}");
        }
    }

    #[test]
    fn link_to_the_file_of_a_unit_stands_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (ours, home) = (root.join("ours"), root.join("home"));
        for folder in [&ours, &home] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(ours.join("acme.toml"), "").unwrap();
        fs::write(home.join("own.toml"), "").unwrap();
        let link = |from: PathBuf, to: PathBuf| std::os::unix::fs::symlink(to, from).unwrap();
        link(home.join("crm-mirror.toml"), ours.join("acme.toml"));
        link(root.join("etc"), ours.clone());
        // Another place for a unit's file, as configuration management has.
        link(ours.join("beta.toml"), home.join("own.toml"));
        let name = |path: &str| name_in(&ours, &root.join(path));
        for (path, unit) in [
            ("home/crm-mirror.toml", Some("crm-mirror@acme.service")),
            ("etc/acme.toml", Some("crm-mirror@acme.service")),
            ("ours/beta.toml", Some("crm-mirror@beta.service")),
            ("home/own.toml", None),
            ("home/none.toml", None),
        ] {
            assert_eq!(name(path).as_deref(), unit, "{path}");
        }
    }

    #[test]
    fn packaged_units_are_parsed() {
        let unit = parse("crm-mirror.service", include_str!("../../systemd/crm-mirror.service"));
        let plain = |path: &str| Some(UnitCredential { path: path.into(), is_encrypted: false });
        assert_eq!((unit.user.as_str(), unit.credential), ("crmmirror", plain("/etc/crm-mirror/api-key")));
        assert_eq!(unit.state_directory.as_deref(), Some(Path::new("/var/lib/crm-mirror")));
        assert_eq!(unit.runtime_directory.as_deref(), Some(Path::new("/run/crm-mirror")));
        let unit = parse("crm-mirror@acme.service", include_str!("../../systemd/crm-mirror@.service"));
        assert_eq!(unit.credential, plain("/etc/crm-mirror/acme.key"));
        assert_eq!(unit.state_directory.as_deref(), Some(Path::new("/var/lib/crm-mirror/acme")));
        assert_eq!(unit.runtime_directory.as_deref(), Some(Path::new("/run/crm-mirror/acme")));
    }

    #[test]
    fn installed_unit_is_found_with_its_drop_ins() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let state = |name: &str| installed(root.path(), name).map(|text| parse(name, &text).state_directory);
        assert_eq!(state("crm-mirror.service"), None);
        write("lib/systemd/system/crm-mirror.service", "[Service]\nStateDirectory=crm-mirror\n");
        write("lib/systemd/system/crm-mirror@.service", "[Service]\nStateDirectory=crm-mirror/%i\n");
        assert_eq!(state("crm-mirror.service"), Some(Some("/var/lib/crm-mirror".into())));
        assert_eq!(state("crm-mirror@acme.service"), Some(Some("/var/lib/crm-mirror/acme".into())));
        write("etc/systemd/system/crm-mirror@.service.d/10.conf", "[Service]\nStateDirectory=a\n");
        write("etc/systemd/system/crm-mirror@acme.service.d/20.conf", "[Service]\nStateDirectory=b\n");
        write("run/systemd/system/crm-mirror@acme.service.d/20.conf", "[Service]\nStateDirectory=hidden\n");
        assert_eq!(state("crm-mirror@acme.service"), Some(Some("/var/lib/b".into())));
        assert_eq!(state("crm-mirror@other.service"), Some(Some("/var/lib/a".into())));
        for mask in ["etc/systemd/system/crm-mirror.service", "run/systemd/system/crm-mirror@acme.service"] {
            std::os::unix::fs::symlink("/dev/null", root.path().join(mask)).unwrap();
        }
        assert_eq!(state("crm-mirror.service"), Some(Some("/var/lib/crm-mirror".into())), "masked");
        assert_eq!(state("crm-mirror@acme.service"), Some(Some("/var/lib/b".into())), "masked");
    }

    #[test]
    fn drop_in_replaces_the_credential() {
        let packaged = include_str!("../../systemd/crm-mirror.service");
        let encrypted = "[Service]\nLoadCredential=\nLoadCredentialEncrypted=api-key:/etc/k.cred\n";
        let unit = parse("crm-mirror.service", &format!("{packaged}\n# /etc/drop-in\n{encrypted}"));
        let credential = UnitCredential { path: "/etc/k.cred".into(), is_encrypted: true };
        assert_eq!(unit.credential, Some(credential));
        let none = parse("crm-mirror.service", &format!("{packaged}\n[Service]\nLoadCredential=\nUser=ada\n"));
        assert_eq!((none.credential, none.user.as_str()), (None, "ada"));
    }
}
