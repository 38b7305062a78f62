//! Injected faults: each has the intended effect on the wire, and the next request succeeds.

use std::time::Duration;

use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{Fault, Rule};
use serde_json::json;

use super::bench::{Crm, Report, at, edit, same};
use crate::ensure;

async fn small() -> Crm {
    Crm::with(|world| {
        for n in 0..9 {
            let time = format!("2026-01-{:02}T00:00:00.000Z", n + 1);
            world.create(
                Object::Contact,
                &json!({"id": format!("c{n}"), "createdAt": time, "updatedAt": time, "position": "x".repeat(200)}),
            );
        }
    })
    .await
}

const PATH: &str = "/contacts?limit=3&sort=createdAt";

pub async fn run(_: &Crm, report: &mut Report) {
    if !report.hand_made("faults") {
        return;
    }
    statuses(report).await;
    bodies(report).await;
    pages(report).await;
    servers(report).await;
}

/// Errors, and answers that break on the wire.
async fn statuses(report: &mut Report) {
    for (name, body, header) in
        [("in the body", Some(7), None), ("in the header", None, Some(8)), ("nowhere", None, None)]
    {
        let case = async {
            let crm = small().await;
            crm.sandbox().faults().next(Fault::Wait { status: 429, body, header });
            let answer = crm.get(PATH).await?.refused(429)?;
            same("retryAfter", answer.json["retryAfter"].as_u64(), body)?;
            let retry_after = answer.header("retry-after").and_then(|v| v.parse().ok());
            same("Retry-After", retry_after, header)?;
            crm.get(PATH).await?.must(200)?;
            Ok(())
        };
        report.local(&format!("429 with the wait {name}"), case).await;
    }
    for status in [400, 401, 403, 404, 500, 502, 503] {
        let case = async {
            let crm = small().await;
            crm.sandbox().faults().next(Fault::Status(status));
            let answer = crm.get(PATH).await?.refused(status)?;
            same("requestId", answer.json["requestId"].is_string(), status == 500)?;
            crm.get(PATH).await?.must(200)?;
            same("RU", crm.sandbox().log().ru().get(), 1)
        };
        report.local(&format!("{status} on demand"), case).await;
    }
    for (name, fault, charged) in [
        ("reset", Fault::Reset, 0),
        ("reset after the work", Fault::ResetAfterApply, 1),
        ("truncated", Fault::Truncated, 1),
        ("truncated in chunks", Fault::TruncatedChunked, 1),
    ] {
        let case = async {
            let crm = small().await;
            crm.sandbox().faults().next(fault.clone());
            let broken = crm.get(PATH).await;
            ensure!(broken.is_err(), "a whole answer: {broken:?}");
            let log = crm.sandbox().log();
            ensure!(log.entries()[0].cut, "not logged as cut");
            same("RU", log.ru().get(), charged)?;
            crm.get(PATH).await?.must(200)?;
            Ok(())
        };
        report.local(&format!("{name} breaks on the wire"), case).await;
    }
}

/// Lost answers and invalid bodies.
async fn bodies(report: &mut Report) {
    let case = async {
        let crm = small().await;
        crm.sandbox().faults().next(Fault::ResetAfterApply);
        let tag = crm.sandbox().world().etag(Object::Contact, "c1").unwrap();
        let update = edit(json!({"position": "CEO"}), &tag, "k");
        ensure!(crm.patch(Object::Contact, "c1", update.clone()).await.is_err(), "an answer");
        let now = crm.sandbox().world().detail_json(Object::Contact, "c1").unwrap();
        same("position", now["position"].as_str(), Some("CEO"))?;
        same("RU", crm.sandbox().log().ru().get(), 2)?;
        let again = crm.patch(Object::Contact, "c1", update).await?.must(200)?;
        same("replayed", again.header("idempotent-replayed"), Some("true"))
    };
    report.local("a lost answer can be asked for again", case).await;
    let case = async {
        let crm = small().await;
        crm.sandbox().faults().next(Fault::StatusAfterApply(200));
        let answer = crm.get(PATH).await?.must(200)?;
        ensure!(answer.json.is_null() && answer.text.starts_with("<html>"), "{}", answer.text);
        Ok(())
    };
    report.local("a page of HTML instead of JSON", case).await;
    let case = async {
        let crm = small().await;
        crm.sandbox().faults().next(Fault::HugeBody(3_000_000));
        let answer = crm.get(PATH).await?.must(200)?;
        ensure!(answer.text.len() > 3_000_000, "only {} bytes", answer.text.len());
        same("rows", answer.rows().len(), 3)
    };
    report.local("a huge body", case).await;
    let case = async {
        let crm = small().await;
        crm.sandbox().faults().next(Fault::Drag(Duration::from_secs(90)));
        crm.get(PATH).await?.must(200)?;
        let now = crm.sandbox().clock().now();
        same("clock", now, at("2026-03-01T12:01:30Z"))
    };
    report.local("an answer that takes long by the clock", case).await;
}

