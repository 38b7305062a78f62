//! Nominations for removal: the doubts about records that an answer lacked. Only the service can confirm the removal.

use rusqlite::params_from_iter;
use rusqlite::types::Value;

use crate::model::catalogue::Object;
use crate::model::ids::RecordId;
use crate::model::instant::Instant;
use crate::store::error::StoreError;
use crate::store::reader::ReadTx;
use crate::store::sql_types::json_list;
use crate::store::statements::{Statements, fits_a_list};
use crate::store::tx::KnowledgeTx;

const DOING: &str = "nominate records for removal";

impl ReadTx<'_> {
    /// The records that are nominated for removal, those that fit a list first.
    pub fn nominated(&self, object: Object) -> Result<Vec<RecordId>, StoreError> {
        let sql = format!(
            "SELECT record_id FROM doubts WHERE object_type = ?1 AND why = 'missed' ORDER BY NOT {}, record_id",
            fits_a_list("record_id")
        );
        self.conn.column(&sql, [object], DOING)
    }
}

impl KnowledgeTx<'_> {
    /// Nominates records for removal; unknown ones are ignored.
    pub fn nominate(&self, object: Object, ids: &[RecordId]) -> Result<(), StoreError> {
        self.nominate_where(object, "id IN (SELECT value FROM json_each(?3))", vec![json_list(ids).into()])
    }

    /// Nominates the records created between two instants (each with whether it is included) that are not among `ids`,
    /// a JSON array.
    pub fn nominate_between(
        &self,
        object: Object,
        low: Option<(Instant, bool)>,
        high: Option<(Instant, bool)>,
        ids: &str,
    ) -> Result<(), StoreError> {
        let mut condition = String::from("created_at IS NOT NULL AND id NOT IN (SELECT value FROM json_each(?3))");
        let mut values: Vec<Value> = vec![ids.to_string().into()];
        for (bound, inside, outside) in [(low, ">=", ">"), (high, "<=", "<")] {
            if let Some((at, included)) = bound {
                values.push(at.to_string().into());
                let compare = if included { inside } else { outside };
                condition.push_str(&format!(" AND created_at {compare} ?{}", values.len() + 2));
            }
        }
        self.nominate_where(object, &condition, values)
    }

    /// Nominates the records without a creation date that are not among `ids`, a JSON array.
    pub fn nominate_dateless(&self, object: Object, ids: &str) -> Result<(), StoreError> {
        let condition = "created_at IS NULL AND id NOT IN (SELECT value FROM json_each(?3))";
        self.nominate_where(object, condition, vec![ids.to_string().into()])
    }

    /// The values of the condition begin with `?3`.
    fn nominate_where(&self, object: Object, condition: &str, mut values: Vec<Value>) -> Result<(), StoreError> {
        let sql = format!(
            "INSERT OR IGNORE INTO doubts (object_type, record_id, why, first_seen)
             SELECT ?1, id, 'missed', ?2 FROM {} WHERE {condition}",
            object.table()
        );
        values.splice(
            0..0,
            [object.as_str().to_string().into(), self.tx.answer.get().map(|answer| answer.steady.to_string()).into()],
        );
        let nominated = self.tx.conn.change(&sql, params_from_iter(values), DOING)?;
        if nominated > 0 {
            self.tx.pending.doubts[object as usize].set(Some(true));
        }
        Ok(())
    }

    pub fn clear_nominations(&self, object: Object) -> Result<(), StoreError> {
        self.delete_doubts("object_type = ?1 AND why = 'missed'", [object])
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::params;

    use super::*;
    use crate::store::{MirrorTx, Store};

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
            store.write(move |tx| tx.knowledge().nominate_between(Object::Contact, low, high, seen)).await.unwrap();
            assert_eq!(nominated(&store).await, expected, "{low:?} {high:?} {seen}");
            store.close().await;
        }
    }

    #[tokio::test]
    async fn records_without_a_date_that_were_not_seen_are_nominated() {
        for (seen, expected) in [("[]", &["dateless"][..]), (r#"["dateless"]"#, &[]), (r#"["c1"]"#, &["dateless"])] {
            let (_dir, store) = mirror().await;
            store.write(move |tx| tx.knowledge().nominate_dateless(Object::Contact, seen)).await.unwrap();
            assert_eq!(nominated(&store).await, expected, "{seen}");
            store.close().await;
        }
    }

    #[tokio::test]
    async fn nominations_of_one_object_are_withdrawn_without_those_of_the_other() {
        let (_dir, store) = mirror().await;
        let nominate = |tx: &MirrorTx<'_>, object| tx.knowledge().nominate_between(object, None, None, "[]");
        store.write(move |tx| Object::ALL.into_iter().try_for_each(|object| nominate(tx, object))).await.unwrap();
        assert_eq!(nominated(&store).await, ["c1", "c2", "c3", "co"]);
        store.write(|tx| tx.knowledge().clear_nominations(Object::Contact)).await.unwrap();
        assert_eq!(nominated(&store).await, ["co"]);
        store.close().await;
    }
}
