//! The database of `[publish]`: whether it can be reached.

use std::os::unix::fs::PermissionsExt;

use super::configuration;
use super::facts::CheckFacts;
use super::finding::Finding;
use crate::app::publish_settings;
use crate::cli::session;
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::publish::{self, PublishError, PublishUrl};

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
        findings.push(configuration::permissions("publish.permissions", path, meta.permissions().mode()));
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
    findings
}

fn failed(name: &'static str, error: &PublishError) -> Finding {
    let fix = error.hint().unwrap_or("run `crm-mirror publish` for details");
    Finding::fail(name, Exit::of_publish(error), error_chain(error), fix)
}
