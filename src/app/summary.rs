//! The summary of a run, as `sync` and `resync` print it.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::budget::{Ledger, Limits};
use crate::format;
use crate::model::Instant;
use crate::outbox::PushTally;
use crate::store::{DefinitionChanges, RunOutcome};
use crate::sync::{RunReport, Suspension};

/// The summary of a run. Its JSON form is documented in `docs/interfaces.md`; members may be added, but not removed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    pub run: i64,
    /// `sync`, `resync`, `verify` or `push`.
    pub kind: Cow<'static, str>,
    pub outcome: RunOutcome,
    pub seconds: f64,
    /// Rows that lists and details returned.
    pub rows_read: u64,
    pub inserted: u64,
    pub updated: u64,
    /// Records that the service no longer has.
    pub removed: u64,
    pub details_read: u64,
    pub details_pending: u64,
    #[serde(default)]
    pub definitions: DefinitionChanges,
    /// Values kept in `extra`, items that cannot be mirrored, and answers that break a rule.
    pub warnings: u64,
    pub push: PushTally,
    pub ru: RuSummary,
    pub pause: Option<PauseSummary>,
    pub missing_scopes: Vec<MissingScope>,
    pub outages: Vec<RefusedRemovalsSummary>,
    pub notes: Vec<String>,
}

/// Request units of the run and of its window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RuSummary {
    pub spent: u64,
    pub used: u64,
    pub left: u64,
    pub limit: u64,
    /// When the window ends, UTC.
    pub refills_at: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PauseSummary {
    /// `budget`, `hold` or `stopped`.
    pub reason: Cow<'static, str>,
    /// The end of the suspension, if it is known; UTC.
    pub until: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MissingScope {
    pub object: String,
    pub scope: Cow<'static, str>,
}

/// Removals that look like an outage.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RefusedRemovalsSummary {
    pub object: String,
    /// Records that would be removed.
    pub going: u64,
    /// All records of the object.
    pub of: u64,
}

impl Summary {
    /// The summary of a run that took so long; the ledger is that after it.
    pub fn new(kind: &'static str, report: &RunReport, took: Duration, ledger: &Ledger, limits: &Limits) -> Summary {
        let tally = &report.tally;
        Summary {
            run: report.run,
            kind: kind.into(),
            outcome: report.outcome,
            seconds: (took.as_secs_f64() * 1000.0).round() / 1000.0,
            rows_read: tally.rows,
            inserted: tally.inserted,
            updated: tally.updated,
            removed: tally.removed,
            details_read: tally.details,
            details_pending: report.pending_details,
            definitions: report.definitions,
            warnings: tally.warnings,
            push: report.push,
            ru: RuSummary {
                spent: tally.ru.get(),
                used: ledger.used.get(),
                left: limits.limit.saturating_sub(ledger.used).get(),
                limit: limits.limit.get(),
                refills_at: ledger.refills_at(limits).to_string(),
            },
            pause: report.suspension.map(|pause| {
                let (reason, at) = match pause {
                    Suspension::Budget(at) => ("budget", Some(at)),
                    Suspension::Hold(at) => ("hold", Some(at)),
                    Suspension::Limit => ("limit", None),
                    Suspension::Shutdown => ("stopped", None),
                    Suspension::Locked => ("locked", None),
                };
                PauseSummary { reason: reason.into(), until: at.map(|at| at.to_string()) }
            }),
            missing_scopes: report
                .missing_scopes
                .iter()
                .map(|(resource, scope)| MissingScope { object: resource.to_string(), scope: (*scope).into() })
                .collect(),
            outages: report
                .outages
                .iter()
                .map(|(resource, outage)| RefusedRemovalsSummary {
                    object: resource.to_string(),
                    going: outage.going,
                    of: outage.of,
                })
                .collect(),
            notes: report.warnings.clone(),
        }
    }

