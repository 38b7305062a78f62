//! Custom keys without a definition: the definitions are read once for each key, not in every run that finds it. Later
//! definitions are found by the regular reading.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{FieldKey, Object, Record};
use crate::store::{MirrorTx, StateKey, StoreError};

/// The maximum number of stored keys per object; beyond that, keys cause no reading.
const MAX_KEYS: usize = 1_000;

/// The keys of one object, and whether the definitions were read since each was first seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct UnknownKeys(BTreeMap<FieldKey, bool>);

/// Records the unknown keys of records in the transaction that stores them. Returns whether one of them requires
/// reading the definitions.
pub(in crate::sync) fn note(tx: &MirrorTx<'_>, object: Object, records: &[Record]) -> Result<bool, StoreError> {
    if records.iter().all(|record| record.unknown_keys.is_empty()) {
        return Ok(false);
    }
    let entry = StateKey::UnknownKeys(object);
    let mut known: UnknownKeys = tx.state(&entry)?.unwrap_or_default();
    let (before, mut is_new) = (known.0.len(), false);
    for key in records.iter().flat_map(|record| &record.unknown_keys) {
        if known.0.contains_key(key) || known.0.len() < MAX_KEYS {
            is_new |= !*known.0.entry(key.clone()).or_default();
        }
    }
    if known.0.len() > before {
        tx.set_state(&entry, &known)?;
    }
    Ok(is_new)
}

/// Records that the definitions were read: for the keys seen so far, reading them again would be useless.
pub(in crate::sync) fn definitions_were_read(tx: &MirrorTx<'_>) -> Result<(), StoreError> {
    for object in Object::ALL {
        let entry = StateKey::UnknownKeys(object);
        let Some(UnknownKeys(keys)) = tx.state(&entry)? else { continue };
        if keys.values().any(|asked| !asked) {
            tx.set_state(&entry, &UnknownKeys(keys.into_keys().map(|key| (key, true)).collect()))?;
        }
    }
    Ok(())
}
