//! The database that the mirror is published to: whether it can be reached, and how far publishing came.

use super::facts::CheckFacts;
use super::finding::Finding;
use crate::cli::session;
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::format;
use crate::publish::{self, PublishError, PublishSettings, PublishUrl};

/// Looks at the database, where one is configured.
pub fn check(facts: &CheckFacts<'_>) -> Vec<Finding> {
    let config = &facts.config.publish;
    if !config.is_on() {
        return Vec::new();
    }
    let url = match config.url() {
        Ok(url) => url,
        Err(error) => {
            let fix = error.hint().unwrap_or("correct `publish.url_file`");
            return vec![Finding::fail("publish.url", Exit::Config, error_chain(&error), fix)];
        }
    };
    let url = match PublishUrl::new(&url) {
        Ok(url) => url,
        Err(error) => return vec![failed("publish.url", &error)],
    };
    let mut findings = vec![Finding::ok("publish.url", url.place())];
    if facts.offline {
        findings.push(Finding::skip("publish.database", "not asked: --offline"));
        return findings;
    }
    let settings = PublishSettings::of(&facts.config.database, config);
    findings.push(match session::runtime().map(|runtime| runtime.block_on(publish::probe(&url, &settings))) {
        Ok(Ok(())) => Finding::ok("publish.database", "it answers, and the schema is free or ours"),
        Ok(Err(error)) => failed("publish.database", &error),
        Err(_) => Finding::skip("publish.database", "not asked: the system gives no threads"),
    });
    findings.extend(lag(facts));
    findings
}

fn failed(name: &'static str, error: &PublishError) -> Finding {
    let fix = error.hint().unwrap_or("`crm-mirror publish` says more");
    Finding::fail(name, Exit::of_publish(error), error_chain(error), fix)
}

/// How far publishing came, where it ever did.
fn lag(facts: &CheckFacts<'_>) -> Option<Finding> {
    let lag = facts.here()?.publish.as_ref()?;
    Some(match &lag.last_error {
        Some(error) => Finding::warn(
            "publish.lag",
            format!("{} behind: {error}", format::counted(lag.entries, "entry", "entries")),
            "the daemon tries again by itself; `crm-mirror publish` tries at once",
        ),
        None => Finding::ok("publish.lag", format!("{} behind", format::counted(lag.entries, "entry", "entries"))),
    })
}
