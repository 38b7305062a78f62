//! Rows dated ahead of the service's time, as an app server in the wrong zone stamps them: all of them are read at once,
//! none is read twice, and ordinary changes do not wait behind them.

use std::time::Duration;

use crate::plain::{edit_all, plain_lists};
use crate::support::Crm;
use crm_mirror::model::{Clock as _, Object, Resource};
use crm_mirror::sandbox::{RequestLine, World};
use crm_mirror::store::RunOutcome;
use crm_mirror::sync::Job;
use serde_json::json;

const AHEAD: Duration = Duration::from_secs(8 * 3_600);

/// Edits this many contacts by a clock that is eight hours ahead, a second later each.
fn edit_ahead(crm: &Crm, contacts: usize, name: &str) {
    let now = crm.clock.now();
    crm.sandbox.with_world(|world| {
        for (n, id) in world.ids(Resource::Contacts).into_iter().take(contacts).enumerate() {
            let at = now.plus(AHEAD).plus(Duration::from_secs(n as u64));
            assert!(world.edit_at(Object::Contact, &id, &json!({ "name": name }), Some(at)));
        }
    });
}

#[tokio::test]
async fn bulk_change_by_a_clock_that_is_ahead_is_read_at_once() {
    for job in [Job::sync(), Job::verify()] {
        let (crm, mirror) = plain_lists(500).await;
        crm.sandbox.configure(|settings| settings.page_cap = Some(10));
        edit_ahead(&crm, 499, "Zone");
        let report = mirror.run(&crm, &job).await.unwrap();
        assert_eq!(report.outcome, RunOutcome::Done, "{job:?}");
        mirror.assert_exact_lists(&crm);
    }
}

#[tokio::test]
async fn rows_dated_ahead_are_not_read_again_and_hold_up_no_change() {
    let (crm, mirror) = plain_lists(1_500).await;
    edit_ahead(&crm, 1_200, "Zone");
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
    let sync = async |what: &str, most: u64| {
        crm.wait(300);
        crm.sandbox.clear_log();
        mirror.sync(&crm).await;
        mirror.assert_exact_lists(&crm);
        assert!(crm.charged() <= most, "{what}: {} RU", crm.charged());
    };
    for _ in 0..3 {
        sync("idle", 4).await;
    }
    let edit = |id: &str, name: &str, ahead: Option<Duration>| {
        crm.wait(5);
        let at = ahead.map(|ahead| crm.clock.now().plus(ahead));
        crm.sandbox.with_world(|world| match at {
            Some(_) => assert!(world.edit_at(Object::Contact, id, &json!({ "name": name }), at)),
            None => assert!(world.edit(Object::Contact, id, &json!({ "name": name }))),
        });
    };
    edit("c01450", "Ordinary", None);
    sync("an ordinary change", 4).await;
    edit("c01451", "Later than all", Some(AHEAD + Duration::from_secs(1_400)));
    sync("a row later than all", 5).await;
    edit("c01452", "Among them", Some(AHEAD));
    sync("a row among them", 20).await;
    // An earlier time is believed at two moments.
    edit("c00700", "Ordinary again", None);
    mirror.sync(&crm).await;
    crm.wait(1_200);
    sync("a row that is not ahead any more", 6).await;
    crm.wait(9 * 3_600);
    sync("their time has come", 24).await;
    sync("idle again", 2).await;
    let (_, found) = mirror.verify(&crm, &Job::verify()).await;
    assert!(found.iter().all(|(_, findings)| findings.is_clean()), "{found:?}");
}

/// Both were stamped by the same wrong clock: rows that no run has read, beside others that are here.
#[tokio::test]
async fn verification_compares_rows_dated_ahead() {
    let (crm, mirror) = plain_lists(60).await;
    mirror.scheduled(&crm, &Job::sync()).await;
    edit_ahead(&crm, 3, "Zone");
    let report = mirror.scheduled(&crm, &Job::verify()).await;
    let contacts = &report.findings[0].1;
    assert_eq!((contacts.different, contacts.is_clean()), (3, false), "its changes were read a moment ago");
    crm.wait(300);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
}

/// From now on, every list of contacts finds more changed records than it shows.
pub fn changes_without_end(crm: &Crm) {
    crm.sandbox.configure(|settings| settings.page_cap = Some(2));
    let (clock, mut n) = (crm.clock.clone(), 0_usize);
    crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
        if asked.lists(Resource::Contacts) && asked.param("filter[updatedAt][gt]").is_some() {
            for _ in 0..2 {
                clock.advance(Duration::from_secs(1));
                world.now = clock.now();
                world.edit(Object::Contact, &format!("c{:05}", n % 120), &json!({ "name": format!("Churn {n}") }));
                n += 1;
            }
        }
    });
}

#[tokio::test]
async fn run_that_leaves_constant_changes_is_suspended_and_claims_nothing() {
    for job in [Job::sync(), Job::verify()] {
        let (crm, mirror) = plain_lists(120).await;
        edit_all(&crm, Object::Contact, 60, "Before");
        changes_without_end(&crm);
        crm.sandbox.with_world(|world| world.create(Object::Company, &json!({"id": "co1", "name": "Beside"})));
        let report = mirror.run(&crm, &job).await.unwrap();
        assert_eq!(report.outcome, RunOutcome::Suspended, "{job:?}");
        assert_eq!(mirror.count("companies"), 1, "{job:?}: the other object is read");
        assert!(crm.charged() < 130, "{job:?}: {} RU", crm.charged());
        crm.sandbox.clear_hook();
        crm.wait(300);
        mirror.sync(&crm).await;
        mirror.assert_exact_lists(&crm);
    }
}
