//! The fields of each answer (reference, *Resources and their fields*, *Projections by response*).

use std::collections::BTreeSet;

use crm_mirror::model::{DataType, FieldProjection, Object, Resource};
use crm_mirror::sandbox::{NewField, World};
use serde_json::{Value, json};

use super::bench::{Crm, Report, encoded, same};
use crate::ensure;

fn names(value: &Value) -> BTreeSet<String> {
    value.as_object().map(|o| o.keys().cloned().collect()).unwrap_or_default()
}

/// The top-level names of an answer according to the catalogue.
fn expected(resource: Resource, detail: bool) -> BTreeSet<String> {
    let shown = resource.fields().iter().filter(|f| match f.projection {
        FieldProjection::List => true,
        FieldProjection::Detail => detail,
        FieldProjection::FilterOnly => false,
    });
    let mut names: BTreeSet<String> = shown.map(|f| f.wire.split('.').next().unwrap().to_string()).collect();
    match resource {
        Resource::CustomFields => names.insert("options".into()),
        Resource::TeamMembers => false,
        _ => names.insert("customFields".into()),
    };
    names
}

fn odd(world: &mut World) {
    for (key, data_type) in [
        ("short", DataType::ShortText),
        ("long", DataType::LongText),
        ("dec", DataType::Decimal),
        ("old", DataType::ShortText),
        ("he said \"hi\"", DataType::ShortText),
    ] {
        world.fields().define(NewField::new(Object::Contact, key, data_type));
    }
    world.fields().define(NewField::new(Object::Contact, "pick", DataType::SingleSelect).options(&["v=Label"]));
    world.create(Resource::TeamMembers, &json!({"id": "m", "firstName": "Ann", "status": "ACTIVE"}));
    world.create(Object::Company, &json!({"id": "p", "name": "P", "ownerId": "m"}));
    world.create(
        Object::Contact,
        &json!({"id": "a", "ownerId": "m", "companyId": "p", "location": {"city": "Ikeja"}, "etag": "\"odd \\ etag\"",
            "customFields": {"short": "S", "long": "L", "dec": "1.10", "old": "O"}, "xNew": [1, 2]}),
    );
    world.create(Object::Contact, &json!({"id": "b/ä ?", "companyId": "p"}));
    world.fields().archive(Object::Contact, "old");
}

pub async fn run(crm: &Crm, report: &mut Report) {
    fields(crm, report).await;
    includes(crm, report).await;
}

/// The fields of each projection.
async fn fields(crm: &Crm, report: &mut Report) {
    for (path, resource) in [
        ("/contacts?limit=5", Resource::Contacts),
        ("/companies?limit=5", Resource::Companies),
        ("/custom-field-definitions?objectType=contact", Resource::CustomFields),
    ] {
        let case = async {
            for row in crm.get(path).await?.must(200)?.rows() {
                same("names", names(row), expected(resource, false))?;
            }
            Ok(())
        };
        report.any(&format!("list items of {path} have just their fields"), case).await;
    }
    for object in Object::ALL {
        let path = object.resource().path();
        let case = async {
            let list = crm.get(&format!("{path}?limit=3")).await?.must(200)?;
            for row in list.rows() {
                let id = encoded(row["id"].as_str().unwrap_or_default());
                let detail = crm.get(&format!("{path}/{id}")).await?.must(200)?;
                let data = &detail.json["data"];
                same("names", names(data), expected(object.resource(), true))?;
                for name in expected(object.resource(), false) {
                    if name != "customFields" {
                        ensure!(data[&name] == row[&name], "{name} differs between list and detail");
                    }
                }
                for (key, value) in row["customFields"].as_object().into_iter().flatten() {
                    ensure!(data["customFields"][key] == *value, "{key} differs between list and detail");
                }
                let etag = detail.header("etag").map(String::from);
                same("ETag", etag.as_deref(), data["etag"].as_str())?;
                let etag = etag.unwrap_or_default();
                ensure!(etag.len() > 2 && etag.starts_with('"') && etag.ends_with('"'), "no quotes: {etag}");
            }
            Ok(())
        };
        report.any(&format!("a {object} detail is its list item and more"), case).await;
        let case = async {
            let definitions = format!("/custom-field-definitions?limit=100&objectType={object}");
            let (mut every, mut listed) = (BTreeSet::new(), BTreeSet::new());
            for page in crm.pages(&definitions).await? {
                for definition in page.rows() {
                    same("objectType", definition["objectType"].as_str(), Some(object.as_str()))?;
                    same("status", definition["status"].as_str(), Some("ACTIVE"))?;
                    let key = definition["key"].as_str().unwrap_or_default().to_string();
                    if definition["dataType"] != "LONG_TEXT" {
                        listed.insert(key.clone());
                    }
                    every.insert(key);
                }
            }
            let list = crm.get(&format!("{path}?limit=2")).await?.must(200)?;
            for row in list.rows() {
                same("keys of a list item", names(&row["customFields"]), listed.clone())?;
                let id = encoded(row["id"].as_str().unwrap_or_default());
                let detail = crm.get(&format!("{path}/{id}")).await?.must(200)?;
                same("keys of a detail", names(&detail.json["data"]["customFields"]), every.clone())?;
            }
            Ok(())
        };
        report.any(&format!("a {object} has every active key, long texts in details"), case).await;
        let case = async {
            let archived = format!("/custom-field-definitions?status=ARCHIVED&objectType={object}");
            for row in crm.get(&archived).await?.must(200)?.rows() {
                same("status", row["status"].as_str(), Some("ARCHIVED"))?;
                ensure!(row["archivedAt"].is_string(), "no archivedAt");
            }
            Ok(())
        };
        report.any(&format!("archived {object} definitions are listed apart"), case).await;
    }
}

