//! Details are read again before they are older than their age limit, whatever the schedule, as far as RU are left over.

use std::time::Duration;

use crate::changes::{plain_world, settled};
use crm_mirror::model::{Clock as _, Instant};

#[tokio::test]
async fn no_detail_becomes_older_than_its_limit_and_one_interval_where_the_budget_allows() {
    const HOUR: u64 = 3_600;
    let (crm, mut mirror) = settled(plain_world(300)).await;
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
