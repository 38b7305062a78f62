//! Details are read again before they are older than their age limit, whatever the schedule, as far as RU are left over.

use std::time::Duration;

use crate::plain::plain;
use crm_mirror::model::{Clock as _, Instant, Object, Ru};
use crm_mirror::sync::Job;
use serde_json::json;

const DAY: u64 = 86_400;

#[tokio::test]
async fn no_detail_becomes_older_than_its_limit_and_one_interval_where_the_budget_allows() {
    const HOUR: u64 = 3_600;
    let (crm, mut mirror) = plain(300).await;
    let age = Duration::from_secs(3 * HOUR);
    mirror.settings.detail_max_age = Some(age);
    for hour in 0..12 {
        crm.wait(HOUR);
        crm.sandbox.clear_log();
        mirror.sync(&crm).await;
        assert!(crm.charged() <= 2 + 120, "{hour}: {} RU, and no more than the rate asks for", crm.charged());
        let oldest: Instant =
            mirror.one("SELECT min(fetched_at) FROM contact_details").trim_matches('\'').parse().unwrap();
        let most = age + Duration::from_secs(2 * HOUR);
        assert!(hour < 6 || crm.clock.now().since(oldest) <= most, "{hour}: {oldest}");
    }
}

/// All details were read on one day, and are old at the same time: what changes meanwhile has the budget.
#[tokio::test]
async fn old_details_of_one_day_leave_the_budget_to_what_changes() {
    let (crm, mut mirror) = plain(600).await;
    mirror.limits.limit = Ru::new(670);
    crm.wait(31 * DAY);
    crm.sandbox.clear_log();
    for _ in 0..30 {
        crm.wait(300);
        mirror.scheduled(&crm, &Job::sync()).await;
    }
    let read = crm.sandbox.log().details(Object::Contact);
    assert!((30..=20 + 29).contains(&read), "{read}: the share of a day, and one in each run");
    crm.sandbox.with_world(|world| {
        (0..20).for_each(|n| _ = world.edit(Object::Contact, &format!("c{n:05}"), &json!({ "position": "New" })));
    });
    crm.wait(300);
    let report = mirror.scheduled(&crm, &Job::sync()).await;
    assert_eq!((report.suspension, report.pending_details), (None, 0));
    mirror.assert_exact(&crm);
}

/// A clock that is weeks ahead for one run, or a mirror that stood still as long, reads no more than the share of a day.
#[tokio::test]
async fn clock_that_is_ahead_for_one_run_makes_no_detail_old_but_those_of_a_day() {
    let (crm, mirror) = plain(600).await;
    let now = crm.clock.now();
    crm.clock.jump(now.plus(Duration::from_secs(40 * DAY)));
    mirror.scheduled(&crm, &Job::sync()).await;
    assert_eq!(crm.sandbox.log().details(Object::Contact), 20);
}