/// The effects of `include` and other parameters of a detail.
async fn includes(crm: &Crm, report: &mut Report) {
    for alias in ["profile", "notes", "insights", "engagement", "enrichment", "consent", "contactability"] {
        let case = async {
            let row = crm.get("/contacts?limit=1").await?.must(200)?.ids().remove(0);
            let plain = crm.get(&format!("/contacts/{}", encoded(&row))).await?.must(200)?;
            let aliased = crm.get(&format!("/contacts/{}?include={alias}", encoded(&row))).await?.must(200)?;
            same("detail", aliased.text, plain.text)
        };
        report.any(&format!("include={alias} adds nothing to a contact"), case).await;
    }
    for (path, parameter) in [
        ("/contacts/nobody?include=contactSummary", "include"),
        ("/companies/nobody?include=company", "include"),
        ("/contacts/nobody?limit=1", "limit"),
        ("/contacts/nobody?include=owner&include=company", "include"),
    ] {
        let case = async {
            let answer = crm.get(path).await?.refused(400)?;
            ensure!(answer.has_complaint_about(parameter), "no complaint about {parameter}");
            Ok(())
        };
        report.any(&format!("a detail refuses {path}"), case).await;
    }
    let case = async {
        for page in crm.pages("/team-members?limit=100").await? {
            for row in page.rows() {
                ensure!(row["id"].is_string() && row["status"].is_string(), "odd team member {row}");
            }
        }
        Ok(())
    };
    report.any("team members have an id and a status", case).await;
    if report.hand_made("projections of odd records") {
        local(report).await;
    }
}

async fn local(report: &mut Report) {
    let crm = Crm::with(odd).await;
    odd_records(&crm, report).await;
    related(&crm, report).await;
    versions(&crm, report).await;
}

/// Records with unusual values.
async fn odd_records(crm: &Crm, report: &mut Report) {
    let case = async {
        let detail = crm.get("/contacts/a").await?.must(200)?;
        let custom = &detail.json["data"]["customFields"];
        let wanted = json!({"short": "S", "long": "L", "dec": "1.10", "he said \"hi\"": null, "pick": null});
        same("customFields", custom.clone(), wanted)
    };
    report.local("a detail has every active key, null for a missing value", case).await;
    let case = async {
        let list = crm.get("/contacts?filter[id]=a").await?.must(200)?;
        let custom = &list.rows()[0]["customFields"];
        same("customFields", custom.clone(), json!({"short": "S", "dec": "1.10", "he said \"hi\"": null, "pick": null}))
    };
    report.local("a list item leaves long texts and archived keys out", case).await;
    let case = async {
        let detail = crm.get("/contacts/a").await?.must(200)?;
        let data = &detail.json["data"];
        same("location", data["location"].clone(), json!({"country": null, "region": null, "city": "Ikeja"}))?;
        same("unknown field", data["xNew"].clone(), json!([1, 2]))?;
        same("etag", detail.header("etag"), Some("\"odd \\ etag\""))
    };
    report.local("location is nested, unknown fields and odd etags come out", case).await;
    let case = async {
        let detail = crm.get(&format!("/contacts/{}", encoded("b/ä ?"))).await?.must(200)?;
        same("id", detail.json["data"]["id"].as_str(), Some("b/ä ?"))
    };
    report.local("an id may hold any character", case).await;
}