    /// Adds the summary of an earlier run of the same job.
    #[must_use]
    pub fn after(mut self, earlier: &Summary) -> Summary {
        self.kind = earlier.kind.clone();
        self.seconds += earlier.seconds;
        self.rows_read += earlier.rows_read;
        self.inserted += earlier.inserted;
        self.updated += earlier.updated;
        self.removed += earlier.removed;
        self.details_read += earlier.details_read;
        self.definitions.add(earlier.definitions);
        self.warnings += earlier.warnings;
        self.ru.spent += earlier.ru.spent;
        self.push = self.push.after(earlier.push);
        for note in &earlier.notes {
            if !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
        self
    }

    /// The summary as text, a few lines.
    pub fn text(&self, now: Instant) -> String {
        let took = format::duration(Duration::from_secs_f64(self.seconds.max(0.0)));
        let ended = match self.outcome {
            RunOutcome::Done => format!("{} finished in {took}", self.kind),
            RunOutcome::Suspended => format!("{} suspended after {took}", self.kind),
            RunOutcome::Refused => format!("{} finished in {took}, removals refused", self.kind),
            RunOutcome::Failed => format!("{} failed after {took}", self.kind),
        };
        let n = format::count;
        let pending = match self.details_pending {
            0 => "none pending".into(),
            pending => format!("{} pending", n(pending)),
        };
        let refills = self
            .ru
            .refills_at
            .parse()
            .map(|at| format!("; the window ends {}", format::when(at, now)))
            .unwrap_or_default();
        let mut text = format!("{ended}\n");
        if self.kind != "push" {
            text.push_str(&format!(
                "  records    {} new, {} changed, {} removed\n  details    {} read, {pending}\n",
                n(self.inserted),
                n(self.updated),
                n(self.removed),
                n(self.details_read),
            ));
        }
        let fields = self.definitions;
        if fields != DefinitionChanges::default() {
            text.push_str(&format!(
                "  fields     {} new, {} archived, {} restored, {} changed; {}\n",
                n(fields.added),
                n(fields.archived),
                n(fields.restored),
                n(fields.changed),
                format::counted(fields.options, "option changed", "options changed"),
            ));
        }
        let push = &self.push;
        if self.kind == "push" || *push != PushTally::default() {
            text.push_str(&format!(
                "  edits      {} applied, {} in conflict, {} rejected, {} waiting; {} sent\n",
                n(push.applied),
                n(push.conflicts),
                n(push.rejected),
                n(push.waiting),
                format::counted(push.sent, "update", "updates"),
            ));
        }
        text.push_str(&format!(
            "  RU         {} spent; {} of {} left{refills}\n",
            n(self.ru.spent),
            n(self.ru.left),
            n(self.ru.limit),
        ));
        if self.warnings > 0 {
            let odd = format::counted(self.warnings, "odd value or answer", "odd values or answers");
            text.push_str(&format!(
                "  warnings   {odd}: see `service_oddities`; values that fit no column are in `extra`\n"
            ));
        }
        text
    }

    /// Why the run was suspended, and how it continues.
    pub fn pause_sentence(&self) -> String {
        let until = self.pause.as_ref().and_then(|pause| pause.until.as_ref()?.parse().ok()).map(format::moment);
        let why = match (self.pause.as_ref().map(|pause| pause.reason.as_ref()), until) {
            (Some("budget"), Some(until)) if self.ru.left > 0 => {
                let n = format::count;
                let (used, limit, left) =
                    (n(self.ru.limit.saturating_sub(self.ru.left)), n(self.ru.limit), n(self.ru.left));
                format!("{used} of {limit} RU used; {left} are reserved for scheduled runs; the window ends at {until}")
            }
            (Some("budget"), Some(until)) => format!("the budget of this window is spent; it refills at {until}"),
            (Some("hold"), Some(until)) => format!("rate limit: no request is sent before {until}"),
            (Some("locked"), _) => "another program writes the mirror, such as a shell with an open transaction".into(),
            (Some("limit"), _) => format!("{} RU are spent (`--max-ru`)", format::count(self.ru.spent)),
            _ => "stopped on request; everything read so far is stored".into(),
        };
        format!("{why}\nhint: `crm-mirror sync` continues from there")
    }
}
