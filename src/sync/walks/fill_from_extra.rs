//! Moves the values of a field that became known out of `extra`, for 0 RU: values under unknown keys are kept there.
//! They are decoded like those of an answer.

use std::collections::BTreeSet;

use serde_json::value::RawValue;

use crate::api::decode;
use crate::model::record::Extra;
use crate::model::request_order::RequestStamp;
use crate::model::{CustomField, Object, RecordId};
use crate::store::StoreError;
use crate::sync::error::{Asking, SyncError};
use crate::sync::run::Run;

/// Rows that are looked at in one transaction.
const BATCH: usize = 500;

impl Run<'_> {
    /// Moves the values of these fields from `extra` into their columns. Gives the fields that got any.
    pub(in crate::sync) async fn fill_from_extra(
        &self,
        object: Object,
        fields: &[CustomField],
    ) -> Result<BTreeSet<RecordId>, SyncError> {
        let mut got = BTreeSet::new();
        for of_details in [false, true] {
            let keys: Vec<CustomField> =
                fields.iter().filter(|field| field.data_type.detail_only() == of_details).cloned().collect();
            if keys.is_empty() {
                continue;
            }
            let mut after = None;
            loop {
                let from = after.clone();
                let reading = self.read(move |tx| tx.rows_with_custom_extra(object, of_details, from.as_ref(), BATCH));
                let rows = reading.await?;
                let Some((last, _)) = rows.last() else { break };
                after = Some(last.clone());
                got.extend(self.take_from_extra(object, of_details, &keys, rows).await?);
            }
        }
        Ok(got)
    }

    async fn take_from_extra(
        &self,
        object: Object,
        of_details: bool,
        fields: &[CustomField],
        rows: Vec<(RecordId, Extra)>,
    ) -> Result<BTreeSet<RecordId>, SyncError> {
        let (mut got, mut items) = (BTreeSet::new(), Vec::new());
        for (id, extra) in &rows {
            let mut known = Vec::new();
            for field in fields {
                if let Some(source) = extra.get(CUSTOM, field.key.as_str()) {
                    got.insert(field.definition.clone());
                    known.push(member(field.key.as_str(), source));
                }
            }
            if !known.is_empty() {
                let values = format!("{{{}}}", known.join(","));
                items.push(format!("{{{},{}}}", member("id", &quoted(id.as_str())), member(CUSTOM, &values)));
            }
        }
        if items.is_empty() {
            return Ok(got);
        }
        let (resource, doing) = (object.resource(), "fill the new fields of");
        let body = format!("{{\"data\":[{}],\"nextCursor\":null}}", items.join(","));
        let layout = self.store().layout();
        let page = decode::page(resource, body.as_bytes(), &layout).asking(doing, resource)?;
        let asked = RequestStamp::new(self.engine.clock.reading(), self.store().requests().begin());
        let taken = self.write(move |tx| {
            tx.expect_layout(layout.version)?;
            let phase = tx.phase(object)?;
            for record in &page.records {
                tx.custom().fill_from_extra(object, record, of_details, &asked, phase)?;
            }
            Ok(())
        });
        match taken.await {
            // The definitions changed once more meanwhile: the back-fill brings the values.
            Err(SyncError::Store(StoreError::StaleLayout)) => Ok(BTreeSet::new()),
            other => other.map(|()| got),
        }
    }
}

/// The object of custom values.
const CUSTOM: &str = "customFields";

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn member(name: &str, source: &str) -> String {
    // What is no JSON text of its own cannot have been kept.
    let source = serde_json::from_str::<&RawValue>(source).map_or("null", |raw| raw.get());
    format!("{}:{source}", quoted(name))
}
