//! Holds: during a requested wait no request is sent.

use std::time::Duration;

use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Clock, Instant, Resource};
use crm_mirror::sandbox::{Fault, Rule, generate};
use crm_mirror::store::RunOutcome;
use crm_mirror::sync::{Job, Suspension, SyncError};

fn held(body: u64) -> Fault {
    Fault::TooMany { body: Some(body), header: None }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_sent_until_the_hold_is_over() {
    let crm = Crm::serve(generate(41, 300, 20, noon())).await;
    let mirror = Mirror::empty();
    // In the middle of the details, with four workers.
    crm.sandbox.faults().add(Rule::new(held(7)).records().after(50));
    let report = mirror.sync(&crm).await;
    assert_eq!(report.outcome, RunOutcome::Done);
    mirror.assert_exact(&crm);
    let log = crm.sandbox.log();
    let refused = log.entries().iter().find(|entry| entry.status == Some(429)).unwrap().at;
    let over = refused.plus(Duration::from_secs(7));
    // The clock jumps while requests of the three other workers are under way: those may arrive late.
    let late = log.entries().iter().filter(|entry| entry.at > refused && entry.at < over).count();
    assert!(late <= 3, "{late} requests during the hold");
    assert!(log.entries().iter().any(|entry| entry.at >= over), "then it continues");
}

#[tokio::test]
async fn long_hold_ends_the_run_and_applies_to_the_next_process() {
    let crm = Crm::serve(generate(42, 250, 3, noon())).await;
    let mut mirror = Mirror::empty();
    mirror.patience = Duration::from_secs(5);
    crm.sandbox
        .faults()
        .add(Rule::new(Fault::TooMany { body: None, header: Some(90) }).on(Resource::Contacts).lists().after(1));
    let until = crm.clock.now().plus(Duration::from_secs(90));
    let report = mirror.sync(&crm).await;
    assert_eq!((report.outcome, report.suspension), (RunOutcome::Suspended, Some(Suspension::Hold(until))));
    crm.sandbox.clear_log();
    crm.wait(30);
    let again = mirror.sync(&crm).await;
    assert_eq!(again.suspension, Some(Suspension::Hold(until)));
    assert!(crm.sandbox.log().is_empty(), "not one request");
    crm.wait(60);
    assert_eq!(mirror.sync(&crm).await.outcome, RunOutcome::Done);
    mirror.assert_exact(&crm);
    assert_eq!(mirror.count("state WHERE name = 'hold'"), 0, "the hold is over");
}

#[tokio::test]
async fn hold_of_any_status_survives_a_clock_change() {
    let day = 86_400;
    let begin = noon();
    for (status, to) in [(429, -30_i64), (503, -30), (503, 10 * 86_400), (404, -10 * 86_400), (302, -30)] {
        let crm = Crm::serve(generate(47, 20, 3, begin)).await;
        let mut mirror = Mirror::one_at_a_time();
        mirror.patience = Duration::from_secs(5);
        mirror.tries = 1;
        let fault = Fault::StatusWithRetry { status, body: Some(7), header: Some(day) };
        crm.sandbox.faults().add(Rule::new(fault).on(Resource::Contacts).lists());
        let _ = mirror.run(&crm, &Job::sync()).await;
        crm.sandbox.clear_log();
        let now = crm.clock.now();
        crm.clock.jump(Instant::from_secs(now.as_secs() + to).unwrap());
        let report = mirror.sync(&crm).await;
        assert!(matches!(report.suspension, Some(Suspension::Hold(_))), "{status} {to}: {:?}", report.suspension);
        assert!(crm.sandbox.log().is_empty(), "{status} {to}: not one request");
        crm.clock.jump(now);
        crm.wait(day);
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
    }
}

#[tokio::test]
async fn refusals_without_retry_after_wait_longer_each_time() {
    let crm = Crm::serve(generate(43, 5, 2, noon())).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.patience = Duration::from_secs(1_000);
    crm.sandbox.faults().add(Rule::new(Fault::TooMany { body: None, header: None }).times(3));
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    let times: Vec<_> = crm.sandbox.log().entries().iter().take(4).map(|entry| entry.at).collect();
    let waits: Vec<u64> = times.windows(2).map(|pair| pair[1].since(pair[0]).as_secs()).collect();
    assert!(waits[0] >= 5 && waits[1] >= 10 && waits[2] >= 20, "{waits:?}");
}

#[tokio::test]
async fn missing_scope_skips_its_object_and_is_reported() {
    let crm = Crm::serve(generate(44, 20, 5, noon())).await;
    let mut mirror = Mirror::empty();
    mirror.key = Some(crm.sandbox.add_key(&["companies:read", "custom-fields:read", "team-members:read"]));
    let report = mirror.sync(&crm).await;
    assert_eq!(report.outcome, RunOutcome::Done);
    let named: Vec<&str> = report.missing_scopes.iter().map(|(_, scope)| *scope).collect();
    assert_eq!(named, ["contacts:read"]);
    assert_eq!((mirror.count("contacts"), mirror.count("companies")), (0, 5));
    // The scope is granted: the object is copied as usual.
    mirror.key = None;
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn refused_key_ends_the_run_at_the_first_request() {
    let crm = Crm::serve(generate(45, 20, 5, noon())).await;
    let mut mirror = Mirror::empty();
    mirror.key = Some("crm_test_v1_of_somebody_else".into());
    let error = mirror.run(&crm, &Job::sync()).await.unwrap_err();
    assert!(matches!(error, SyncError::Api { .. }));
    assert_eq!(crm.sandbox.log().len(), 1, "no hammering");
    assert!(!format!("{error:?} {error}").contains("somebody_else"));
    mirror.key = Some(crm.sandbox.add_key(&[]));
    let error = mirror.run(&crm, &Job::sync()).await.unwrap_err();
    assert!(matches!(error, SyncError::NoScope { .. }), "{error:?}");
}
