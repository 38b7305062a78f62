//! Paging (*List query conventions*): envelopes, bound cursors, totals, and rows that move between pages.

use std::collections::BTreeSet;

use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{SCOPES, World};
use serde_json::json;

use super::bench::{Crm, Report, encoded, same};
use crate::ensure;

/// Ten contacts; `c0` is the oldest by both timestamps.
fn ten(world: &mut World) {
    for n in 0..10 {
        let time = format!("2026-01-{:02}T00:00:00.000Z", n + 1);
        world.create(Object::Contact, &json!({"id": format!("c{n}"), "createdAt": time, "updatedAt": time}));
    }
}

pub async fn run(crm: &Crm, report: &mut Report) {
    for path in [
        "/contacts?limit=7",
        "/contacts?limit=100&sort=updatedAt",
        "/contacts?limit=9&sort=name",
        "/companies?limit=10&sort=employeeCount,-customerFitScore",
        "/companies?limit=100&filter[employeeCount][gte]=100",
        "/custom-field-definitions?objectType=contact&limit=5",
        "/team-members?limit=3&sort=createdAt",
    ] {
        let case = async {
            let counted = format!("{path}&count=exact");
            let pages = crm.pages(&counted).await?;
            let ids: Vec<String> = pages.iter().flat_map(|page| page.ids()).collect();
            let distinct: BTreeSet<&String> = ids.iter().collect();
            same("rows without repeats", distinct.len(), ids.len())?;
            for page in &pages {
                same("total", page.json["total"].as_u64(), Some(ids.len() as u64))?;
            }
            let limit: usize = path.split("limit=").nth(1).map_or(50, |l| {
                let digits: String = l.chars().take_while(char::is_ascii_digit).collect();
                digits.parse().unwrap()
            });
            let (last, full) = pages.split_last().unwrap();
            ensure!(full.iter().all(|page| page.rows().len() == limit), "a short page before the last");
            ensure!(!last.rows().is_empty() || pages.len() == 1, "an empty last page");
            Ok(())
        };
        report.any(&format!("pages are complete: {path}"), case).await;
    }
    let case = async {
        let page = crm.get("/contacts").await?.must(200)?;
        same("rows", page.rows().len(), 50)
    };
    report.local("the default page has 50 rows", case).await;
    let case = async {
        let page = crm.get("/contacts?filter[id]=nobody&count=exact").await?.must(200)?;
        same("rows", page.rows().len(), 0)?;
        ensure!(page.json["nextCursor"].is_null(), "a cursor to nowhere");
        same("total", page.json["total"].as_u64(), Some(0))
    };
    report.any("a page without matches is a success", case).await;
    let case = async {
        let page = crm.get("/contacts?limit=5").await?.must(200)?;
        ensure!(page.json.get("total").is_none(), "a total without a request for it");
        Ok(())
    };
    report.any("no total without count", case).await;
    bound(crm, report).await;
    if report.hand_made("rows that move between pages") {
        moving(report).await;
    }
}

/// A cursor is refused with any other condition, list, key or tenant.
async fn bound(crm: &Crm, report: &mut Report) {
    let base = "/contacts?limit=3&sort=updatedAt&filter[createdAt][gte]=2000-01-01T00:00:00Z";
    let first = crm.get(base).await.ok().and_then(|page| page.next()).unwrap_or_default();
    let cursor = encoded(&first);
    for (name, path) in [
        ("another sort", "/contacts?limit=3&sort=-updatedAt&filter[createdAt][gte]=2000-01-01T00:00:00Z"),
        ("another filter", "/contacts?limit=3&sort=updatedAt&filter[createdAt][gte]=2001-01-01T00:00:00Z"),
        ("no filter", "/contacts?limit=3&sort=updatedAt"),
        ("another predicate", "/contacts?limit=3&sort=updatedAt&filter[createdAt][gte]=2000-01-01T00:00:00Z&q=ab"),
        ("another list", "/companies?limit=3&sort=updatedAt&filter[createdAt][gte]=2000-01-01T00:00:00Z"),
    ] {
        let case = async {
            let answer = crm.get(&format!("{path}&cursor={cursor}")).await?.refused(400)?;
            ensure!(answer.has_complaint_about("cursor"), "no complaint about the cursor: {}", answer.text);
            Ok(())
        };
        report.any(&format!("a cursor is refused with {name}"), case).await;
    }
    let case = async {
        let path =
            format!("/contacts?cursor={cursor}&filter[createdAt][gte]=2000-01-01T00:00:00Z&sort=updatedAt&limit=3");
        crm.get(&path).await?.must(200)?;
        Ok(())
    };
    report.any("the order of parameters is no condition", case).await;
    let case = async {
        let path = format!("{base}&cursor={cursor}");
        let (one, two) = (crm.get(&path).await?.must(200)?, crm.get(&path).await?.must(200)?);
        same("the page again", one.ids(), two.ids())
    };
    report.any("a cursor can be used again", case).await;
    let case = async {
        let other = crm.sandbox().full_key();
        crm.get_as(&other, &format!("{base}&cursor={cursor}")).await?.must(200)?;
        let fewer = crm.sandbox().add_key(&SCOPES[..2]);
        crm.get_as(&fewer, &format!("{base}&cursor={cursor}")).await?.refused(400)?;
        Ok(())
    };
    report.local("a cursor is bound to the scopes, not to the key", case).await;
    let case = async {
        let half = encoded(&first[..first.len() / 2]);
        crm.get(&format!("{base}&cursor={half}")).await?.refused(400)?;
        Ok(())
    };
    report.any("half a cursor is refused", case).await;
    let case = async {
        crm.sandbox().configure(|s| s.tenant = "tenant-2".into());
        let answer = crm.get(&format!("{base}&cursor={cursor}")).await?;
        crm.sandbox().configure(|s| s.tenant.clear());
        answer.refused(400)?;
        Ok(())
    };
    report.local("a cursor is bound to the tenant", case).await;
}

