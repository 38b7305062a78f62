//! `verify`: the mirror held against the service now, by counts or record by record; and the checks that end walks of
//! more than one page, since what kind of cursor the service uses is not documented.

use serde::{Deserialize, Serialize};

use super::audit::{Audit, Mode};
use super::findings::Findings;
use super::removals::Removals;
use crate::model::{Instant, Object, Resource};
use crate::store::{MirrorTx, Phase, StoreError};
use crate::sync::engine::{Ended, Engine};
use crate::sync::error::SyncError;
use crate::sync::span::{Dimension, Extent, Span};
use crate::sync::state::Changes;

/// Records that a full verification lists at once: their ids are kept meanwhile, and the last page is part empty.
const STRIDE: u64 = 10_000;

/// What to verify, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verify {
    /// Contacts, companies or both if empty.
    pub resources: Vec<Resource>,
    /// Whether to compare every listed field of every record, at 1 RU per 100, instead of counting.
    pub full: bool,
    /// Whether to mend what is found.
    pub repair: bool,
    /// Whether whatever is gone may go, however much it is.
    pub accept_removals: bool,
}

/// Until when an object's mirror is known to be whole, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Our clock when the evidence was begun.
    pub as_of: Instant,
    /// Whether every record was compared, or ranges were counted.
    pub by_record: bool,
    /// Differences that were found and not mended.
    pub open: u64,
}

impl Evidence {
    /// The state entry.
    pub fn entry(object: Object) -> String {
        format!("evidence:{object}")
    }
}

/// A check that a walk of more than one page still owes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::sync) struct Check {
    by: Dimension,
    from: Option<Instant>,
    to: Option<Instant>,
    parts: u64,
}

impl Check {
    fn entry(object: Object, by: Dimension) -> String {
        format!("check:{object}:{}", by.column())
    }

    /// Notes that a changes walk over these timestamps is to be counted.
    pub(in crate::sync) fn of_changes(
        tx: &MirrorTx<'_>,
        object: Object,
        from: Option<Instant>,
        high: Option<Instant>,
        pages: u64,
    ) -> Result<(), StoreError> {
        let by = Dimension::UpdatedAt;
        let second = std::time::Duration::from_secs(1);
        let (from, to) = (from.map(Instant::whole_second), high.map(|high| high.whole_second().plus(second)));
        tx.set_state(&Check::entry(object, by), &Check { by, from, to, parts: pages.clamp(2, 8) })
    }

    /// Notes that a sweep is to be counted: in as many ranges as it had pages, up to a full audit's. With cursors that
    /// count rows, a record removed behind the walk lets another slip at the next page's edge: a total would not tell,
    /// since one lingers and one is lost, but they are pages apart.
    pub(in crate::sync) fn of_sweep(tx: &MirrorTx<'_>, object: Object, pages: u64) -> Result<(), StoreError> {
        let by = Dimension::CreatedAt;
        tx.set_state(&Check::entry(object, by), &Check { by, from: None, to: None, parts: pages.clamp(2, 15) })
    }
}

impl Engine {
    /// Carries out the counts that walks of more than one page still owe, and mends what they find.
    pub(in crate::sync) async fn carry_out_checks(&self, object: Object, by: Dimension) -> Result<(), SyncError> {
        let entry = Check::entry(object, by);
        let name = entry.clone();
        let Some(check) = self.store.write(move |tx| tx.state::<Check>(&name)).await? else {
            return Ok(());
        };
        let window = Span::dated(check.by, check.from, check.to);
        let stretch = window.stretch();
        let edges = self.store.write(move |tx| tx.edges(object, stretch, check.parts, 0.0)).await?;
        let mut spans = Vec::new();
        let mut rest = window;
        for edge in edges {
            if let Some((low, high)) = rest.cut(edge) {
                spans.push(low);
                rest = high;
            }
        }
        spans.push(rest);
        if check.by == Dimension::CreatedAt {
            spans.push(Span { by: check.by, extent: Extent::Dateless });
        }
        let removals = Removals { most: self.settings.most_removals, accepted: false };
        let mut audit = Audit { object, mode: Mode::Mend(removals), since: None, findings: Findings::default() };
        self.compare(&mut audit, spans).await?;
        if !audit.findings.is_clean() {
            let found = audit.findings.count();
            tracing::warn!(%object, found, "A count after a walk of {object} records found {found} that had slipped");
        }
        self.store.write(move |tx| tx.clear_state(&entry)).await?;
        Ok(())
    }

    /// Holds the mirror against the service and enters that as a run.
    ///
    /// # Errors
    /// [`SyncError`] for what ended the run and will not mend itself by waiting; a pause is in the report.
    pub async fn verify(
        &self,
        verify: &Verify,
        trigger: &'static str,
    ) -> Result<(crate::sync::Report, Vec<(Object, Findings)>), SyncError> {
        let mut found = Vec::new();
        let report = self
            .recorded("verify", trigger, async {
                self.check_identity().await?;
                for object in Object::ALL {
                    let resource = object.resource();
                    if !verify.resources.is_empty() && !verify.resources.contains(&resource) {
                        continue;
                    }
                    let findings = self.guard(resource, self.verify_object(object, verify).await)?;
                    found.extend(findings.flatten().map(|findings| (object, findings)));
                }
                Ok(Ended::default())
            })
            .await?;
        Ok((report, found))
    }

    async fn verify_object(&self, object: Object, verify: &Verify) -> Result<Option<Findings>, SyncError> {
        if self.store.write(move |tx| tx.phase(object)).await? == Phase::FirstCopy {
            self.warn(format!("{} have not been copied yet: `crm-mirror sync` goes on", object.resource()));
            return Ok(None);
        }
        // What changed since the last run is no difference: it is fetched first.
        self.walk_changes(object).await?;
        let as_of = self.clock.now();
        let since = self.store.write(move |tx| Changes::load(tx, object)).await?.served_at;
        let removals = Removals { most: self.settings.most_removals, accepted: verify.accept_removals };
        let mode = if verify.repair { Mode::Mend(removals) } else { Mode::Report };
        let mut audit = Audit { object, mode, since, findings: Findings::default() };
        if verify.full {
            let rows = self.store.write(move |tx| tx.count_rows(object)).await?;
            let parts = rows / STRIDE;
            let spans = if parts < 2 {
                vec![Span::WHOLE]
            } else {
                self.spans(object, Dimension::CreatedAt, parts, 0.0).await?
            };
            self.compare_listed(&mut audit, spans).await?;
        } else {
            self.audit(&mut audit).await?;
        }
        let open = if verify.repair { 0 } else { audit.findings.count() };
        let by_record = audit.findings.compared >= audit.findings.ranges && verify.full;
        let evidence = Evidence { as_of, by_record, open };
        self.store
            .write(move |tx| {
                // Somebody may have edited the mirror by hand, which is what a verification is for.
                tx.recount(object)?;
                tx.set_state(&Evidence::entry(object), &evidence)
            })
            .await?;
        Ok(Some(audit.findings))
    }
}
