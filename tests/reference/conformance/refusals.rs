//! Requests that the service must refuse, and requests that it must accept, one each.

use super::bench::{Crm, Report};
use crate::ensure;

/// Name, path, and the parameter that the complaint names.
const REFUSED: &[(&str, &str, &str)] = &[
    ("limit 0", "/contacts?limit=0", "limit"),
    ("limit 101", "/contacts?limit=101", "limit"),
    ("limit negative", "/companies?limit=-1", "limit"),
    ("limit a word", "/contacts?limit=ten", "limit"),
    ("limit a fraction", "/contacts?limit=10.5", "limit"),
    ("limit empty", "/contacts?limit=", "limit"),
    ("limit repeated", "/contacts?limit=5&limit=5", "limit"),
    ("limit 101 of definitions", "/custom-field-definitions?objectType=contact&limit=101", "limit"),
    ("limit 0 of team members", "/team-members?limit=0", "limit"),
    ("count not exact", "/contacts?count=true", "count"),
    ("count in capitals", "/contacts?count=EXACT", "count"),
    ("cursor garbage", "/contacts?cursor=garbage", "cursor"),
    ("cursor empty", "/contacts?cursor=", "cursor"),
    ("q one character", "/contacts?q=a", "q"),
    ("q one character when trimmed", "/contacts?q=%20%20a%20", "q"),
    ("q blank", "/companies?q=%20%20%20%20", "q"),
    ("q of definitions", "/custom-field-definitions?objectType=contact&q=ab", "q"),
    ("sort by a field that is not sortable", "/contacts?sort=email", "sort"),
    ("sort by an unknown field", "/contacts?sort=colour", "sort"),
    ("sort by a company field on contacts", "/contacts?sort=employeeCount", "sort"),
    ("sort by a custom field", "/contacts?sort=customFields.tier", "sort"),
    ("sort by id", "/contacts?sort=id", "sort"),
    ("sort by three fields", "/contacts?sort=name,createdAt,updatedAt", "sort"),
    ("sort by one field twice", "/contacts?sort=name,-name", "sort"),
    ("sort empty", "/contacts?sort=", "sort"),
    ("sort with an empty part", "/contacts?sort=name,", "sort"),
    ("sort of definitions by updatedAt", "/custom-field-definitions?objectType=contact&sort=updatedAt", "sort"),
    ("sort of team members by lastName", "/team-members?sort=lastName", "sort"),
    ("unknown parameter", "/contacts?page=2", "page"),
    ("unknown parameter of companies", "/companies?fields=name", "fields"),
    ("include on the contact list", "/contacts?include=owner", "include"),
    ("include unknown on the company list", "/companies?include=contacts", "include"),
    ("include unknown among known", "/companies?include=owner,everything", "include"),
    ("filter by an unknown field", "/contacts?filter[colour]=red", "filter[colour]"),
    ("filter by a field without filters", "/contacts?filter[firstName]=Ada", "filter[firstName]"),
    ("filter by the deprecated score", "/contacts?filter[score][gt]=1", "filter[score][gt]"),
    ("filter by notes", "/contacts?filter[notes][isNull]=true", "filter[notes][isNull]"),
    ("filter by location.country", "/contacts?filter[location.country]=DE", "filter[location.country]"),
    ("filter by a company field on contacts", "/contacts?filter[hqCountry]=DE", "filter[hqCountry]"),
    ("filter without brackets closed", "/contacts?filter[email=a", "filter[email"),
    ("operator unknown", "/contacts?filter[email][like]=a", "filter[email][like]"),
    ("operator gt on text", "/contacts?filter[email][gt]=a", "filter[email][gt]"),
    ("operator contains on email", "/contacts?filter[email][contains]=a", "filter[email][contains]"),
    ("operator in on position", "/contacts?filter[position][in]=a,b", "filter[position][in]"),
    ("operator in on a timestamp", "/contacts?filter[updatedAt][in]=2026-01-01T00:00:00Z", "filter[updatedAt][in]"),
    ("operator gt on a boolean", "/contacts?filter[qualification][gt]=true", "filter[qualification][gt]"),
    ("operator isNull on domain", "/companies?filter[domain][isNull]=true", "filter[domain][isNull]"),
    ("operator in on employeeCount", "/companies?filter[employeeCount][in]=1,2", "filter[employeeCount][in]"),
    ("operator hasAny on text", "/contacts?filter[email][hasAny]=a", "filter[email][hasAny]"),
    ("isNull neither true nor false", "/contacts?filter[email][isNull]=1", "filter[email][isNull]"),
    ("isNull in capitals", "/contacts?filter[email][isNull]=TRUE", "filter[email][isNull]"),
    ("boolean in capitals", "/contacts?filter[qualification]=True", "filter[qualification]"),
    ("boolean as a number", "/contacts?filter[qualification]=1", "filter[qualification]"),
    ("timestamp without a zone", "/contacts?filter[updatedAt][gt]=2026-01-01T00:00:00", "filter[updatedAt][gt]"),
    ("timestamp without a time", "/contacts?filter[updatedAt][gt]=2026-01-01", "filter[updatedAt][gt]"),
    (
        "timestamp on a day that is none",
        "/contacts?filter[createdAt][lt]=2026-02-30T00:00:00Z",
        "filter[createdAt][lt]",
    ),
    ("timestamp a word", "/companies?filter[lastInteractionAt]=yesterday", "filter[lastInteractionAt]"),
    ("integer a word", "/companies?filter[employeeCount][gt]=many", "filter[employeeCount][gt]"),
    ("integer a fraction", "/companies?filter[yearFounded]=1999.5", "filter[yearFounded]"),
    ("number a word", "/companies?filter[customerFitScore][gte]=high", "filter[customerFitScore][gte]"),
    ("text predicate empty", "/contacts?filter[email]=", "filter[email]"),
    ("list with an empty value", "/contacts?filter[id][in]=a,,b", "filter[id][in]"),
    ("list empty", "/contacts?filter[id][in]=", "filter[id][in]"),
    ("domain with a path", "/companies?filter[domain]=example.com/about", "filter[domain]"),
    ("domain with a port", "/companies?filter[domain]=example.com:443", "filter[domain]"),
    ("domain with credentials", "/companies?filter[domain]=me@example.com", "filter[domain]"),
    ("domain with a query", "/companies?filter[domain]=example.com%3Fa", "filter[domain]"),
    ("domain with a scheme", "/companies?filter[domain]=https://example.com", "filter[domain]"),
    ("domain list with a path", "/companies?filter[domain][in]=example.com,a.org/x", "filter[domain][in]"),
    (
        "custom filter by an unknown key",
        "/contacts?filter[customFields.nobody-has-this]=a",
        "filter[customFields.nobody-has-this]",
    ),
    ("custom filter on team members", "/team-members?filter[customFields.tier]=a", "filter[customFields.tier]"),
    ("definitions without objectType", "/custom-field-definitions", "objectType"),
    ("definitions of an unknown object", "/custom-field-definitions?objectType=deal", "objectType"),
    ("definitions in the plural", "/custom-field-definitions?objectType=contacts", "objectType"),
    ("definitions of an unknown status", "/custom-field-definitions?objectType=contact&status=active", "status"),
    ("definitions filtered", "/custom-field-definitions?objectType=contact&filter[key]=a", "filter[key]"),
    ("team members filtered by email", "/team-members?filter[email]=a", "filter[email]"),
    ("team members of an unknown status", "/team-members?filter[status]=RETIRED", "filter[status]"),
    ("team members status range", "/team-members?filter[status][gt]=ACTIVE", "filter[status][gt]"),
    ("team members with include", "/team-members?include=owner", "include"),
    ("objectType on contacts", "/contacts?objectType=contact", "objectType"),
];

