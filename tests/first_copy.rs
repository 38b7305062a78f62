//! The first copy: everything there is, exactly, for the RU that it must cost.

mod support;

use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::generate;
use crm_mirror::store::RunOutcome;
use support::{Crm, Mirror, noon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_copy_equals_the_service_field_by_field() {
    let crm = Crm::serve(generate(7, 5_000, 500, noon())).await;
    let mirror = Mirror::empty();
    let report = mirror.sync(&crm).await;
    assert_eq!(report.outcome, RunOutcome::Done);
    mirror.assert_exact(&crm);

    let log = crm.sandbox.log();
    assert_eq!(log.lists(Resource::Contacts), 50);
    assert_eq!(log.lists(Resource::Companies), 5);
    assert_eq!(log.details(Object::Contact), 5_000);
    assert_eq!(log.details(Object::Company), 500);
    assert_eq!(report.tally.ru, log.ru(), "the ledger says what the service charged");
    for entry in log
        .entries()
        .iter()
        .filter(|entry| entry.asked.query.iter().any(|(key, _)| key == "limit"))
    {
        assert!(
            entry.asked.query.contains(&("limit".into(), "100".into())),
            "{:?}",
            entry.asked
        );
        assert!(
            !entry.asked.query.iter().any(|(key, _)| key == "count"),
            "{:?}",
            entry.asked
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_sync_with_nothing_changed_writes_nothing() {
    let crm = Crm::serve(generate(3, 250, 40, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    crm.wait(600);
    mirror.sync(&crm).await;
    let changes = mirror.count("changes");
    crm.sandbox.clear_log();
    crm.wait(600);
    let report = mirror.sync(&crm).await;
    assert_eq!(
        (
            report.tally.inserted,
            report.tally.updated,
            report.tally.removed,
            report.tally.details
        ),
        (0, 0, 0, 0)
    );
    assert_eq!(mirror.count("changes"), changes);
    assert_eq!(crm.charged(), 2, "one request an object");
    mirror.assert_exact(&crm);
}
