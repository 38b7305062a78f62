//! Cursors of `export --snapshot`: which mirror goes on from one.

use std::io::{BufRead, BufReader};

use crm_mirror::model::{Object, Resource};
use crm_mirror::publish::{PublishError, StreamCursor};
use crm_mirror::sandbox::generate;
use rusqlite::Connection;
use serde_json::json;

use crate::stream::{Follower, export, next_lines, open};
use crate::support::{Crm, Mirror, noon};

#[tokio::test]
async fn cursors_that_cannot_be_continued_are_refused() {
    let crm = Crm::serve(generate(4, 20, 2, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let mut follower = Follower::default();
    follower.apply_groups(&next_lines(&mirror, &follower));
    let cursor = follower.cursor.unwrap();
    let refused = |cursor: &str| matches!(open(&mirror).resume(cursor.parse().unwrap()), Err(PublishError::Cursor(_)));
    assert!(!refused(&cursor));
    let parts: Vec<&str> = cursor.split(':').collect();
    assert!(refused(&format!("another:{}:{}:{}", parts[1], parts[2], parts[3])));
    assert!(refused(&format!("{}:999:{}:{}", parts[0], parts[2], parts[3])));
    for wrong in ["", "7", "a:b:c:d", "a:1:2", "a:1:2:3:4", "a:1:2:3"] {
        assert!(wrong.parse::<StreamCursor>().is_err(), "{wrong}");
    }
}

/// A power failure loses the last changes, and the next ones get their numbers: a follower that has seen the lost ones does
/// not take others for them.
#[tokio::test]
async fn follower_starts_again_after_a_power_failure() {
    for (closed, another_boot) in [(false, true), (false, false), (true, true)] {
        let crm = Crm::serve(generate(4, 20, 2, noon())).await;
        let mirror = Mirror::empty();
        mirror.sync(&crm).await;
        let mut follower = Follower::default();
        follower.apply_groups(&next_lines(&mirror, &follower));
        let on_disk = mirror.dir.path().join("on_disk.db");
        mirror.read().execute("VACUUM INTO ?1", [on_disk.to_str()]).unwrap();
        let edit = |nth: usize| {
            crm.sandbox.with_world(|world| {
                let id = world.ids(Resource::Contacts)[nth].clone();
                world.edit(Object::Contact, &id, &json!({"position": "moved"}));
            });
            crm.wait(600);
        };
        edit(3);
        mirror.sync(&crm).await;
        follower.apply_groups(&next_lines(&mirror, &follower));
        let lock = mirror.path.with_extension("db.lock");
        let line = std::fs::read_to_string(&lock).unwrap();
        assert!(line.contains("\"closed\":true"), "{line}");
        let line = if closed { line } else { line.replace("\"closed\":true", "\"closed\":false") };
        // The next boot may be a moment later.
        let line = if another_boot { line.replace("\"boot\":", "\"boot\":7,\"was\":") } else { line };
        std::fs::write(&lock, line).unwrap();
        let loses = !closed && another_boot;
        if loses {
            // The nonce is of the last opening, which is durable; what was written after it is not.
            let last: String = mirror
                .read()
                .query_row("SELECT value FROM state WHERE name = 'last_writer'", [], |row| row.get(0))
                .unwrap();
            let mut there = Connection::open(&mirror.path).unwrap();
            there.restore("main", &on_disk, None::<fn(_)>).unwrap();
            there.execute("UPDATE state SET value = ?1 WHERE name = 'last_writer'", [last]).unwrap();
        }
        edit(5);
        edit(6);
        mirror.sync(&crm).await;
        let resumed = open(&mirror).resume(follower.cursor.clone().unwrap().parse().unwrap());
        assert_eq!(matches!(resumed, Err(PublishError::Cursor(_))), loses, "{closed} {another_boot}: {resumed:?}");
        if loses {
            follower = Follower::default();
        }
        follower.apply_groups(&next_lines(&mirror, &follower));
        assert_eq!(follower.differences(&mirror), Vec::<String>::new(), "{closed} {another_boot}");
    }
}

#[tokio::test]
async fn follower_of_a_mirror_that_was_replaced_ends() {
    for (by_rename, has_changed) in [(true, true), (false, true), (false, false)] {
        let crm = Crm::serve(generate(4, 20, 2, noon())).await;
        let mirror = Mirror::empty();
        mirror.sync(&crm).await;
        let backup = mirror.dir.path().join("backup.db");
        mirror.read().execute("VACUUM INTO ?1", [backup.to_str()]).unwrap();
        if has_changed {
            crm.sandbox.with_world(|world| {
                let id = world.ids(Resource::Contacts)[3].clone();
                world.edit(Object::Contact, &id, &json!({"position": "moved"}));
            });
            crm.wait(600);
            mirror.sync(&crm).await;
        }
        let mut child = export(&mirror, &["--snapshot", "--follow"]).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        // The small tables are in the last group.
        assert!(lines.any(|line| line.contains("\"upsert\":\"team_members\"")));
        assert!(lines.any(|line| line.contains("\"cursor\"")));
        if by_rename {
            for file in ["mirror.db-wal", "mirror.db-shm"] {
                let _ = std::fs::rename(mirror.dir.path().join(file), mirror.dir.path().join(format!("old-{file}")));
            }
            std::fs::rename(&backup, &mirror.path).unwrap();
        } else {
            let mut there = Connection::open(&mirror.path).unwrap();
            there.restore("main", &backup, None::<fn(_)>).unwrap();
        }
        assert_eq!(child.wait().unwrap().code(), Some(74));
        let said = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
        assert!(said.contains("the stream cannot be continued"), "{said}");
        assert!(!lines.any(|line| line.contains("\"cursor\"")));
    }
}
