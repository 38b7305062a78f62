//! The findings of an audit or a verification: each difference by record and field.

use serde::{Deserialize, Serialize};

use crate::model::{Object, RecordId};
use crate::store::FieldDifference;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum DifferenceKind {
    Missing,
    Extra,
    Different,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    pub object: Object,
    pub id: RecordId,
    pub kind: DifferenceKind,
    /// The columns that differ, if both sides have the record.
    pub fields: Vec<FieldDifference>,
}

/// The maximum number of differences that are kept; more are only counted.
const MAX_KEPT: usize = 1_000;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    pub differences: Vec<Difference>,
    pub missing: u64,
    /// Records that only the mirror has.
    pub extra: u64,
    pub different: u64,
    pub ranges: u64,
    /// Records that were compared one by one.
    pub compared: u64,
    /// Records about which no answer decided: they seem to be removed, were shown in an earlier version, were not
    /// shown by a list that should have, or share their timestamps with too many others to be listed again today.
    pub undecided: u64,
    /// Differences and undecided records that remain: all of them if nothing was repaired.
    pub open: u64,
    /// Details that are not current: what only they show was not compared.
    pub details_pending: u64,
}

impl Findings {
    pub fn is_clean(&self) -> bool {
        self.count() == 0 && self.open == 0
    }

    pub fn count(&self) -> u64 {
        self.counts().iter().sum()
    }

    /// Adds the difference of a record that has none yet.
    pub(super) fn add(&mut self, difference: Difference) {
        match difference.kind {
            DifferenceKind::Missing => self.missing += 1,
            DifferenceKind::Extra => self.extra += 1,
            DifferenceKind::Different => self.different += 1,
        }
        if self.differences.len() < MAX_KEPT {
            self.differences.push(difference);
        }
    }

    /// Missing, extra and different records.
    pub(in crate::sync) const fn counts(&self) -> [u64; 3] {
        [self.missing, self.extra, self.different]
    }

    /// What was found since these counts, in a few words for `audits`; `None` if nothing was.
    pub(in crate::sync) fn since(&self, before: [u64; 3]) -> Option<String> {
        let [missing, extra, different] = std::array::from_fn(|kind| self.counts()[kind] - before[kind]);
        let found = serde_json::json!({ "missing": missing, "extra": extra, "different": different });
        (self.counts() != before).then(|| found.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DifferenceKind::{Different, Extra, Missing};
    use Object::{Company, Contact};

    fn difference(object: Object, id: &str, kind: DifferenceKind) -> Difference {
        Difference { object, id: RecordId::new(id), kind, fields: Vec::new() }
    }

    fn found(differences: &[(Object, &str, DifferenceKind)]) -> Findings {
        let mut findings = Findings::default();
        for (object, id, kind) in differences {
            findings.add(difference(*object, id, *kind));
        }
        findings
    }

    #[test]
    fn differences_count_by_their_kind() {
        let a = (Contact, "a", Missing);
        let b = (Contact, "b", Extra);
        let c = (Contact, "c", Different);
        for (differences, counts) in [
            (&[][..], [0, 0, 0]),
            (&[a], [1, 0, 0]),
            (&[b], [0, 1, 0]),
            (&[c], [0, 0, 1]),
            (&[a, b, c], [1, 1, 1]),
            (&[a, (Company, "a", Missing), (Company, "b", Missing)], [3, 0, 0]),
            (&[b, (Company, "b", Extra), (Company, "c", Different)], [0, 2, 1]),
        ] {
            let findings = found(differences);
            assert_eq!(findings.counts(), counts, "{differences:?}");
            assert_eq!(findings.count(), counts.iter().sum::<u64>(), "{differences:?}");
            assert_eq!(findings.is_clean(), differences.is_empty(), "{differences:?}");
            assert_eq!(findings.differences.len() as u64, findings.count(), "{differences:?}");
        }
    }

    #[test]
    fn a_thousand_differences_are_kept_and_all_are_counted() {
        let mut findings = Findings::default();
        for n in 0..1_002 {
            findings.add(difference(Contact, &n.to_string(), Missing));
        }
        assert_eq!((findings.differences.len(), findings.count()), (1_000, 1_002));
    }

    #[test]
    fn audit_entry_names_only_what_was_found_since() {
        let before = found(&[(Contact, "a", Missing), (Contact, "b", Different)]);
        assert_eq!(before.since(before.counts()), None);
        let mut after = before.clone();
        for (id, kind) in [("c", Missing), ("d", Extra), ("e", Extra)] {
            after.add(difference(Contact, id, kind));
        }
        assert_eq!(after.since(before.counts()).as_deref(), Some(r#"{"different":0,"extra":2,"missing":1}"#));
    }
}
