//! One file means one mirror: from every directory, and in every message.

use std::process::Command;

use crate::binary::{Ended, SECRET, Service, TestDir};

/// Set up as the documentation says: `init`, and the key beside the file.
fn set_up(service: &Service) -> TestDir {
    let place = TestDir::empty();
    std::fs::write(place.path("api-key"), SECRET).unwrap();
    let said = place.run(&format!("init --base-url {}", service.base_url)).done();
    assert_eq!(said.out, "wrote ./crm-mirror.toml\nnext: run `crm-mirror check`\n");
    place
}

#[test]
fn same_file_is_the_same_mirror_from_every_directory() {
    let service = Service::with(3, 1);
    let place = set_up(&service);
    let first = place.run("sync").done();
    assert!(first.err.starts_with("configuration: ./crm-mirror.toml\n"), "{}", first.err);
    let elsewhere = tempfile::tempdir().unwrap();
    let file = place.path("crm-mirror.toml").display().to_string();
    let status = place.command(&["-c", &file, "status", "--json"]).current_dir(elsewhere.path()).output().unwrap();
    let status = Ended::from(status).done().json();
    assert_eq!(status["database"], place.path("mirror.db").display().to_string());
    assert!(status["ru"]["used"].as_u64().unwrap() > 0, "the ledger of the first run: {status}");
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0, "no second mirror");
}

#[test]
fn commands_in_messages_repeat_the_configuration() {
    let service = Service::with(1, 1);
    let place = set_up(&service);
    place.run("sync").done();
    std::fs::rename(place.path("crm-mirror.toml"), place.path("my.toml")).unwrap();
    let status = place.run("-c my.toml status").done().out;
    assert!(status.contains("`crm-mirror -c my.toml daemon` starts it") && !status.contains("systemctl"), "{status}");
    let failed = place.run("pause -c my.toml").code(69).err;
    assert!(failed.contains("`crm-mirror -c my.toml daemon` starts one"), "{failed}");
    assert!(place.run("-c other.toml sync").code(78).err.contains("hint: `crm-mirror init FILE` writes one"));
    assert!(!place.run("status").done().err.contains("configuration: "));
}

#[test]
fn file_of_another_user_is_not_found_by_accident() {
    let place = TestDir::empty();
    std::fs::write(place.path("crm-mirror.toml"), "[budget]\nlimit = 10\n").unwrap();
    // Only root can give a file away.
    if std::os::unix::fs::chown(place.path("crm-mirror.toml"), Some(65_534), None).is_err() {
        return;
    }
    let refused = |trap: &str| {
        let refused = place.run("status").code(78).err;
        assert!(refused.contains("belongs to another user") && refused.contains("--config"), "{trap}: {refused}");
    };
    refused("a file");
    place.run("status -c crm-mirror.toml").code(74);
    std::fs::rename(place.path("crm-mirror.toml"), place.path("own.toml")).unwrap();
    std::os::unix::fs::chown(place.path("own.toml"), Some(0), None).unwrap();
    std::os::unix::fs::symlink("own.toml", place.path("crm-mirror.toml")).unwrap();
    place.run("status").code(74);
    std::os::unix::fs::lchown(place.path("crm-mirror.toml"), Some(65_534), None).unwrap();
    refused("a link to a file of root");
    std::fs::remove_file(place.path("crm-mirror.toml")).unwrap();
    assert!(Command::new("mkfifo").arg(place.path("crm-mirror.toml")).status().unwrap().success());
    assert!(place.run("status").code(78).err.contains("not a regular file"));
}