/// Related records and contact summaries.
async fn related(crm: &Crm, report: &mut Report) {
    let case = async {
        let detail = crm.get("/contacts/a?include=company,owner").await?.must(200)?;
        let related = &detail.json["data"]["related"];
        same("company", related["company"]["id"].as_str(), Some("p"))?;
        same("owner", related["owner"]["id"].as_str(), Some("m"))?;
        let plain = crm.get("/contacts/a").await?.must(200)?;
        ensure!(plain.json["data"].get("related").is_none(), "related unasked");
        Ok(())
    };
    report.local("related records on request", case).await;
    let case = async {
        let list = crm.get("/companies?include=owner,contactSummary").await?.must(200)?;
        let row = &list.rows()[0];
        same("owner", row["related"]["owner"]["id"].as_str(), Some("m"))?;
        same("contacts", row["contactSummary"]["total"].as_u64(), Some(2))?;
        ensure!(row.get("customerFitScoreReason").is_none(), "a fit reason in a list");
        Ok(())
    };
    report.local("a company list expands owner and contactSummary", case).await;
    let case = async {
        let world = |crm: &Crm, raw: &[(&str, &str)]| {
            for (wire, source) in raw {
                crm.sandbox().world().set_raw(Object::Contact, "a", wire, source);
            }
        };
        world(
            crm,
            &[
                ("name", r#""\ud800""#),
                ("qualification", "1180591620717411303424"),
                ("customFields.dec", "1.10"),
                ("location.city", "[1.10]"),
                ("zNew", "1e400"),
            ],
        );
        crm.sandbox().world().leave_out(Object::Contact, "a", "id");
        let text = crm.get("/contacts?filter[id]=a").await?.must(200)?.text;
        for part in [
            r#""name":"\ud800""#,
            r#""qualification":1180591620717411303424"#,
            r#""dec":1.10"#,
            r#""city":[1.10]"#,
            r#""zNew":1e400"#,
        ] {
            ensure!(text.contains(part), "no {part} in {text}");
        }
        ensure!(!text.contains(r#""id":"a""#), "the id is still there");
        crm.sandbox().world().clear_raw(Object::Contact, "a");
        let healed = crm.get("/contacts?filter[id]=a").await?.must(200)?;
        same("id", healed.ids(), vec!["a".to_string()])
    };
    report.local("answers say what a test makes them say, byte for byte", case).await;
}

/// Definitions, and the changes that move an etag.
async fn versions(crm: &Crm, report: &mut Report) {
    let case = async {
        let sandbox = crm.sandbox();
        let definition = crm.get("/custom-field-definitions?objectType=contact").await?.must(200)?;
        let pick = definition.rows().iter().find(|d| d["key"] == "pick").cloned().unwrap_or_default();
        same("options", pick["options"].clone(), json!([{"value": "v", "label": "Label"}]))?;
        same("operators", pick["allowedOperators"].clone(), json!(["eq", "in", "isNull"]))?;
        sandbox.world().fields().redefine(Object::Contact, "pick", |d| d.label = "Choice".into());
        let again = crm.get("/custom-field-definitions?objectType=contact").await?.must(200)?;
        let relabelled = again.rows().iter().any(|d| d["key"] == "pick" && d["label"] == "Choice");
        ensure!(relabelled, "the label did not change");
        Ok(())
    };
    report.local("definitions show options, operators and labels", case).await;
    let case = async {
        let sandbox = crm.sandbox();
        let etag = || sandbox.world().etag(Object::Company, "p").unwrap();
        let mut seen = BTreeSet::from([etag()]);
        for n in 0..5 {
            sandbox.world().edit(Object::Company, "p", &json!({"name": format!("P{n}")}));
            ensure!(seen.insert(etag()), "an etag came twice within one tick");
        }
        sandbox.world().edit_silently(Object::Company, "p", &json!({"name": "quiet"}));
        ensure!(!seen.insert(etag()), "a silent edit moved the etag");
        let detail = crm.get("/companies/p").await?.must(200)?;
        same("name", detail.json["data"]["name"].as_str(), Some("quiet"))
    };
    report.local("every edit moves the etag, a silent one does not", case).await;
    let case = async {
        let sandbox = crm.sandbox();
        for object in Object::ALL {
            for id in sandbox.with_world(|w| w.ids(object.resource())) {
                let wanted = sandbox.world().detail_text(object, &id).unwrap();
                let path = format!("{}/{}", object.resource().path(), encoded(&id));
                let got = crm.get(&path).await?.must(200)?.text;
                same("detail", got, format!("{{\"data\":{wanted}}}"))?;
            }
        }
        Ok(())
    };
    report.local("the world tells a test what an answer says", case).await;
}
