//! Filters and search: the rows that each operator finds, in a world with known answers.

use crm_mirror::model::{DataType, Object, Op};
use crm_mirror::sandbox::{NewField, World};
use serde_json::{Value, json};

use super::bench::{Crm, Report, same, text};
use crate::ensure;

fn known(world: &mut World) {
    let contact = Object::Contact;
    for (key, data_type) in [
        ("short", DataType::ShortText),
        ("long", DataType::LongText),
        ("int", DataType::Integer),
        ("dec", DataType::Decimal),
        ("flag", DataType::Boolean),
        ("day", DataType::Date),
        ("moment", DataType::DateTime),
        ("a key", DataType::ShortText),
        ("gone", DataType::ShortText),
    ] {
        world.fields().define(NewField::new(contact, key, data_type));
    }
    world.fields().define(NewField::new(contact, "tier", DataType::SingleSelect).options(&["gold", "silver"]));
    world.fields().define(NewField::new(contact, "topics", DataType::MultiSelect).options(&["x", "y", "z"]));
    world.fields().define(NewField::new(contact, "closed", DataType::ShortText).operators(&[]));
    world.fields().define(NewField::new(contact, "narrow", DataType::Integer).operators(&[Op::Eq]));
    world.fields().define(NewField::new(Object::Company, "other", DataType::ShortText));
    world.create(
        contact,
        &json!({
            "id": "a", "name": "Zoë Álvarez", "firstName": "Zoë", "lastName": "Álvarez", "email": "zoe@x.com",
            "mobile": "+44123", "position": "Head of Data", "company": "Ærø Ltd", "companyId": "p", "ownerId": "m1",
            "qualification": true, "intentLevel": "HIGH", "enrichmentStatus": "completed", "industry": "Food, Drink",
            "notes": "secret words", "location": {"country": "DE"},
            "createdAt": "2026-01-01T00:00:00.000Z", "updatedAt": "2026-01-05T00:00:00.000Z",
            "lastInteractionAt": "2026-01-03T10:00:00.500Z",
            "customFields": {"short": "S", "long": "L", "int": 10, "dec": "1.50", "flag": true, "day": "2026-02-01",
                "moment": "2026-02-01T00:00:00.000Z", "a key": "k", "gone": "g", "tier": "gold", "topics": ["x", "y"],
                "narrow": 1},
        }),
    );
    world.create(
        contact,
        &json!({
            "id": "b", "name": "Bob", "email": "ZOE@x.com", "position": "data clerk", "qualification": false,
            "intentLevel": "LOW", "industry": "Food", "location": {"country": "Germany"},
            "createdAt": "2026-01-02T00:00:00.000Z", "updatedAt": "2026-01-05T00:00:00.000Z",
            "customFields": {"short": "s", "int": 9, "dec": "99999999999999999999.9999999999", "flag": false,
                "day": "2026-01-31", "moment": "2026-01-31T23:00:00.000Z", "tier": "silver", "topics": ["z"]},
        }),
    );
    world.create(
        contact,
        &json!({"id": "c", "createdAt": null, "updatedAt": "2026-01-06T00:00:00.000Z", "customFields": {"dec": "-3"}}),
    );
    for (id, domain, website, employees, fit) in [
        ("p", json!("example.com"), Value::Null, json!(10), json!(0.75)),
        ("q", json!("sales.example.com"), Value::Null, json!(9), json!(75)),
        ("r", Value::Null, json!("https://www.Web.org/about?x"), Value::Null, Value::Null),
    ] {
        world.create(
            Object::Company,
            &json!({"id": id, "name": format!("Firm {id}"), "registeredName": "Firm Ltd", "domain": domain,
                "websiteUrl": website, "employeeCount": employees, "customerFitScore": fit, "notes": "hidden"}),
        );
    }
    for (id, status) in [("m1", "ACTIVE"), ("m2", "PENDING"), ("m3", "ACTIVE")] {
        world.create(
            crm_mirror::model::Resource::TeamMembers,
            &json!({"id": id, "firstName": "Tea", "username": format!("user-{id}"), "status": status}),
        );
    }
    world.fields().archive(contact, "gone");
}

