//! The state that the target database stores, in the row that every transaction updates.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::tables::{Publication, PublishedTable};
use super::{sql, value};
use crate::model::Object;
use crate::store::{CopyProof, RefusedRow};

pub(super) const APPEARANCE: &str = "appearance";
pub(super) const PRUNED: &str = "pruned";

/// The maximum number of refused rows that a report names.
const NAMED: usize = 20;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct TargetState {
    /// The mirror, and the position in its feed; `None` if a load is owed, or the text cannot be parsed.
    #[serde(skip)]
    pub(super) cursor: Option<(String, i64)>,
    #[serde(skip)]
    pub(super) generation: i64,
    /// A digest of what is published and what is excluded.
    pub(super) settings: String,
    /// The number of the newest changed record that was sent.
    pub(super) changed: i64,
    pub(super) loaded: Vec<Object>,
    /// Digests of what tables show and changed records do not tell, by table, and of the input for comments and indexes; and up
    /// to where the history was pruned.
    pub(super) digests: BTreeMap<String, String>,
    /// The tables that are not known to be equal, and those that are not published and may have rows.
    pub(super) owed: BTreeSet<String>,
    /// The rows that the database refuses, by table: the name of each, and why.
    pub(super) refused: BTreeMap<String, BTreeMap<String, String>>,
    /// What a table had before it was replaced, and was not made again, by table: a sentence about each, until it is there, or
    /// the table is replaced once more.
    pub(super) lost: BTreeMap<String, BTreeMap<String, String>>,
    /// What the last comparison proved. It is stored with what it is about: a database that is restored from a backup has
    /// the proof of that time.
    pub(super) proof: CopyProof,
}

impl TargetState {
    /// Parses the row. An unknown form counts as empty: everything is loaded again.
    pub(super) fn read(cursor: &str, generation: i64, details: &str) -> TargetState {
        let cursor = cursor.rsplit_once(':').and_then(|(mirror, seq)| Some((mirror.to_string(), seq.parse().ok()?)));
        TargetState { cursor, generation, ..serde_json::from_str(details).unwrap_or_default() }
    }

    /// Whether rows of a table are sent: those of records are once their first copy is finished.
    pub(super) fn is_loaded(&self, table: &PublishedTable) -> bool {
        table.is_chosen && table.object().is_none_or(|object| self.loaded.contains(&object))
    }

    /// The history up to this position was deleted in the database.
    pub(super) fn pruned(&self) -> i64 {
        self.digests.get(PRUNED).and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// The position in the feed; 0 before the first load.
    pub(super) fn seq(&self) -> i64 {
        self.cursor.as_ref().map_or(0, |(_, seq)| *seq)
    }

    pub(super) fn cursor_text(&self) -> String {
        self.cursor.as_ref().map(|(mirror, seq)| format!("{mirror}:{seq}")).unwrap_or_default()
    }

    /// The number of rows that are left out, and the first of them.
    pub(super) fn refused_rows(&self) -> (u64, Vec<RefusedRow>) {
        let rows = self.refused.iter().flat_map(|(table, rows)| rows.iter().map(move |row| (table, row)));
        let named = rows.clone().take(NAMED).map(|(table, (name, why))| RefusedRow {
            table: table.clone(),
            name: name.clone(),
            reason: why.clone(),
        });
        (rows.count() as u64, named.collect())
    }

    /// Why everything has to be loaded again; `None` if the feed can be continued from the cursor.
    pub(super) fn why_reload(&self, publication: &Publication) -> Option<&'static str> {
        let Some((mirror, seq)) = &self.cursor else { return Some("nothing was published yet") };
        if let Some(why) = publication.end.refuses(mirror, *seq, self.changed) {
            return Some(why);
        }
        if self.settings != settings(publication) {
            return Some("the set of published columns, or their form, has changed");
        }
        let is_new = |object: &Object| !self.loaded.contains(object);
        publication.copied.iter().any(is_new).then_some("a first copy has finished since the last publish")
    }

    /// The state while everything is to be loaded.
    pub(super) fn after_load(&self, publication: &Publication) -> TargetState {
        TargetState {
            cursor: Some((publication.end.mirror.clone(), publication.end.newest)),
            settings: settings(publication),
            changed: publication.end.changed,
            loaded: publication.copied.clone(),
            owed: publication.tables.iter().map(|table| table.name.into()).collect(),
            proof: CopyProof::default(),
            ..self.clone()
        }
    }
}

fn settings(publication: &Publication) -> String {
    let names: Vec<&str> = publication.chosen_tables().map(|table| table.name).collect();
    value::digest(format!("{names:?} {:?} {}", publication.layout.exclusions.entries, publication.rewrites).as_bytes())
}

pub(super) fn appearance(publication: &Publication) -> String {
    let of_tables = publication.chosen_tables().map(|table| sql::appearance("", table, &[]));
    value::digest(of_tables.collect::<String>().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Exclusions, Layout};
    use crate::store::publishing::source::FeedEnd;

    fn publication(exclude: &str) -> Publication {
        Publication {
            end: FeedEnd { mirror: "m".into(), newest: 7, forgotten: 0, changed: 4 },
            copied: Object::ALL.to_vec(),
            layout: Layout { exclusions: Exclusions::new(&[exclude.to_string()]).into(), ..Layout::default() },
            ..Publication::default()
        }
    }

    #[test]
    fn feed_is_continued_or_everything_is_loaded_again() {
        let plain = publication("notes");
        let at = |mirror: &str, forgotten, newest, changed| {
            let end = FeedEnd { mirror: mirror.into(), newest, forgotten, changed };
            Publication { end, ..plain.clone() }
        };
        let of = |forgotten, newest| at("m", forgotten, newest, 4);
        let state = TargetState::default().after_load(&plain);
        let again = TargetState::read(&state.cursor_text(), 3, &serde_json::to_string(&state).unwrap());
        assert_eq!(again, TargetState { generation: 3, ..state });
        assert_eq!(again.why_reload(&of(0, 9)), None);
        assert_eq!(again.why_reload(&of(7, 9)), None);
        for now in [
            at("other", 0, 9, 4),
            of(8, 9),
            of(0, 6),
            Publication { end: of(0, 9).end, ..publication("mobile") },
            at("m", 0, 9, 3),
            Publication { rewrites: 1, ..of(0, 9) },
        ] {
            assert!(again.why_reload(&now).is_some(), "{now:?}");
        }
        let one = TargetState::default().after_load(&Publication { copied: vec![Object::Contact], ..plain.clone() });
        assert!(one.why_reload(&of(0, 9)).is_some());
        assert!(TargetState::read("", 0, "no JSON").why_reload(&of(0, 9)).is_some());
    }
}
