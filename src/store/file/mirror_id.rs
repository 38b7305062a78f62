//! Which mirror a file is: a random id, made once. A feed's cursors begin with it, so that a follower of one mirror never
//! continues on another. A mirror whose id is lost gets a new one, and its followers begin again.

use crate::store::error::StoreError;
use crate::store::state::StateKey;
use crate::store::tx::MirrorTx;

/// Random bytes of an id.
const BYTES: usize = 12;

impl MirrorTx<'_> {
    /// Gives the mirror an id if it has none.
    pub(in crate::store) fn name_mirror(&self) -> Result<(), StoreError> {
        if self.state::<String>(&StateKey::MirrorId)?.is_some_and(|id| !id.is_empty()) {
            return Ok(());
        }
        self.renew_mirror_id()
    }

    /// Gives the mirror a new id: a copy that goes its own way is another mirror.
    ///
    /// # Errors
    /// If SQLite or the system's random numbers refuse.
    pub fn renew_mirror_id(&self) -> Result<(), StoreError> {
        let mut bytes = [0u8; BYTES];
        getrandom::fill(&mut bytes).map_err(|source| StoreError::Random(source.to_string()))?;
        let id: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.set_state(&StateKey::MirrorId, &id)
    }
}
