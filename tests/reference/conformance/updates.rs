//! Updates (reference, *PATCH /contacts/{id}*, *PATCH /companies/{id}*, *Errors*), each in its own small world.

use std::collections::BTreeSet;
use std::time::Duration;

use crm_mirror::model::{DataType, Object};
use crm_mirror::sandbox::{NewField, World};
use serde_json::{Value, json};

use super::bench::{Crm, Edit, Report, edit, same};
use super::update_tables::{bodies, values};
use crate::ensure;

const CONTACT: Object = Object::Contact;

fn one_of_each(world: &mut World) {
    for data_type in DataType::ALL {
        let key = data_type.as_str().to_lowercase();
        let field = NewField::new(CONTACT, &key, data_type);
        world.fields().define(if data_type.is_select() { field.options(&["x", "y", "z"]) } else { field });
    }
    world.fields().define(NewField::new(CONTACT, "fixed", DataType::ShortText));
    world.fields().redefine(CONTACT, "fixed", |field| field.writable = false);
    world.fields().define(NewField::new(CONTACT, "old", DataType::ShortText));
    world.fields().archive(CONTACT, "old");
    world.fields().define(NewField::new(Object::Company, "code", DataType::ShortText));
    let old = "2026-01-01T00:00:00.000Z";
    world.create(
        CONTACT,
        &json!({"id": "a", "email": "a@x.com", "position": "CTO", "language": "en", "notes": "old",
            "createdAt": old, "updatedAt": old}),
    );
    world.create(
        Object::Company,
        &json!({"id": "p", "industry": "Food", "customerFitScore": 0.5, "notes": "n", "updatedAt": old}),
    );
}

async fn small() -> Crm {
    Crm::with(one_of_each).await
}

fn etag(crm: &Crm, object: Object, id: &str) -> String {
    crm.sandbox().world().etag(object, id).unwrap()
}

fn detail(crm: &Crm, object: Object, id: &str) -> Value {
    crm.sandbox().world().detail_json(object, id).unwrap()
}

pub async fn run(crm: &Crm, report: &mut Report) {
    for (path, body) in [("/contacts/nobody", "{}"), ("/companies/nobody", "{}")] {
        let case = async {
            let request = crm
                .request("PATCH", path)
                .bearer_auth(&crm.key)
                .header("content-type", "application/json")
                .header("if-match", "\"x\"")
                .header("idempotency-key", "conformance-nobody")
                .body(body);
            crm.send(request).await?.refused(404)?;
            Ok(())
        };
        report.any(&format!("an update of {path} finds nothing"), case).await;
    }
    if !report.hand_made("updates") {
        return;
    }
    for (name, key, value, taken) in values() {
        let case = async {
            let crm = small().await;
            let tag = etag(&crm, CONTACT, "a");
            let answer = crm.patch(CONTACT, "a", edit(json!({"customFields": {key: value}}), &tag, "k")).await?;
            match taken {
                Some(read) => {
                    let answer = answer.must(200)?;
                    same("read back", &answer.json["data"]["customFields"][key], &read)?;
                    same("stored", &detail(&crm, CONTACT, "a")["customFields"][key], &read)
                }
                None => {
                    answer.refused(422)?;
                    same("etag", etag(&crm, CONTACT, "a"), tag)
                }
            }
        };
        report.local(&format!("custom value: {name}"), case).await;
    }
    for (name, object, body, status) in bodies() {
        let case = async {
            let crm = small().await;
            let id = if object == CONTACT { "a" } else { "p" };
            let before = detail(&crm, object, id);
            let tag = etag(&crm, object, id);
            let answer = crm.patch(object, id, edit(body, &tag, "k")).await?.refused(status)?;
            if name.contains("email") || name.contains("mobile") {
                ensure!(answer.text.contains("CONTACT_IDENTITY_READ_ONLY"), "no identifier in {}", answer.text);
            }
            same("the record", detail(&crm, object, id), before)
        };
        report.local(&format!("update refused: {name}"), case).await;
    }
    headers(report).await;
    replays(report).await;
    confirmations(report).await;
}

