//! The database of `[publish]`: whether it can be reached, and how far publishing is behind.

use std::os::unix::fs::PermissionsExt;

use super::facts::CheckFacts;
use super::finding::Finding;
use super::key;
use crate::app::publish_settings;
use crate::cli::session;
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::format;
use crate::publish::{self, PublishError, PublishUrl};

/// Checks the database, if one is configured.
pub(super) fn check(facts: &CheckFacts<'_>) -> Vec<Finding> {
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
    if let Some((path, meta)) = config.url_file().and_then(|path| Some((path, std::fs::metadata(path).ok()?))) {
        findings.push(key::permissions("publish.permissions", path, meta.permissions().mode()));
    }
    if facts.offline {
        findings.push(Finding::skip("publish.database", "not connected: --offline"));
        return findings;
    }
    let settings = publish_settings(facts.config);
    findings.push(match session::runtime().map(|runtime| runtime.block_on(publish::probe(&url, &settings))) {
        Ok(Ok(())) => Finding::ok("publish.database", "it answers, and the schema can be used"),
        Ok(Err(error)) => failed("publish.database", &error),
        Err(_) => Finding::skip("publish.database", "not connected: the system cannot create threads"),
    });
    findings.extend(lag(facts));
    findings.extend(refused(facts));
    findings.extend(equal(facts));
    findings.extend(left_behind(facts));
    findings
}

fn failed(name: &'static str, error: &PublishError) -> Finding {
    let fix = error.hint().unwrap_or("run `crm-mirror publish` for details");
    Finding::fail(name, Exit::of_publish(error), error_chain(error), fix)
}

fn equal(facts: &CheckFacts<'_>) -> Option<Finding> {
    let lag = facts.here()?.publish.as_ref()?;
    let at = lag.compared_at?;
    Some(match lag.differences {
        0 => Finding::ok("publish.equal", format!("every value was equal at {}", format::moment(at))),
        differences => Finding::warn(
            "publish.equal",
            format!("{} at {}", format::counted(differences, "difference", "differences"), format::moment(at)),
            "run `crm-mirror publish --verify --repair`",
        ),
    })
}

/// Views that could not follow.
fn left_behind(facts: &CheckFacts<'_>) -> Option<Finding> {
    let left = &facts.here()?.publish.as_ref()?.left_behind;
    let fix = "make the views again on the new columns: what none uses is dropped with the next publish";
    (!left.is_empty()).then(|| Finding::warn("publish.left-behind", left.join("; "), fix))
}

fn refused(facts: &CheckFacts<'_>) -> Option<Finding> {
    let lag = facts.here()?.publish.as_ref().filter(|lag| lag.refused > 0)?;
    let first = lag.refused_rows.first().map(|row| format!(": {} {}: {}", row.table, row.name, row.reason));
    Some(Finding::warn(
        "publish.refused",
        format!("{}{}", format::counted(lag.refused, "row is refused", "rows are refused"), first.unwrap_or_default()),
        "remove what refuses them (`crm-mirror status` names them), then run `crm-mirror publish --full`",
    ))
}

/// How far publishing is behind, if the mirror was ever published.
fn lag(facts: &CheckFacts<'_>) -> Option<Finding> {
    let lag = facts.here()?.publish.as_ref()?;
    Some(match &lag.last_error {
        Some(error) => Finding::warn(
            "publish.lag",
            format!("{} behind: {error}", format::counted(lag.entries, "entry", "entries")),
            "the daemon retries automatically; `crm-mirror publish` retries at once",
        ),
        None => Finding::ok("publish.lag", format!("{} behind", format::counted(lag.entries, "entry", "entries"))),
    })
}
