//! Sorting (*List query conventions*): directions, nulls, ties.

use crm_mirror::model::Object;
use crm_mirror::sandbox::World;
use serde_json::{Value, json};

use super::bench::{Crm, Report, same};
use crate::ensure;

fn people(world: &mut World) {
    for (id, name, created, seen) in [
        ("b", json!("Bo"), json!("2026-01-02T00:00:00.000Z"), json!("2026-02-01T00:00:00.000Z")),
        ("a", json!("Bo"), json!("2026-01-02T00:00:00.000Z"), Value::Null),
        ("d", json!("Al"), json!("2026-01-01T00:00:00.000Z"), json!("2026-02-03T00:00:00.000Z")),
        ("c", Value::Null, Value::Null, json!("2026-02-02T00:00:00.000Z")),
        ("e", json!("Cy"), json!("2026-01-03T00:00:00.000Z"), Value::Null),
    ] {
        world.create(
            Object::Contact,
            &json!({"id": id, "name": name, "createdAt": created, "updatedAt": created, "lastInteractionAt": seen}),
        );
    }
    for (id, employees, fit) in [
        ("p", json!(9), json!(0.5)),
        ("q", json!(100), json!(0.25)),
        ("r", Value::Null, json!(1)),
        ("s", json!(20), Value::Null),
        ("t", json!(9), json!(0.125)),
    ] {
        world.create(Object::Company, &json!({"id": id, "employeeCount": employees, "customerFitScore": fit}));
    }
}

/// Name, path, and the ids in order.
const ORDERS: &[(&str, &str, &str)] = &[
    ("default is newest first, nulls last, ties by id", "/contacts", "eabdc"),
    ("createdAt rising", "/contacts?sort=createdAt", "dabec"),
    ("createdAt falling", "/contacts?sort=-createdAt", "eabdc"),
    ("updatedAt rising", "/contacts?sort=updatedAt", "dabec"),
    ("updatedAt falling", "/contacts?sort=-updatedAt", "eabdc"),
    ("name rising, null last", "/contacts?sort=name", "dabec"),
    ("name falling, null last", "/contacts?sort=-name", "eabdc"),
    ("lastInteractionAt rising", "/contacts?sort=lastInteractionAt", "bcdae"),
    ("lastInteractionAt falling", "/contacts?sort=-lastInteractionAt", "dcbae"),
    ("two fields", "/contacts?sort=name,-lastInteractionAt", "dbaec"),
    ("two fields the other way round", "/contacts?sort=-lastInteractionAt,name", "dcbae"),
    ("numbers by value, not by text", "/companies?sort=employeeCount", "ptsqr"),
    ("numbers falling", "/companies?sort=-employeeCount", "qsptr"),
    ("fit as stored", "/companies?sort=customerFitScore", "tqprs"),
    ("fit falling", "/companies?sort=-customerFitScore", "rpqts"),
    ("numbers and fit", "/companies?sort=employeeCount,customerFitScore", "tpsqr"),
];

pub async fn run(crm: &Crm, report: &mut Report) {
    if report.hand_made("orders in a world of five records") {
        let small = Crm::with(people).await;
        for (name, path, ids) in ORDERS {
            let wanted: Vec<String> = ids.chars().map(String::from).collect();
            let case = async { same("ids", small.get(path).await?.must(200)?.ids(), wanted.clone()) };
            report.local(&format!("order: {name}"), case).await;
            let case = async {
                let path = format!("{path}{}limit=2", if path.contains('?') { '&' } else { '?' });
                let pages = small.pages(&path).await?;
                same("pages", pages.len(), 3)?;
                same("ids", small.all(&path).await?, wanted)
            };
            report.local(&format!("order over pages: {name}"), case).await;
        }
    }
    for (path, field) in [
        ("/contacts?limit=100", "createdAt"),
        ("/contacts?limit=100&sort=-updatedAt", "updatedAt"),
        ("/companies?limit=100&sort=-lastInteractionAt", "lastInteractionAt"),
    ] {
        let case = async {
            let column = crm.get(path).await?.must(200)?.column(field);
            let times: Vec<&str> = column.iter().filter_map(Value::as_str).collect();
            ensure!(times.windows(2).all(|w| w[0] >= w[1]), "not falling");
            ensure!(column[..times.len()].iter().all(Value::is_string), "nulls before values");
            Ok(())
        };
        report.any(&format!("falling: {path}"), case).await;
    }
}