/// Rows that move, appear and disappear between two pages.
async fn moving(report: &mut Report) {
    keyset_cursors(report).await;
    other_cursors(report).await;
}

/// Rows that move under a keyset cursor.
async fn keyset_cursors(report: &mut Report) {
    for (name, path, change, wanted) in [
        (
            "the row under the cursor is removed",
            "/contacts?limit=4&sort=createdAt",
            (|w: &mut World| _ = w.remove(Object::Contact, "c3")) as fn(&mut World),
            "c0 c1 c2 c3 c4 c5 c6 c7 c8 c9",
        ),
        (
            "a row behind the cursor is removed",
            "/contacts?limit=4&sort=createdAt",
            |w| _ = w.remove(Object::Contact, "c0"),
            "c0 c1 c2 c3 c4 c5 c6 c7 c8 c9",
        ),
        (
            "a row ahead is removed",
            "/contacts?limit=4&sort=createdAt",
            |w| _ = w.remove(Object::Contact, "c8"),
            "c0 c1 c2 c3 c4 c5 c6 c7 c9",
        ),
        (
            "a row changes and moves ahead",
            "/contacts?limit=4&sort=updatedAt",
            |w| _ = w.edit(Object::Contact, "c1", &json!({"position": "CTO"})),
            "c0 c1 c2 c3 c4 c5 c6 c7 c8 c9 c1",
        ),
        (
            "a row is created ahead",
            "/contacts?limit=4&sort=createdAt",
            |w| _ = w.create(Object::Contact, &json!({"id": "new"})),
            "c0 c1 c2 c3 c4 c5 c6 c7 c8 c9 new",
        ),
        (
            "a row is created behind",
            "/contacts?limit=4&sort=-createdAt",
            |w| _ = w.create(Object::Contact, &json!({"id": "new"})),
            "c9 c8 c7 c6 c5 c4 c3 c2 c1 c0",
        ),
    ] {
        let case = async {
            let crm = Crm::with(ten).await;
            let first = crm.get(path).await?.must(200)?;
            crm.sandbox().with_world(change);
            let mut ids = first.ids();
            let mut cursor = first.next();
            while let Some(token) = cursor {
                let page = crm.page(path, Some(&token)).await?.must(200)?;
                ids.extend(page.ids());
                cursor = page.next();
            }
            same("ids", ids.join(" "), wanted.to_string())
        };
        report.local(&format!("keyset: {name}"), case).await;
    }
}

/// Offset cursors, and the total while rows appear and disappear.
async fn other_cursors(report: &mut Report) {
    let case = async {
        let crm = Crm::with(ten).await;
        crm.sandbox().configure(|s| s.counts_rows = true);
        let path = "/contacts?limit=4&sort=createdAt";
        same("undisturbed", crm.all(path).await?.len(), 10)?;
        let mut pages = 0;
        crm.sandbox().before_request(move |world, asked| {
            pages += usize::from(asked.lists(Resource::Contacts));
            if pages == 2 {
                world.remove(Object::Contact, "c0");
            }
        });
        let ids = crm.all(path).await?;
        crm.sandbox().clear_hook();
        same("ids", ids.join(" "), "c0 c1 c2 c3 c5 c6 c7 c8 c9".to_string())
    };
    report.local("offset: a removal lets a row slip", case).await;
    let case = async {
        let crm = Crm::with(ten).await;
        let total = |answer: super::bench::Answer| answer.json["total"].as_u64();
        let path = "/contacts?limit=4&sort=createdAt&count=exact";
        let first = crm.get(path).await?.must(200)?;
        crm.sandbox().with_world(|w| w.create(Object::Contact, &json!({})));
        let second = crm.page(path, first.next().as_deref()).await?.must(200)?;
        same("totals", (total(first), total(second)), (Some(10), Some(11)))
    };
    report.local("the total is of the moment, before the cursor", case).await;
}
