//! The summary of a run, as `sync` and `resync` print it.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::budget::{Ledger, Limits};
use crate::format;
use crate::model::Instant;
use crate::outbox::PushTally;
use crate::store::{DefinitionChanges, RunOutcome, Tally};
use crate::sync::{RunReport, Suspension};

/// The summary of a run. Its JSON form is documented in `docs/interfaces.md`; members may be added, but not removed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    pub run: i64,
    pub kind: Cow<'static, str>,
    pub outcome: RunOutcome,
    pub seconds: f64,
    #[serde(flatten)]
    pub tally: Tally,
    pub details_pending: u64,
    pub definitions: DefinitionChanges,
    pub push: PushTally,
    pub ru: RuSummary,
    pub pause: Option<Suspension>,
    pub missing_scopes: Vec<MissingScope>,
    pub outages: Vec<RefusedRemovalsSummary>,
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RuSummary {
    pub spent: u64,
    pub used: u64,
    pub left: u64,
    pub limit: u64,
    pub refills_at: Instant,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MissingScope {
    pub object: String,
    pub scope: Cow<'static, str>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RefusedRemovalsSummary {
    pub object: String,
    pub going: u64,
    pub of: u64,
}

impl Summary {
    pub fn new(kind: &'static str, report: &RunReport, took: Duration, ledger: &Ledger, limits: &Limits) -> Summary {
        let missing = report.missing_scopes.iter();
        let missing =
            missing.map(|(object, scope)| MissingScope { object: object.to_string(), scope: (*scope).into() });
        let outages = report.outages.iter().map(|(object, outage)| {
            let (object, going, of) = (object.to_string(), outage.going, outage.of);
            RefusedRemovalsSummary { object, going, of }
        });
        Summary {
            run: report.run,
            kind: kind.into(),
            outcome: report.outcome,
            seconds: (took.as_secs_f64() * 1000.0).round() / 1000.0,
            tally: report.tally,
            details_pending: report.pending_details,
            definitions: report.definitions,
            push: report.push,
            ru: RuSummary {
                spent: report.tally.ru.get(),
                used: ledger.used.get(),
                left: limits.limit.saturating_sub(ledger.used).get(),
                limit: limits.limit.get(),
                refills_at: ledger.refills_at(limits),
            },
            pause: report.suspension,
            missing_scopes: missing.collect(),
            outages: outages.collect(),
            notes: report.warnings.clone(),
        }
    }

    /// Adds an earlier run of the same job.
    pub fn add(&mut self, earlier: &Summary) {
        self.kind = earlier.kind.clone();
        self.seconds += earlier.seconds;
        self.tally.add(&earlier.tally);
        self.definitions.add(earlier.definitions);
        self.ru.spent += earlier.ru.spent;
        self.push = self.push.after(earlier.push);
        for note in &earlier.notes {
            if !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
    }

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
        let mut text = format!("{ended}\n");
        if self.kind != "push" {
            text.push_str(&format!(
                "  records    {} new, {} changed, {} removed\n  details    {} read, {pending}\n",
                n(self.tally.inserted),
                n(self.tally.updated),
                n(self.tally.removed),
                n(self.tally.details),
            ));
        }
        let fields = self.definitions;
        if fields != DefinitionChanges::default() {
            text.push_str(&format!(
                "  fields     {} new, {} changed or archived\n",
                n(fields.added),
                n(fields.changed),
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
            "  RU         {} spent; {} of {} left; the window ends {}\n",
            n(self.ru.spent),
            n(self.ru.left),
            n(self.ru.limit),
            format::when(self.ru.refills_at, now),
        ));
        if self.tally.warnings > 0 {
            let odd = format::counted(self.tally.warnings, "odd value or answer", "odd values or answers");
            let places = "answers are in `service_oddities`, values that fit no column in `extra`";
            text.push_str(&format!("  warnings   {odd}: {places}\n"));
        }
        text
    }

    pub fn pause_sentence(&self) -> String {
        let n = format::count;
        let why = match self.pause {
            Some(Suspension::Budget(until)) if self.ru.left > 0 => format!(
                "{} of {} RU used; {} are reserved for scheduled runs; the window ends at {}",
                n(self.ru.limit.saturating_sub(self.ru.left)),
                n(self.ru.limit),
                n(self.ru.left),
                format::moment(until)
            ),
            Some(Suspension::Budget(until)) => {
                format!("the budget of this window is spent; it refills at {}", format::moment(until))
            }
            Some(Suspension::Hold(until)) => format!("rate limit: no request is sent before {}", format::moment(until)),
            Some(Suspension::Locked) => {
                "another program writes the mirror, such as a shell with an open transaction".into()
            }
            Some(Suspension::Changes) => {
                "records change faster than they are read; everything read so far is stored".into()
            }
            Some(Suspension::Shutdown) | None => "stopped on request; everything read so far is stored".into(),
        };
        let next = if self.kind == "verify" { "run it again later" } else { "`crm-mirror sync` continues from there" };
        format!("{why}\nhint: {next}")
    }
}