/// Name and path.
const ACCEPTED: &[(&str, &str)] = &[
    ("limit 1", "/contacts?limit=1"),
    ("limit 100", "/companies?limit=100"),
    ("count exact", "/contacts?count=exact&limit=1"),
    ("q two characters", "/contacts?q=ab"),
    ("q trimmed", "/companies?q=%20ab%20"),
    ("sort by two fields", "/contacts?sort=-lastInteractionAt,name"),
    ("sort by employeeCount and fit", "/companies?sort=employeeCount,-customerFitScore"),
    ("sort of definitions", "/custom-field-definitions?objectType=company&sort=-createdAt"),
    ("sort of team members", "/team-members?sort=createdAt"),
    ("encoded brackets", "/contacts?filter%5BcreatedAt%5D%5Bgt%5D=2020-01-01T00%3A00%3A00Z"),
    ("timestamp with an offset", "/contacts?filter[updatedAt][gte]=2026-01-01T02:00:00%2B02:00"),
    ("timestamp with a fraction", "/contacts?filter[updatedAt][lt]=2026-01-01T00:00:00.123456Z"),
    ("leap day", "/contacts?filter[createdAt][gt]=2024-02-29T00:00:00Z"),
    (
        "every contact text filter",
        "/contacts?filter[ownerId]=a&filter[email]=b&filter[mobile]=c&filter[companyId]=d&filter[country]=e&filter[industry]=f&filter[intentLevel]=HIGH&filter[enrichmentStatus]=pending&filter[id]=g",
    ),
    (
        "every company filter",
        "/companies?filter[id]=a&filter[ownerId]=b&filter[domain]=c.com&filter[industry]=d&filter[subIndustry]=e&filter[hqCountry]=f&filter[employeeCount][gte]=1&filter[yearFounded][lt]=2000&filter[customerFitScore][lte]=0.5&filter[enrichmentStatus][in]=pending,failed",
    ),
    (
        "two predicates on one field",
        "/contacts?filter[updatedAt][gte]=2026-01-01T00:00:00Z&filter[updatedAt][lt]=2026-02-01T00:00:00Z",
    ),
    ("include of the company list", "/companies?include=owner,contactSummary&limit=2"),
    ("old includes of the company list", "/companies?include=fit,enrichment&limit=2"),
    ("archived definitions", "/custom-field-definitions?objectType=contact&status=ARCHIVED"),
    ("status of team members", "/team-members?filter[status][in]=ACTIVE,INACTIVE,SUSPENDED,PENDING"),
    ("search of team members", "/team-members?q=member"),
];