/// A path and the ids found, in ascending order.
const FOUND: &[(&str, &str)] = &[
    ("/contacts?filter[id]=a", "a"),
    ("/contacts?filter[id][eq]=a", "a"),
    ("/contacts?filter[id][in]=c,a,nobody,a", "a c"),
    ("/contacts?filter[id][isNull]=true", ""),
    ("/contacts?filter[id][isNull]=false", "a b c"),
    ("/contacts?filter[email]=zoe@x.com", "a"),
    ("/contacts?filter[email][in]=zoe@x.com,ZOE@x.com", "a b"),
    ("/contacts?filter[email][isNull]=true", "c"),
    ("/contacts?filter[mobile]=%2B44123", "a"),
    ("/contacts?filter[companyId]=p", "a"),
    ("/contacts?filter[ownerId][isNull]=false", "a"),
    ("/contacts?filter[qualification]=true", "a"),
    ("/contacts?filter[qualification]=false", "b"),
    ("/contacts?filter[qualification][isNull]=true", "c"),
    ("/contacts?filter[intentLevel][in]=HIGH,LOW", "a b"),
    ("/contacts?filter[enrichmentStatus]=completed", "a"),
    ("/contacts?filter[country]=DE", "a"),
    ("/contacts?filter[country]=Germany", "b"),
    ("/contacts?filter[industry]=Food", "b"),
    ("/contacts?filter[industry]=Food,%20Drink", "a"),
    ("/contacts?filter[industry][in]=Food,%20Drink", "b"),
    ("/contacts?filter[position]=data%20clerk", "b"),
    ("/contacts?filter[position][contains]=data", "a b"),
    ("/contacts?filter[position][contains]=of+D", "a"),
    ("/contacts?filter[position][isNull]=true", "c"),
    ("/contacts?filter[createdAt]=2026-01-01T00:00:00Z", "a"),
    ("/contacts?filter[createdAt]=2026-01-01T01:00:00%2B01:00", "a"),
    ("/contacts?filter[createdAt][gt]=2026-01-01T00:00:00Z", "b"),
    ("/contacts?filter[createdAt][gte]=2026-01-01T00:00:00Z", "a b"),
    ("/contacts?filter[createdAt][lt]=2026-01-02T00:00:00Z", "a"),
    ("/contacts?filter[createdAt][lte]=2026-01-02T00:00:00Z", "a b"),
    ("/contacts?filter[createdAt][isNull]=true", "c"),
    ("/contacts?filter[updatedAt][gt]=2026-01-04T23:59:59.999Z&filter[updatedAt][lt]=2026-01-06T00:00:00Z", "a b"),
    ("/contacts?filter[updatedAt][gt]=2026-01-05T00:00:00Z&sort=updatedAt", "c"),
    ("/contacts?filter[updatedAt][lte]=2026-01-05T00:00:00Z&sort=-updatedAt", "a b"),
    ("/contacts?filter[lastInteractionAt][gte]=2026-01-03T10:00:00.5Z", "a"),
    ("/contacts?filter[lastInteractionAt][gt]=2026-01-03T10:00:00.5Z", ""),
    ("/contacts?filter[country]=DE&filter[qualification]=false", ""),
    ("/contacts?q=zo%C3%AB", "a"),
    ("/contacts?q=%C3%81LVAREZ", "a"),
    ("/contacts?q=x.COM", "a b"),
    ("/contacts?q=4412", "a"),
    ("/contacts?q=%C3%A6r%C3%B8", "a"),
    ("/contacts?q=clerk", "b"),
    ("/contacts?q=secret", ""),
    ("/contacts?q=food", ""),
    ("/contacts?q=zo%C3%AB&filter[qualification]=false", ""),
    ("/contacts?filter[customFields.short]=S", "a"),
    ("/contacts?filter[customFields.short][in]=S,s", "a b"),
    ("/contacts?filter[customFields.short][isNull]=true", "c"),
    ("/contacts?filter[customFields.long][isNull]=false", "a"),
    ("/contacts?filter[customFields.int]=10", "a"),
    ("/contacts?filter[customFields.int][lt]=10", "b"),
    ("/contacts?filter[customFields.int][gte]=9", "a b"),
    ("/contacts?filter[customFields.dec]=1.5", "a"),
    ("/contacts?filter[customFields.dec][lt]=99999999999999999999.9999999998", "a c"),
    ("/contacts?filter[customFields.dec][lt]=99999999999999999999.9999999999", "a c"),
    ("/contacts?filter[customFields.dec][eq]=99999999999999999999.9999999999", "b"),
    ("/contacts?filter[customFields.dec][eq]=99999999999999999999", ""),
    ("/contacts?filter[customFields.dec][gt]=99999999999999999999.9999999998", "b"),
    ("/contacts?filter[customFields.dec][gt]=99999999999999999999.9999999999", ""),
    ("/contacts?filter[customFields.dec][gte]=99999999999999999999.9999999999", "b"),
    ("/contacts?filter[customFields.dec][lte]=-3.000", "c"),
    ("/contacts?filter[customFields.flag]=false", "b"),
    ("/contacts?filter[customFields.day][gte]=2026-02-01", "a"),
    ("/contacts?filter[customFields.day][lt]=2026-02-01", "b"),
    ("/contacts?filter[customFields.moment][lt]=2026-02-01T00:30:00%2B01:00", "b"),
    ("/contacts?filter[customFields.a%20key]=k", "a"),
    ("/contacts?filter[customFields.tier][in]=gold,silver", "a b"),
    ("/contacts?filter[customFields.topics][hasAny]=y,z", "a b"),
    ("/contacts?filter[customFields.topics][hasAny]=x", "a"),
    ("/contacts?filter[customFields.topics][isNull]=true", "c"),
    ("/contacts?filter[customFields.narrow]=1", "a"),
    ("/contacts?filter[customFields.short]=S&filter[customFields.int]=10&filter[customFields.flag]=true", "a"),
    ("/companies?filter[domain]=example.com", "p"),
    ("/companies?filter[domain]=www.example.com", "p"),
    ("/companies?filter[domain]=WWW.Example.COM", "p"),
    ("/companies?filter[domain]=sales.example.com", "q"),
    ("/companies?filter[domain][in]=web.org,www.sales.example.com", "q r"),
    ("/companies?filter[employeeCount][gt]=9", "p"),
    ("/companies?filter[employeeCount][isNull]=true", "r"),
    ("/companies?filter[customerFitScore]=0.750", "p"),
    ("/companies?filter[customerFitScore][gt]=1", "q"),
    ("/companies?filter[customerFitScore][isNull]=false", "p q"),
    ("/companies?q=firm%20p", "p"),
    ("/companies?q=FIRM%20LTD", "p q r"),
    ("/companies?q=example.com", "p q"),
    ("/companies?q=/about", "r"),
    ("/companies?q=hidden", ""),
    ("/team-members?filter[status]=ACTIVE", "m1 m3"),
    ("/team-members?filter[status][in]=PENDING,SUSPENDED", "m2"),
    ("/team-members?filter[status][isNull]=true", ""),
    ("/team-members?q=USER-M2", "m2"),
    ("/team-members?q=tea", "m1 m2 m3"),
];