/// Cursors and pages that break the rules of paging.
async fn pages(report: &mut Report) {
    let case = async {
        let crm = small().await;
        let second = crm.get(PATH).await?.must(200)?.next();
        crm.sandbox().faults().add(Rule::new(Fault::RefusedCursor).with_param("cursor"));
        crm.get(PATH).await?.must(200)?;
        let refused = crm.page(PATH, second.as_deref()).await?.refused(400)?;
        ensure!(refused.has_complaint_about("cursor"), "no complaint about the cursor");
        crm.page(PATH, second.as_deref()).await?.must(200)?;
        Ok(())
    };
    report.local("a good cursor refused", case).await;
    let case = async {
        let crm = small().await;
        let first = crm.get(PATH).await?.must(200)?;
        crm.sandbox().faults().next(Fault::RepeatedPage);
        let second = crm.page(PATH, first.next().as_deref()).await?.must(200)?;
        same("the page again", second.text, first.text)
    };
    report.local("the last page again", case).await;
    let case = async {
        let crm = small().await;
        let first = crm.get(PATH).await?.must(200)?;
        crm.sandbox().faults().add(Rule::new(Fault::SameCursor).with_param("cursor").forever());
        for _ in 0..3 {
            let page = crm.page(PATH, first.next().as_deref()).await?.must(200)?;
            same("cursor", page.next(), first.next())?;
        }
        crm.sandbox().faults().clear();
        same("afterwards", crm.all(PATH).await?.len(), 9)
    };
    report.local("the same cursor for ever", case).await;
    let case = async {
        let crm = small().await;
        crm.sandbox().faults().add(Rule::new(Fault::EmptyPageWithCursor).on(Resource::Contacts).after(1));
        let pages = crm.pages(PATH).await?;
        let sizes: Vec<usize> = pages.iter().map(|page| page.rows().len()).collect();
        same("sizes", sizes, vec![3, 0, 3, 3])?;
        let cursors: std::collections::BTreeSet<_> = pages.iter().filter_map(|page| page.next()).collect();
        same("cursors", cursors.len(), 3)
    };
    report.local("an empty page in between", case).await;
    let case = async {
        let crm = small().await;
        crm.sandbox().faults().next(Fault::Unordered);
        let ids = crm.get(PATH).await?.must(200)?.ids();
        same("ids", ids.join(" "), "c2 c1 c0".to_string())
    };
    report.local("a page out of order", case).await;
    let case = async {
        let crm = small().await;
        crm.sandbox().faults().next(Fault::RowOutsideFilter);
        let path = "/contacts?sort=createdAt&filter[createdAt][gt]=2026-01-08T00:00:00Z";
        same("ids", crm.get(path).await?.must(200)?.ids().join(" "), "c8 c0".to_string())
    };
    report.local("a row outside the filter", case).await;
    let case = async {
        let crm = small().await;
        crm.sandbox().faults().next(Fault::EmptyList);
        let answer = crm.get(&format!("{PATH}&count=exact")).await?.must(200)?;
        same("rows", answer.rows().len(), 0)?;
        same("total", answer.json["total"].as_u64(), Some(0))?;
        ensure!(answer.next().is_none(), "a cursor");
        Ok(())
    };
    report.local("a list that is suddenly empty", case).await;
}

/// A server that stops.
async fn servers(report: &mut Report) {
    let case = async {
        let crm = small().await;
        let other = crm.sandbox().start(0).await.map_err(|e| e.to_string())?;
        let again = Crm::remote(&other.base_url, &crm.key);
        again.get(PATH).await?.must(200)?;
        drop(other);
        ensure!(again.get(PATH).await.is_err(), "the open connection still answers");
        let fresh = Crm::remote(&again.base, &crm.key);
        ensure!(fresh.get(PATH).await.is_err(), "it still answers");
        crm.get(PATH).await?.must(200)?;
        Ok(())
    };
    report.local("a stopped server answers no more, the sandbox lives on", case).await;
}