pub async fn run(crm: &Crm, report: &mut Report) {
    for (name, path, field) in REFUSED {
        let case = async {
            let answer = crm.get(path).await?.refused(400)?;
            ensure!(answer.has_complaint_about(field), "no complaint about {field} in {}", answer.text);
            Ok(())
        };
        report.any(&format!("refused: {name}"), case).await;
    }
    for (name, path) in ACCEPTED {
        let case = async {
            let answer = crm.get(path).await?.must(200)?;
            ensure!(answer.json["data"].is_array(), "no data in {}", answer.text);
            let next = &answer.json["nextCursor"];
            ensure!(next.is_null() || next.is_string(), "odd nextCursor {next}");
            ensure!(answer.json.get("nextCursor").is_some(), "no nextCursor");
            let counted = answer.json.get("total").is_some();
            ensure!(counted == path.contains("count=exact"), "total: {counted}");
            Ok(())
        };
        report.any(&format!("accepted: {name}"), case).await;
    }
    lengths(crm, report).await;
}

/// Length limits: name, path, and whether it is within them.
async fn lengths(crm: &Crm, report: &mut Report) {
    let ids = |n: usize| (0..n).map(|n| format!("x{n}")).collect::<Vec<_>>().join(",");
    let predicates = |n: usize| {
        let fields = ["gt", "gte", "lt", "lte", "eq"];
        let all: Vec<String> = ["createdAt", "updatedAt", "lastInteractionAt"]
            .iter()
            .flat_map(|field| fields.map(|op| format!("filter[{field}][{op}]=2026-01-01T00:00:00Z")))
            .take(n)
            .collect();
        all.join("&")
    };
    for (name, path, good) in [
        ("q of 100 characters", format!("/contacts?q={}", "é".repeat(100)), true),
        ("q of 101 characters", format!("/contacts?q={}", "é".repeat(101)), false),
        ("50 values", format!("/contacts?filter[id][in]={}", ids(50)), true),
        ("51 values", format!("/contacts?filter[id][in]={}", ids(51)), false),
        ("text of 320 characters", format!("/contacts?filter[email]={}", "a".repeat(320)), true),
        ("text of 321 characters", format!("/contacts?filter[email]={}", "a".repeat(321)), false),
        ("a listed value of 321 characters", format!("/contacts?filter[id][in]=b,{}", "a".repeat(321)), false),
        ("10 predicates", format!("/contacts?{}", predicates(10)), true),
        ("11 predicates", format!("/contacts?{}", predicates(11)), false),
        ("shorthand counts as a predicate", format!("/contacts?{}&filter[email]=a", predicates(10)), false),
    ] {
        let case = async {
            let answer = crm.get(&path).await?;
            if good {
                answer.must(200)?;
            } else {
                answer.refused(400)?;
            }
            Ok(())
        };
        report.any(&format!("bound: {name}"), case).await;
    }
}