/// Custom filters that are refused, with the name in the complaint.
const REFUSED: &[(&str, &str)] = &[
    ("an archived field", "filter[customFields.gone]=g"),
    ("a field that is not filterable", "filter[customFields.closed]=a"),
    ("an operator that the definition lacks", "filter[customFields.narrow][gt]=1"),
    ("an operator that the type lacks", "filter[customFields.short][contains]=a"),
    ("eq on a long text", "filter[customFields.long]=L"),
    ("eq on a multi-select", "filter[customFields.topics]=x"),
    ("a field of the other object", "filter[customFields.other]=a"),
    ("a key in another case", "filter[customFields.SHORT]=S"),
    ("a fraction for an integer", "filter[customFields.int]=1.5"),
    ("a word for a decimal", "filter[customFields.dec]=much"),
    ("an exponent for a decimal", "filter[customFields.dec][gt]=1e3"),
    ("a date that is none", "filter[customFields.day]=2026-02-29"),
    ("a date in another form", "filter[customFields.day]=01.02.2026"),
    ("a timestamp for a date", "filter[customFields.day]=2026-02-01T00:00:00Z"),
    ("a date for a timestamp", "filter[customFields.moment][gt]=2026-02-01"),
    ("a number for a boolean", "filter[customFields.flag]=1"),
];