async fn headers(report: &mut Report) {
    let body = || json!({"position": "CEO"});
    for (name, if_match, key, status) in [
        ("no If-Match", None, Some("k"), 428),
        ("no Idempotency-Key", Some(""), None, 400),
        ("neither", None, None, 428),
        ("a stale If-Match", Some("\"2020-01-01T00:00:00.000Z\""), Some("k"), 412),
        ("an If-Match without its quotes", Some("2026"), Some("k"), 412),
    ] {
        let case = async {
            let crm = small().await;
            let tag = etag(&crm, CONTACT, "a");
            let edit = Edit {
                body: body(),
                if_match: if_match.map(|given| if given.is_empty() { tag.as_str() } else { given }),
                key,
                as_key: None,
            };
            crm.patch(CONTACT, "a", edit).await?.refused(status)?;
            same("etag", etag(&crm, CONTACT, "a"), tag)
        };
        report.local(&format!("update refused: {name}"), case).await;
    }
    let case = async {
        let crm = small().await;
        let tag = etag(&crm, CONTACT, "a");
        let request = crm
            .request("PATCH", "/contacts/a")
            .bearer_auth(&crm.key)
            .header("if-match", &tag)
            .header("idempotency-key", "k")
            .header("content-type", "text/plain")
            .body("{\"position\":\"CEO\"}");
        crm.send(request).await?.refused(400)?;
        let request = crm
            .request("PATCH", "/contacts/a")
            .bearer_auth(&crm.key)
            .header("if-match", &tag)
            .header("idempotency-key", "k")
            .header("content-type", "application/json; charset=utf-8")
            .body("{\"position\":");
        crm.send(request).await?.refused(400)?;
        Ok(())
    };
    report.local("update refused: no JSON", case).await;
    let case = async {
        let crm = small().await;
        let writer = crm.sandbox().add_key(&["contacts:write"]);
        let tag = etag(&crm, CONTACT, "a");
        let as_writer = |body, tag| Edit { body, if_match: Some(tag), key: Some("k"), as_key: Some(&writer) };
        let body = json!({"position": "CEO", "customFields": {"short_text": "x"}});
        crm.patch(CONTACT, "a", as_writer(body, &tag)).await?.must(200)?;
        crm.get_as(&writer, "/contacts/a").await?.refused(403)?;
        Ok(())
    };
    report.local("writing needs no reading, not of definitions either", case).await;
    let case = async {
        let crm = small().await;
        crm.sandbox().configure(|s| s.custom_fields_read_only = true);
        let tag = etag(&crm, CONTACT, "a");
        let custom = json!({"customFields": {"short_text": "x"}});
        crm.patch(CONTACT, "a", edit(custom, &tag, "k")).await?.refused(403)?;
        crm.patch(CONTACT, "a", edit(body(), &tag, "l")).await?.must(200)?;
        Ok(())
    };
    report.local("custom values need the plan's eligibility", case).await;
    let case = async {
        let crm = small().await;
        crm.sandbox().clear_log();
        let tag = etag(&crm, CONTACT, "a");
        crm.patch(CONTACT, "a", edit(body(), &tag, "k")).await?.must(200)?;
        crm.patch(CONTACT, "a", edit(body(), &tag, "l")).await?.refused(412)?;
        same("RU", crm.sandbox().log().ru().get(), 2)?;
        same("updates", crm.sandbox().log().patches(CONTACT), 2)
    };
    report.local("a PATCH costs 2 RU, a refused one nothing", case).await;
}

