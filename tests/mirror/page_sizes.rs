//! Pages that cannot be read are made smaller, and those behind them as large as before.

use std::time::Duration;

use crate::broken_rules::{crm, pages, world};
use crate::support::{Crm, Mirror};
use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{Fault, Rule};
use serde_json::json;

/// Pages of one row lead nowhere where no cursor is followed: what was too much for one answer is tried again.
#[tokio::test]
async fn pages_that_were_made_smaller_do_not_hold_the_changes_up() {
    let (crm, mut mirror) = crm(24).await;
    mirror.sync(&crm).await;
    crm.wait(600);
    crm.sandbox.with_world(|world| {
        let at = world.now.minus(Duration::from_secs(120));
        for id in world.ids(Resource::Contacts) {
            world.edit_at(Object::Contact, &id, &json!({"name": format!("Edited {id}")}), Some(at));
        }
    });
    let lists = |fault: Fault| Rule::new(fault).on(Resource::Contacts).lists();
    crm.sandbox.faults().add(lists(Fault::Truncated).after(5).times(8));
    crm.sandbox.faults().add(lists(Fault::Status(422)).with_param("cursor").forever());
    mirror.tries = 3;
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert!(pages(&crm) <= 40, "{} pages", pages(&crm));
}

/// A page that is too large for a moment makes the next ones smaller, and those behind them as large as before: by value, by
/// cursor, and where every full page is too large.
#[tokio::test]
async fn bad_moment_makes_no_list_dear() {
    for (changes, heavy, most) in [(false, false, 60), (true, false, 60), (false, true, 320)] {
        let crm = Crm::serve(world(1_500)).await;
        let mut mirror = Mirror::one_at_a_time();
        mirror.settings.details = false;
        if changes {
            mirror.sync(&crm).await;
            crm.wait(600);
            crm.sandbox.with_world(|world| {
                for (n, id) in world.ids(Resource::Contacts).iter().enumerate() {
                    let at = world.now.minus(Duration::from_secs(3_000 - n as u64));
                    world.edit_at(Object::Contact, id, &json!({"name": format!("Edited {id}")}), Some(at));
                }
            });
            crm.wait(600);
        }
        crm.sandbox.clear_log();
        let lists = |fault: Fault| Rule::new(fault).on(Resource::Contacts).lists();
        match heavy {
            true => {
                mirror.max_body = Some(100_000);
                crm.sandbox.faults().add(lists(Fault::HeavyRows(10_000)).forever());
            }
            false => crm.sandbox.faults().add(lists(Fault::Truncated).after(3).times(11)),
        }
        mirror.sync(&crm).await;
        mirror.assert_exact_lists(&crm);
        let asked = crm.sandbox.log().lists(Resource::Contacts);
        assert!(asked <= most, "changes {changes}, heavy {heavy}: {asked} lists");
    }
}