pub async fn run(crm: &Crm, report: &mut Report) {
    small_world(report).await;
    any_world(crm, report).await;
}

/// A small world with known answers.
async fn small_world(report: &mut Report) {
    if report.hand_made("filters in a world where every answer is known") {
        let small = Crm::with(known).await;
        for (path, ids) in FOUND {
            let case = async {
                let mut found = small.all(path).await?;
                found.sort();
                same("ids", found.join(" "), ids.to_string())?;
                let counted = small.get(&format!("{path}&count=exact&limit=1")).await?.must(200)?;
                same("total", counted.json["total"].as_u64(), Some(found.len() as u64))
            };
            report.local(&format!("finds: {path}"), case).await;
        }
        for (name, filter) in REFUSED {
            let case = async {
                small.get(&format!("/contacts?{filter}")).await?.refused(400)?;
                Ok(())
            };
            report.local(&format!("custom filter refused: {name}"), case).await;
        }
        let case = async {
            let four = "filter[customFields.short]=S&filter[customFields.int]=1&filter[customFields.flag]=true";
            small.get(&format!("/contacts?{four}")).await?.must(200)?;
            small.get(&format!("/contacts?{four}&filter[customFields.narrow]=1")).await?.refused(400)?;
            Ok(())
        };
        report.local("at most three custom predicates", case).await;
        let case = async {
            let path = "/contacts?filter[customFields.gone]=g";
            small.get(path).await?.refused(400)?;
            small.sandbox().world().fields().reactivate(Object::Contact, "gone");
            let found = small.get(path).await?.must(200)?.ids();
            small.sandbox().world().fields().archive(Object::Contact, "gone");
            same("ids", found, vec!["a".to_string()])
        };
        report.local("a reactivated field can be filtered by again", case).await;
    }
}

/// Rules for every world.
async fn any_world(crm: &Crm, report: &mut Report) {
    for (path, field, test) in [
        ("/contacts?limit=100&filter[qualification]=true", "qualification", (|v| *v == true) as fn(&Value) -> bool),
        ("/contacts?limit=100&filter[email][isNull]=true", "email", Value::is_null),
        ("/contacts?limit=100&filter[enrichmentStatus][in]=pending,failed", "enrichmentStatus", |v| {
            *v == "pending" || *v == "failed"
        }),
        ("/companies?limit=100&filter[employeeCount][gte]=100", "employeeCount", |v| {
            v.as_i64().is_some_and(|n| n >= 100)
        }),
        ("/companies?limit=100&filter[yearFounded][lt]=1950", "yearFounded", |v| v.as_i64().is_some_and(|n| n < 1950)),
    ] {
        let case = async {
            for page in crm.pages(path).await? {
                for value in page.column(field) {
                    ensure!(test(&value), "{field} is {value}");
                }
            }
            Ok(())
        };
        report.any(&format!("holds for every row: {path}"), case).await;
    }
    let case = async {
        let page = crm.get("/contacts?limit=100").await?.must(200)?;
        let ids: Vec<String> = page.ids().into_iter().take(50).collect();
        let asked = crm.get(&format!("/contacts?limit=100&filter[id][in]={}", ids.join(","))).await?.must(200)?;
        let (mut wanted, mut got) = (ids, asked.ids());
        wanted.sort();
        got.sort();
        same("ids", got, wanted)
    };
    report.any("fifty ids are looked up at once", case).await;
    let case = async {
        let page = crm.get("/contacts?limit=100&sort=createdAt").await?.must(200)?;
        let times: Vec<String> = page.column("createdAt").iter().map(text).collect();
        let middle = times[times.len() / 2].clone();
        let count = |op: &'static str| {
            let path = format!("/contacts?count=exact&limit=1&filter[createdAt][{op}]={middle}");
            async move { Ok::<u64, String>(crm.get(&path).await?.must(200)?.json["total"].as_u64().unwrap_or(0)) }
        };
        let (below, at, above) = (count("lt").await?, count("eq").await?, count("gt").await?);
        let (upto, from) = (count("lte").await?, count("gte").await?);
        ensure!(at >= 1, "the row itself is not found by its timestamp");
        same("lte", upto, below + at)?;
        same("gte", from, above + at)
    };
    report.any("ranges fit together", case).await;
}
