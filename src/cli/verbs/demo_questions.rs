//! The queries of the demo: plain SQL, with the results as tables.

use std::io::IsTerminal;

use crate::store::Reader;

use crate::cli::Failure;
use crate::cli::ui::{output, rows};
use crate::exit::Exit;

/// A sentence and the query that answers it.
const QUESTIONS: [(&str, &str); 4] = [
    (
        "Who is in which tier? `tier` is a custom field, and a column like any other.",
        "SELECT cf_tier AS tier, count(*) AS contacts, sum(cf_newsletter) AS newsletter\n  \
         FROM contacts_full GROUP BY cf_tier ORDER BY contacts DESC",
    ),
    (
        "What are the credit limits worth, to the last cent? (decimal_sum never rounds.)",
        "SELECT cf_region AS region, count(*) AS companies,\n  \
         decimal_sum(cf_credit_limit) AS credit\n  \
         FROM companies_full GROUP BY cf_region ORDER BY region",
    ),
    (
        "Which companies have the most contacts that may be written to?",
        "SELECT o.name AS company, o.hq_country AS country, count(*) AS contacts\n  \
         FROM contacts_full AS c JOIN companies_full AS o ON o.id = c.company_id\n  \
         WHERE c.do_not_contact = 0 GROUP BY o.id\n  \
         ORDER BY contacts DESC, company LIMIT 5",
    ),
    (
        "What changed since the first copy, field by field?",
        "SELECT seq, object_type AS object, kind, f.key AS field,\n  \
         substr(json_extract(f.value, '$[0]'), 1, 20) AS old,\n  \
         substr(json_extract(f.value, '$[1]'), 1, 20) AS new\n  \
         FROM changes, json_each(fields) AS f\n  \
         WHERE kind = 'update' AND f.key NOT IN ('etag', 'updated_at')\n  \
         AND f.key NOT LIKE '%_num'\n  \
         ORDER BY seq, field LIMIT 10",
    ),
];

pub fn run(mirror: &Reader) -> Result<(), Failure> {
    for (sentence, sql) in QUESTIONS {
        output::text(&format!("\n{sentence}\n\n  {sql}\n\n"))?;
        output::text(&answer(mirror, sql).map_err(|error| Failure::new(Exit::Internal, error))?)?;
    }
    Ok(())
}

fn answer(mirror: &Reader, sql: &str) -> rusqlite::Result<String> {
    let mut stmt = mirror.prepare(sql)?;
    let titles = rows::titles(&stmt);
    rows::table(&titles, &mut stmt.query([])?, std::io::stdout().is_terminal())
}