async fn replays(report: &mut Report) {
    let body = |position: &str| json!({"position": position});
    let case = async {
        let crm = small().await;
        let tag = etag(&crm, CONTACT, "a");
        let first = crm.patch(CONTACT, "a", edit(body("CEO"), &tag, "k")).await?.must(200)?;
        same("first", first.header("idempotent-replayed"), Some("false"))?;
        let later = etag(&crm, CONTACT, "a");
        crm.patch(CONTACT, "a", edit(body("CFO"), &later, "l")).await?.must(200)?;
        let again = crm.patch(CONTACT, "a", edit(body("CEO"), &tag, "k")).await?.must(200)?;
        same("again", again.header("idempotent-replayed"), Some("true"))?;
        same("answer", &again.text, &first.text)?;
        same("ETag", again.header("etag"), first.header("etag"))?;
        same("position", detail(&crm, CONTACT, "a")["position"].as_str(), Some("CFO"))
    };
    report.local("the same update again gets the stored answer", case).await;
    for (name, change) in [
        ("body", (|e: &mut Edit<'_>| e.body = json!({"position": "COO"})) as fn(&mut Edit<'_>)),
        ("If-Match", |e| e.if_match = Some("\"other\"")),
    ] {
        let case = async {
            let crm = small().await;
            let tag = etag(&crm, CONTACT, "a");
            let mut update = edit(body("CEO"), &tag, "k");
            crm.patch(CONTACT, "a", update.clone()).await?.must(200)?;
            change(&mut update);
            crm.patch(CONTACT, "a", update).await?.refused(409)?;
            same("position", detail(&crm, CONTACT, "a")["position"].as_str(), Some("CEO"))
        };
        report.local(&format!("a key with another {name} is a conflict"), case).await;
    }
    let case = async {
        let crm = small().await;
        let tag = etag(&crm, CONTACT, "a");
        crm.patch(CONTACT, "a", edit(body("CEO"), &tag, "k")).await?.must(200)?;
        let other = etag(&crm, Object::Company, "p");
        crm.patch(Object::Company, "p", edit(json!({"industry": "x"}), &other, "k")).await?.refused(409)?;
        Ok(())
    };
    report.local("a key with another record is a conflict", case).await;
    let case = async {
        let crm = small().await;
        let tag = etag(&crm, CONTACT, "a");
        crm.patch(CONTACT, "a", edit(body("CEO"), &tag, "k")).await?.must(200)?;
        crm.clock.advance(Duration::from_secs(24 * 3600 - 1));
        let again = crm.patch(CONTACT, "a", edit(body("CEO"), &tag, "k")).await?.must(200)?;
        same("within a day", again.header("idempotent-replayed"), Some("true"))?;
        crm.clock.advance(Duration::from_secs(1));
        crm.patch(CONTACT, "a", edit(body("CEO"), &tag, "k")).await?.refused(412)?;
        Ok(())
    };
    report.local("a stored answer is kept for 24 hours", case).await;
    let case = async {
        let crm = small().await;
        crm.patch(CONTACT, "a", edit(body("CEO"), "\"stale\"", "k")).await?.refused(412)?;
        let tag = etag(&crm, CONTACT, "a");
        let answer = crm.patch(CONTACT, "a", edit(body("CEO"), &tag, "k")).await?.must(200)?;
        same("first", answer.header("idempotent-replayed"), Some("false"))
    };
    report.local("a refused update is not stored", case).await;
}

async fn confirmations(report: &mut Report) {
    compact_answers(report).await;
    echoes(report).await;
}

