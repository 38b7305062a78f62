//! The API reference, tested from both sides: the sandbox answers as the reference requires (at least one named case
//! per rule, over HTTP), and the client sends what the reference requires.
//!
//! By default the service is a sandbox in this process. With `CRM_CONFORMANCE_BASE_URL` and `CRM_CONFORMANCE_KEY` the
//! same cases run against another service; cases that need a world, a key or a fault of their own are then skipped and
//! listed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that cannot be set up ends the run")]

#[path = "../fuzz/checks/mod.rs"]
mod checks;
#[path = "../support/mod.rs"]
mod support;

mod client;
mod corpus;
mod strangers;
mod witness;
mod conformance {
    pub mod access;
    pub mod bench;
    pub mod cursors;
    pub mod faults;
    pub mod filters;
    pub mod orders;
    pub mod projections;
    pub mod refusals;
    pub mod update_tables;
    pub mod updates;
}

use conformance::bench::{Crm, Report};
use conformance::{access, cursors, faults, filters, orders, projections, refusals, updates};

#[tokio::test]
async fn service_follows_the_reference() {
    let target = std::env::var("CRM_CONFORMANCE_BASE_URL").ok();
    let mut report = Report { remote: target.is_some(), ..Report::default() };
    let crm = match target {
        Some(base) => {
            let key = std::env::var("CRM_CONFORMANCE_KEY").expect("CRM_CONFORMANCE_BASE_URL needs CRM_CONFORMANCE_KEY");
            Crm::remote(&base, &key)
        }
        None => Crm::generated().await,
    };
    refusals::run(&crm, &mut report).await;
    access::run(&crm, &mut report).await;
    orders::run(&crm, &mut report).await;
    cursors::run(&crm, &mut report).await;
    filters::run(&crm, &mut report).await;
    projections::run(&crm, &mut report).await;
    updates::run(&crm, &mut report).await;
    faults::run(&crm, &mut report).await;
    println!("{} cases ran, {} were skipped", report.ran.len(), report.skipped.len());
    for name in &report.skipped {
        println!("skipped, because it needs a sandbox: {name}");
    }
    assert!(
        report.failed.is_empty(),
        "{} of {} cases failed:\n- {}",
        report.failed.len(),
        report.ran.len(),
        report.failed.join("\n- ")
    );
    assert!(report.remote || report.ran.len() >= 150, "only {} cases", report.ran.len());
}
