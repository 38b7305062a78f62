//! A resync of an unchanged mirror reads every record and writes almost nothing.

use crate::support::{Crm, Mirror, cases, noon};
use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::generate;
use crm_mirror::sync::Job;

/// Bytes that the mirror's writer threads have passed to the system so far.
fn written() -> u64 {
    let mut sum = 0;
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path();
        if std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "mirror-writer") {
            let io = std::fs::read_to_string(task.join("io")).unwrap();
            let line = io.lines().find(|line| line.starts_with("wchar:")).unwrap();
            sum += line["wchar:".len()..].trim().parse::<u64>().unwrap();
        }
    }
    sum
}

/// Set in the process in which the test runs alone.
const ALONE: &str = "CRM_MIRROR_TEST_ALONE";

/// Counts what the writer threads of the process write, so it runs in a process of its own.
#[test]
fn resync_of_an_unchanged_mirror_rewrites_nothing() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if std::env::var_os(ALONE).is_some() {
        return runtime.block_on(resync_writes_little());
    }
    let name = "resync::resync_of_an_unchanged_mirror_rewrites_nothing";
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let ended = command.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let out = String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && out.contains("1 passed"), "{out}");
}

async fn resync_writes_little() {
    let contacts = cases::records(20_000);
    let crm = Crm::serve(generate(23, contacts, 50, noon())).await;
    let mut mirror = Mirror::empty();
    mirror.settings.details = false;
    mirror.sync(&crm).await;
    crm.wait(600);
    crm.sandbox.clear_log();
    let size = std::fs::metadata(&mirror.path).unwrap().len();
    let version = mirror.one("SELECT group_concat(synced_at) FROM (SELECT DISTINCT synced_at FROM contacts)");

    let store = crm_mirror::store::Store::open(&mirror.path).unwrap();
    let before = written();
    let report = mirror.run_on_open(store.clone(), &crm, &Job::resync().of(&[Resource::Contacts])).await.unwrap();
    let bytes = written() - before;
    store.close().await;

    eprintln!("wrote {bytes} of {size}: {:.2} %", bytes as f64 * 100.0 / size as f64);
    assert_eq!((report.tally.inserted, report.tally.updated, report.tally.removed), (0, 0, 0));
    assert_eq!(mirror.one("SELECT group_concat(synced_at) FROM (SELECT DISTINCT synced_at FROM contacts)"), version);
    // A part is the same for every size: the runs, the state and the counts.
    assert!(bytes < (256 << 10) + size / 80, "wrote {bytes} bytes into a file of {size}");
    let log = crm.sandbox.log();
    let pages =
        log.entries().iter().filter(|e| e.asked.lists(Resource::Contacts) && e.asked.param("limit") == Some("100"));
    let pages = pages.count();
    let least = contacts.div_ceil(100);
    // The changes walk, and a partial page for each of four slices and for the rows without a date.
    assert!(pages >= least && pages <= least + 1 + 5, "{pages} pages for {least}");
    assert!(log.details(Object::Contact) == 0);
}
