//! `demo`: creates a mirror without key or configuration.

use crate::binary::{Service, TestDir};

#[test]
fn demo_shows_every_step_and_leaves_a_mirror() {
    // Not even a broken environment is read.
    let place = TestDir::empty().set("CRM_MIRROR_SYNC__NONSENSE", "1");
    for time in 0..2 {
        if time == 1 {
            // The second run replaces its own file, also after `--serve`, where runs of the schedule follow.
            let run = "INSERT INTO sync_runs (kind, \"trigger\", started_at) VALUES ('sync', 'schedule', '2026-01-01')";
            rusqlite::Connection::open(place.path("crm-mirror-demo.db")).unwrap().execute_batch(run).unwrap();
        }
        let ended = place.run("demo").done();
        assert!(ended.err.is_empty(), "{}", ended.err);
        for part in [
            "First copy.",
            "records    1 new, 3 changed, 0 removed\n  details    4 read, none pending\n",
            "edits      1 applied, 0 in conflict, 0 rejected, 0 waiting; 1 update sent\n",
            "\n  position ",
            "0 missing, 1 extra, 0 different, repaired",
            "contacts: equal to the service",
            "decimal_sum(cf_credit_limit)",
            "Chief Data Officer",
            "sqlite3 -readonly ./crm-mirror-demo.db",
        ] {
            assert!(ended.out.contains(part), "{part}\n{}", ended.out);
        }
        // Sane data has a column for every value.
        assert!(!ended.out.contains("odd value"), "{}", ended.out);
        assert!(ended.out.lines().all(|line| line.chars().count() <= 80), "{}", ended.out);
    }
    let place = place.set("CRM_MIRROR_DATABASE__PATH", "crm-mirror-demo.db").unset("CRM_MIRROR_SYNC__NONSENSE");
    assert_eq!(place.ask("SELECT count(*) FROM contacts"), "600");
    assert_eq!(place.ask("SELECT count(*) FROM removed_records"), "1");
    assert_eq!(place.ask("SELECT group_concat(outcome) FROM sync_runs"), "\"done,done,done,done,done\"");
}

#[test]
fn demo_with_nasty_data_shows_the_same_steps() {
    let place = TestDir::empty();
    let ended = place.run("demo --nasty --path demo.db").done();
    assert!(ended.out.contains("records    1 new, 3 changed, 0 removed\n  details    4 read"), "{}", ended.out);
    assert!(ended.out.contains("edits      1 applied, 0 in conflict"), "{}", ended.out);
}

#[test]
fn demo_replaces_only_its_own_mirror() {
    let service = Service::with(5, 1);
    let place = TestDir::of(&service);
    place.run("sync").done();
    let ended = place.run("demo --path mirror.db").code(74);
    assert!(ended.err.contains("a mirror that the demo did not make"), "{}", ended.err);
    assert_eq!(place.ask("SELECT count(*) FROM contacts"), "5");
}