/// The effects of an update and the content of its confirmation.
async fn compact_answers(report: &mut Report) {
    let case = async {
        let crm = small().await;
        crm.clock.advance(Duration::from_secs(60));
        let tag = etag(&crm, CONTACT, "a");
        let answer = crm.patch(CONTACT, "a", edit(json!({"position": null}), &tag, "k")).await?.must(200)?;
        let data = &answer.json["data"];
        ensure!(data["position"].is_null(), "null does not clear");
        same("updatedAt", data["updatedAt"].as_str(), Some("2026-03-01T12:01:00.000Z"))?;
        ensure!(data["etag"] != tag.as_str(), "the etag stayed");
        same("ETag", answer.header("etag"), data["etag"].as_str())?;
        same("email", data["email"].as_str(), Some("a@x.com"))?;
        let now = detail(&crm, CONTACT, "a");
        same("language", now["language"].as_str(), Some("en"))?;
        let second = etag(&crm, CONTACT, "a");
        crm.patch(CONTACT, "a", edit(json!({"position": "CEO"}), &second, "l")).await?.must(200)?;
        ensure!(etag(&crm, CONTACT, "a") != second, "the etag stayed within one tick");
        Ok(())
    };
    report.local("an update moves updatedAt and etag and leaves the rest", case).await;
    let case = async {
        let crm = small().await;
        let tag = etag(&crm, CONTACT, "a");
        let answer = crm.patch(CONTACT, "a", edit(json!({"position": "x"}), &tag, "k")).await?.must(200)?;
        let data = &answer.json["data"];
        for name in ["notes", "notesAt", "language", "timezone", "industry", "score", "consentUpdatedAt"] {
            ensure!(data.get(name).is_none(), "{name} was not submitted");
        }
        let keys: BTreeSet<&String> = data["customFields"].as_object().into_iter().flatten().map(|(k, _)| k).collect();
        same("custom keys", keys.len(), DataType::ALL.len() + 1)?;
        ensure!(keys.contains(&"long_text".to_string()), "no long text");
        for name in ["id", "name", "location", "createdAt", "intentLevel"] {
            ensure!(data.get(name).is_some(), "no {name}");
        }
        Ok(())
    };
    report.local("a contact's confirmation is compact", case).await;
}

/// What a confirmation contains and what remains unchanged.
async fn echoes(report: &mut Report) {
    let case = async {
        let crm = small().await;
        let tag = etag(&crm, CONTACT, "a");
        let body = json!({"notes": "n", "language": "de", "timezone": "UTC", "industry": "Food"});
        let answer = crm.patch(CONTACT, "a", edit(body.clone(), &tag, "k")).await?.must(200)?;
        for (name, value) in body.as_object().into_iter().flatten() {
            same(name, &answer.json["data"][name], value)?;
        }
        let now = detail(&crm, CONTACT, "a");
        same("notes", now["notes"].as_str(), Some("n"))?;
        same("notesAt", now["notesAt"].as_str(), Some("2026-03-01T12:00:00.000Z"))
    };
    report.local("submitted notes, language, timezone and industry are echoed", case).await;
    let case = async {
        let crm = small().await;
        let tag = etag(&crm, Object::Company, "p");
        let body = json!({"industry": "Media", "customFields": {"code": "C-1"}});
        let answer = crm.patch(Object::Company, "p", edit(body, &tag, "k")).await?.must(200)?;
        let data = &answer.json["data"];
        same("industry", data["industry"].as_str(), Some("Media"))?;
        same("code", data["customFields"]["code"].as_str(), Some("C-1"))?;
        for name in ["customerFitScore", "customerFitScoreReason", "notes", "related"] {
            ensure!(data.get(name).is_none(), "{name} in a company's confirmation");
        }
        let now = detail(&crm, Object::Company, "p");
        same("fit", now["customerFitScore"].as_f64(), Some(0.5))
    };
    report.local("a company's confirmation has no fit data", case).await;
    let case = async {
        let crm = small().await;
        let tag = etag(&crm, CONTACT, "a");
        let body = json!({"customFields": {"short_text": "x", "decimal": "1.50"}});
        crm.patch(CONTACT, "a", edit(body, &tag, "k")).await?.must(200)?;
        let tag = etag(&crm, CONTACT, "a");
        let body = json!({"customFields": {"short_text": null}});
        crm.patch(CONTACT, "a", edit(body, &tag, "l")).await?.must(200)?;
        let custom = detail(&crm, CONTACT, "a")["customFields"].clone();
        ensure!(custom["short_text"].is_null(), "null does not clear");
        let kept = custom["decimal"].as_str().unwrap_or_default();
        ensure!(crm_mirror::model::decimal::same_number(kept, "1.5"), "decimal is {kept}");
        Ok(())
    };
    report.local("omitted custom keys stay unchanged", case).await;
}
