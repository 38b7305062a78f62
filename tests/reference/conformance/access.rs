//! Keys, scopes, paths and methods (reference, *Authentication*, *Endpoints*).

use crm_mirror::sandbox::SCOPES;

use super::bench::{Crm, Report, same};
use crate::ensure;

const ENDPOINTS: &[(&str, &str, &str)] = &[
    ("GET", "/contacts", "contacts:read"),
    ("GET", "/contacts/nobody", "contacts:read"),
    ("PATCH", "/contacts/nobody", "contacts:write"),
    ("GET", "/companies", "companies:read"),
    ("GET", "/companies/nobody", "companies:read"),
    ("PATCH", "/companies/nobody", "companies:write"),
    ("GET", "/custom-field-definitions?objectType=contact", "custom-fields:read"),
    ("GET", "/team-members", "team-members:read"),
];

pub async fn run(crm: &Crm, report: &mut Report) {
    keys(crm, report).await;
    includes(crm, report).await;
    paths(crm, report).await;
    answers(crm, report).await;
}

/// Refused keys, and the scope that each endpoint needs.
async fn keys(crm: &Crm, report: &mut Report) {
    for (method, path, scope) in ENDPOINTS {
        let case = async {
            crm.send(crm.request(method, path)).await?.refused(401)?;
            Ok(())
        };
        report.any(&format!("{method} {path} needs a key"), case).await;
        let case = async {
            let others: Vec<&str> = SCOPES.into_iter().filter(|s| s != scope).collect();
            let key = crm.sandbox().add_key(&others);
            let answer = crm.send(crm.request(method, path).bearer_auth(&key)).await?.refused(403)?;
            ensure!(answer.text.contains(scope), "the missing scope is not named: {}", answer.text);
            let key = crm.sandbox().add_key(&[scope]);
            let answer = crm.send(crm.request(method, path).bearer_auth(&key)).await?;
            ensure!(answer.status != 403, "refused with the scope");
            Ok(())
        };
        report.local(&format!("{method} {path} needs {scope}"), case).await;
    }
    let case = async {
        crm.get_as("crm_test_v1_wrong", "/contacts").await?.refused(401)?;
        Ok(())
    };
    report.any("an unknown key is refused", case).await;
    let case = async {
        let request = crm.request("GET", "/contacts").header("authorization", format!("Basic {}", crm.key));
        crm.send(request).await?.refused(401)?;
        Ok(())
    };
    report.any("the key must come as a bearer", case).await;
    let case = async {
        let key = crm.sandbox().full_key();
        ensure!(key.contains("v1_"), "no prefix: {key}");
        crm.get_as(&key, "/contacts").await?.must(200)?;
        crm.sandbox().revoke_key(&key);
        crm.get_as(&key, "/contacts").await?.refused(401)?;
        Ok(())
    };
    report.local("a revoked key is refused", case).await;
}

/// The scopes that `include` needs.
async fn includes(crm: &Crm, report: &mut Report) {
    for (name, path, scope) in [
        ("owner of a company list", "/companies?include=owner", "team-members:read"),
        ("contactSummary of a company list", "/companies?include=contactSummary", "contacts:read"),
        ("owner of a contact", "/contacts/nobody?include=owner", "team-members:read"),
        ("company of a contact", "/contacts/nobody?include=company", "companies:read"),
        ("contactSummary of a company", "/companies/nobody?include=contactSummary", "contacts:read"),
    ] {
        let case = async {
            let others: Vec<&str> = SCOPES.into_iter().filter(|s| *s != scope).collect();
            let key = crm.sandbox().add_key(&others);
            let answer = crm.get_as(&key, path).await?.refused(403)?;
            ensure!(answer.text.contains(scope), "the missing scope is not named: {}", answer.text);
            Ok(())
        };
        report.local(&format!("include {name} needs {scope}"), case).await;
    }
    let case = async {
        let key = crm.sandbox().add_key(&["companies:read"]);
        crm.get_as(&key, "/companies?include=fit,enrichment&limit=1").await?.must(200)?;
        Ok(())
    };
    report.local("old includes need no scope", case).await;
}

/// Paths and methods that do not exist.
async fn paths(crm: &Crm, report: &mut Report) {
    for path in ["/deals", "/contacts/a/b", "/team-members/a", "/custom-field-definitions/a", "/contacts/"] {
        let case = async {
            crm.get(path).await?.refused(404)?;
            Ok(())
        };
        report.any(&format!("there is no {path}"), case).await;
    }
    for path in ["/contacts/nobody", "/companies/nobody"] {
        let case = async {
            crm.get(path).await?.refused(404)?;
            Ok(())
        };
        report.any(&format!("there is no record {path}"), case).await;
    }
    for (method, path) in [("POST", "/contacts"), ("DELETE", "/contacts/a"), ("PATCH", "/team-members")] {
        let case = async {
            let answer = crm.send(crm.request(method, path).bearer_auth(&crm.key)).await?;
            ensure!([404, 405].contains(&answer.status), "got {}", answer.status);
            Ok(())
        };
        report.any(&format!("{method} {path} is no operation"), case).await;
    }
}

/// The headers and the cost of every answer.
async fn answers(crm: &Crm, report: &mut Report) {
    let case = async {
        let answer = crm.get("/contacts?limit=1").await?.must(200)?;
        let date = answer.header("date").and_then(crm_mirror::model::Instant::from_http_date);
        same("Date", date, Some(super::bench::at(super::bench::NOON)))
    };
    report.local("the Date header is the clock's", case).await;
    let case = async {
        let sandbox = crm.sandbox();
        sandbox.clear_log();
        crm.get("/contacts?limit=1").await?.must(200)?;
        crm.get("/companies?limit=0").await?.refused(400)?;
        crm.get("/contacts/nobody").await?.refused(404)?;
        let log = sandbox.log();
        same("RU", log.ru().get(), 1)?;
        let statuses: Vec<Option<u16>> = log.entries().iter().map(|e| e.status).collect();
        same("statuses", statuses, vec![Some(200), Some(400), Some(404)])
    };
    report.local("a GET costs 1 RU, a failure nothing", case).await;
}
