//! `sweep_missing`: records that are nominated for removal; only the service can confirm the removal.
//!
//! The record of undecided nominations is cleared when one of them is withdrawn, because the service has shown a
//! record.

use rusqlite::types::Value;
use rusqlite::{params, params_from_iter};

use crate::model::catalogue::Object;
use crate::model::ids::RecordId;
use crate::model::instant::Instant;
use crate::store::error::{Doing, StoreError};
use crate::store::reader::ReadTx;
use crate::store::state_keys::StateKey;
use crate::store::tx::MirrorTx;

const DOING: &str = "compare a page with the mirror";

impl ReadTx<'_> {
    /// The nominated records, those that fit a list first.
    pub fn nominated(&self, object: Object) -> Result<Vec<RecordId>, StoreError> {
        let mut stmt = self
            .conn
            .prepare_cached("SELECT id FROM sweep_missing WHERE object_type = ?1 ORDER BY instr(id, ',') > 0, id")
            .doing(DOING)?;
        stmt.query_map([object.as_str()], |row| Ok(RecordId::new(row.get::<_, String>(0)?)))
            .and_then(Iterator::collect)
            .doing(DOING)
    }
}

impl MirrorTx<'_> {
    /// Nominates the records created between two instants (each with whether it is included) that are not among `ids`,
    /// a JSON array.
    pub fn nominate_between(
        &self,
        object: Object,
        low: Option<(Instant, bool)>,
        high: Option<(Instant, bool)>,
        ids: &str,
    ) -> Result<(), StoreError> {
        let mut sql = format!(
            "INSERT OR IGNORE INTO sweep_missing (object_type, id) SELECT ?1, id FROM {} WHERE created_at IS NOT NULL",
            object.table()
        );
        let mut values: Vec<Value> = vec![object.as_str().to_string().into(), ids.to_string().into()];
        if let Some((low, inside)) = low {
            values.push(low.to_string().into());
            sql.push_str(&format!(" AND created_at {} ?{}", if inside { ">=" } else { ">" }, values.len()));
        }
        if let Some((high, inside)) = high {
            values.push(high.to_string().into());
            sql.push_str(&format!(" AND created_at {} ?{}", if inside { "<=" } else { "<" }, values.len()));
        }
        sql.push_str(" AND id NOT IN (SELECT value FROM json_each(?2))");
        self.conn.prepare_cached(&sql).and_then(|mut stmt| stmt.execute(params_from_iter(values))).doing(DOING)?;
        Ok(())
    }

    /// Nominates the records without a creation date that are not among `ids`, a JSON array.
    pub fn nominate_dateless(&self, object: Object, ids: &str) -> Result<(), StoreError> {
        let sql = format!(
            "INSERT OR IGNORE INTO sweep_missing (object_type, id) SELECT ?1, id FROM {}
             WHERE created_at IS NULL AND id NOT IN (SELECT value FROM json_each(?2))",
            object.table()
        );
        self.conn.prepare_cached(&sql).and_then(|mut stmt| stmt.execute(params![object.as_str(), ids])).doing(DOING)?;
        Ok(())
    }

    /// Withdraws the nominations of records that were seen; `ids` is a JSON array.
    pub fn withdraw_nominations(&self, object: Object, ids: &str) -> Result<(), StoreError> {
        let none = "SELECT NOT EXISTS (SELECT 1 FROM sweep_missing)";
        if self.conn.prepare_cached(none).and_then(|mut stmt| stmt.query_row([], |row| row.get(0))).doing(DOING)? {
            return Ok(());
        }
        let withdrawn = self
            .conn
            .prepare_cached(
                "DELETE FROM sweep_missing WHERE object_type = ?1 AND id IN (SELECT value FROM json_each(?2))",
            )
            .and_then(|mut stmt| stmt.execute(params![object.as_str(), ids]))
            .doing(DOING)?;
        if withdrawn > 0 { self.clear_state(&StateKey::UndecidedRemovals(object)) } else { Ok(()) }
    }

    /// Withdraws all nominations of an object.
    pub fn clear_nominations(&self, object: Object) -> Result<(), StoreError> {
        self.conn.execute("DELETE FROM sweep_missing WHERE object_type = ?1", [object.as_str()]).doing(DOING)?;
        self.clear_state(&StateKey::UndecidedRemovals(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    /// A mirror with a contact created at each of the seconds 1 to 3 and one without a date, and a company at second 2.
    async fn mirror() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("mirror.db")).unwrap();
        let insert = store.write(|tx| {
            let contact = "INSERT INTO contacts (id, created_at, synced_at) VALUES (?1, ?2, '')";
            for n in 1..4 {
                tx.conn.execute(contact, params![format!("c{n}"), at(n).to_string()]).unwrap();
            }
            tx.conn.execute(contact, params!["dateless", None::<String>]).unwrap();
            let company = "INSERT INTO companies (id, created_at, synced_at) VALUES ('co', ?1, '')";
            tx.conn.execute(company, [at(2).to_string()]).unwrap();
            Ok(())
        });
        insert.await.unwrap();
        (dir, store)
    }

    fn at(second: i64) -> Instant {
        Instant::from_secs(second).unwrap()
    }

    /// The nominations: contacts, then companies.
    async fn nominated(store: &Store) -> Vec<String> {
        let both = store.read(|tx| Ok([tx.nominated(Object::Contact)?, tx.nominated(Object::Company)?].concat()));
        both.await.unwrap().iter().map(|id| id.as_str().to_string()).collect()
    }

    #[tokio::test]
    async fn records_between_two_instants_that_were_not_seen_are_nominated() {
        let some = |second| (at(second), true);
        for (low, high, seen, expected) in [
            (None, None, "[]", &["c1", "c2", "c3"][..]),
            (None, None, r#"["c1","dateless"]"#, &["c2", "c3"]),
            (Some(some(2)), None, "[]", &["c2", "c3"]),
            (Some((at(2), false)), None, "[]", &["c3"]),
            (None, Some(some(2)), "[]", &["c1", "c2"]),
            (None, Some((at(2), false)), "[]", &["c1"]),
            (Some((at(1), false)), Some((at(3), false)), "[]", &["c2"]),
            (Some(some(1)), Some(some(3)), r#"["c1","c2","c3"]"#, &[]),
        ] {
            let (_dir, store) = mirror().await;
            store.write(move |tx| tx.nominate_between(Object::Contact, low, high, seen)).await.unwrap();
            assert_eq!(nominated(&store).await, expected, "{low:?} {high:?} {seen}");
            store.close().await;
        }
    }

    #[tokio::test]
    async fn records_without_a_date_that_were_not_seen_are_nominated() {
        for (seen, expected) in [("[]", &["dateless"][..]), (r#"["dateless"]"#, &[]), (r#"["c1"]"#, &["dateless"])] {
            let (_dir, store) = mirror().await;
            store.write(move |tx| tx.nominate_dateless(Object::Contact, seen)).await.unwrap();
            assert_eq!(nominated(&store).await, expected, "{seen}");
            store.close().await;
        }
    }

    /// A mirror whose records are nominated, and whose nominations are noted as undecided.
    async fn undecided() -> (tempfile::TempDir, Store) {
        let (dir, store) = mirror().await;
        let nominate = store.write(|tx| {
            for object in Object::ALL {
                tx.nominate_between(object, None, None, "[]")?;
                tx.set_state(&StateKey::UndecidedRemovals(object), &true)?;
            }
            Ok(())
        });
        nominate.await.unwrap();
        (dir, store)
    }

    async fn is_undecided(store: &Store) -> [bool; 2] {
        let noted = store.read(|tx| {
            let of = |object| Ok(tx.state::<bool>(&StateKey::UndecidedRemovals(object))?.is_some());
            Ok([of(Object::Contact)?, of(Object::Company)?])
        });
        noted.await.unwrap()
    }

    #[tokio::test]
    async fn record_that_was_seen_ends_the_wait_of_its_object() {
        for (seen, left, waits) in [
            (r#"["c1","c2"]"#, &["c3", "co"][..], [false, true]),
            (r#"["c1"]"#, &["c2", "c3", "co"], [false, true]),
            (r#"["dateless","co"]"#, &["c1", "c2", "c3", "co"], [true, true]),
            ("[]", &["c1", "c2", "c3", "co"], [true, true]),
        ] {
            let (_dir, store) = undecided().await;
            store.write(move |tx| tx.withdraw_nominations(Object::Contact, seen)).await.unwrap();
            assert_eq!(nominated(&store).await, left, "{seen}");
            assert_eq!(is_undecided(&store).await, waits, "{seen}");
            store.close().await;
        }
    }

    #[tokio::test]
    async fn nominations_of_one_object_are_withdrawn_without_those_of_the_other() {
        let (_dir, store) = undecided().await;
        store.write(|tx| tx.clear_nominations(Object::Contact)).await.unwrap();
        assert_eq!(nominated(&store).await, ["co"]);
        assert_eq!(is_undecided(&store).await, [false, true]);
        store.close().await;
    }
}
