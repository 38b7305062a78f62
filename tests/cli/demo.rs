//! `demo`: creates a mirror without key or configuration.

use crate::binary::TestDir;

#[test]
fn demo_shows_every_step_and_leaves_a_mirror() {
    // Not even a broken environment is read.
    let place = TestDir::empty().set("CRM_MIRROR_SYNC__NONSENSE", "1");
    let ended = place.run("demo").done();
    assert!(ended.err.is_empty(), "{}", ended.err);
    for part in [
        "First copy.",
        " 1 new, 3 changed, 0 removed; 4 details",
        "1 edit applied; ",
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
    let place = place.set("CRM_MIRROR_DATABASE__PATH", "crm-mirror-demo.db").unset("CRM_MIRROR_SYNC__NONSENSE");
    assert_eq!(place.ask("SELECT count(*) FROM contacts"), "600");
    assert_eq!(place.ask("SELECT count(*) FROM removed_records"), "1");
    assert_eq!(place.ask("SELECT group_concat(outcome) FROM sync_runs"), "\"done,done,done,done,done\"");
}

#[test]
fn demo_with_nasty_data_shows_the_same_steps() {
    let place = TestDir::empty();
    let ended = place.run("demo --nasty --path demo.db").done();
    assert!(ended.out.contains(" 1 new, 3 changed, 0 removed; 4 details"), "{}", ended.out);
    assert!(ended.out.contains("1 edit applied; "), "{}", ended.out);
}

#[test]
fn demo_changes_no_file_that_is_there() {
    let place = TestDir::empty();
    std::fs::write(place.path("mirror.db"), "mine").unwrap();
    std::os::unix::fs::symlink("nothing", place.path("link.db")).unwrap();
    for name in ["mirror.db", "link.db"] {
        let ended = place.run(&format!("demo --path {name}")).code(74);
        assert!(ended.err.contains(&format!("{name} exists already")), "{}", ended.err);
        assert!(ended.err.contains(&format!("hint: `rm {name}*`")), "{}", ended.err);
    }
    assert_eq!(std::fs::read_to_string(place.path("mirror.db")).unwrap(), "mine");
    assert!(!place.path("nothing").exists());
}
