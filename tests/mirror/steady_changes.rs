//! Changes that go on while they are read, and those that were committed late: found in the same run, and read once.

use std::ops::Range;
use std::time::Duration;

use crate::plain::{edit_all, plain_lists};
use crm_mirror::model::{Clock as _, Object, Resource};
use crm_mirror::sandbox::{RequestLine, World};
use serde_json::json;

/// A count before the walk would be equal: the row that changes again has left, and the late one has come.
#[tokio::test]
async fn row_committed_late_beside_one_that_changes_again_is_found_in_the_same_run() {
    let (crm, mirror) = plain_lists(1_600).await;
    edit_all(&crm, Object::Contact, 1_500, "Bulk");
    crm.wait(5);
    mirror.sync(&crm).await;
    crm.sandbox.with_world(|world| {
        let late = world.now.minus(Duration::from_secs(15));
        world.edit_at(Object::Contact, "c01550", &json!({"name": "Late"}), Some(late));
        world.edit(Object::Contact, "c00100", &json!({"name": "Again"}));
    });
    crm.wait(5);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
}

/// By an app server half a second behind: the row moves within what is counted, so the counts are equal.
#[tokio::test]
async fn row_that_is_stamped_back_among_many_changes_is_found_by_the_next_run() {
    let (crm, mirror) = plain_lists(1_600).await;
    let stamped = |n: usize, back: u64, name: &str| {
        crm.sandbox.with_world(|world| {
            let at = world.now.minus(Duration::from_millis(back));
            assert!(world.edit_at(Object::Contact, &format!("c{n:05}"), &json!({ "name": name }), Some(at)));
        });
    };
    (0..300).for_each(|n| stamped(n, (299 - n as u64) * 20, "Bulk"));
    crm.wait(1);
    mirror.sync(&crm).await;
    stamped(200, 1_500, "Late");
    crm.wait(4);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
    assert!(crm.charged() <= 4, "{} RU", crm.charged());
}

/// A poll every five seconds after a bulk change, with a change before each.
#[tokio::test]
async fn steady_changes_after_a_bulk_change_cost_their_pages_and_a_count() {
    let (crm, mirror) = plain_lists(700).await;
    edit_all(&crm, Object::Contact, 600, "Bulk");
    crm.wait(5);
    mirror.sync(&crm).await;
    for n in 0..6 {
        crm.sandbox
            .with_world(|world| world.edit(Object::Contact, &format!("c{:05}", n * 7), &json!({"name": "Again"})));
        crm.wait(5);
        crm.sandbox.clear_log();
        mirror.sync(&crm).await;
        assert!(crm.charged() <= 4, "{n}: {} RU", crm.charged());
        mirror.assert_exact_lists(&crm);
    }
}

/// A thousand changes, of which some change again with each page that is read.
#[tokio::test]
async fn changes_that_go_on_during_a_long_walk_cost_little_more() {
    let (crm, mirror) = plain_lists(1_600).await;
    edit_all(&crm, Object::Contact, 1_000, "Bulk");
    crm.wait(120);
    let (clock, mut n) = (crm.clock.clone(), 0);
    crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
        if asked.lists(Resource::Contacts) && n < 11 {
            for k in 0..10 {
                clock.advance(Duration::from_millis(100));
                world.now = clock.now();
                world.edit(Object::Contact, &format!("c{:05}", n * 80 + k * 7), &json!({"name": "Again"}));
            }
            n += 1;
        }
    });
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    let asked = crm.sandbox.log().lists(Resource::Contacts);
    assert!(asked <= 20, "{asked} lists");
    crm.wait(120);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
}

/// Rows that change again while pages are read by offset make others slip over an edge. Those have an earlier version within
/// the overlap.
#[tokio::test]
async fn rows_that_slip_over_the_edge_of_a_page_are_found_although_they_have_just_changed() {
    for first in [3, 250] {
        let (crm, mirror) = plain_lists(1_600).await;
        crm.sandbox.configure(|settings| settings.counts_rows = true);
        let name = |range: Range<usize>, name: &str| {
            crm.sandbox.with_world(|world| {
                range.for_each(|n| _ = world.edit(Object::Contact, &format!("c{n:05}"), &json!({ "name": name })));
            });
        };
        name(100..100 + first, "First");
        crm.wait(1);
        mirror.sync(&crm).await;
        crm.wait(7);
        name(0..250, "Second");
        let (clock, mut asked_before) = (crm.clock.clone(), 0);
        crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
            asked_before += u32::from(asked.lists(Resource::Contacts));
            if asked_before == 2 {
                clock.advance(Duration::from_millis(100));
                world.now = clock.now();
                (3..6).for_each(|n| _ = world.edit(Object::Contact, &format!("c{n:05}"), &json!({"name": "Third"})));
            }
        });
        mirror.sync(&crm).await;
        mirror.assert_exact_lists(&crm);
    }
}

/// A service that stamps whole seconds: a row changes once more in the second that the walk ends in.
#[tokio::test]
async fn row_that_changes_again_in_the_second_of_the_watermark_is_read() {
    let (crm, mirror) = plain_lists(1_600).await;
    let stamp = crm.clock.now();
    let name = move |world: &mut World, n: usize, name: &str| {
        _ = world.edit_at(Object::Contact, &format!("c{n:05}"), &json!({ "name": name }), Some(stamp));
    };
    crm.clock.advance(Duration::from_millis(300));
    crm.sandbox.with_world(|world| (0..250).for_each(|n| name(world, n, "Bulk")));
    let mut asked_before = 0;
    crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
        asked_before += u32::from(asked.lists(Resource::Contacts));
        if asked_before == 3 {
            // On neither edge of them, which a page of the newest shows.
            name(world, 120, "Again");
        }
    });
    mirror.sync(&crm).await;
    crm.wait(5);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
}
