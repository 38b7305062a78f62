//! The mirror's id: random and created once. Cursors of the feed begin with it, so that a follower of one mirror never
//! continues on another. A mirror whose id is lost gets a new one, and its followers start again.

use crate::store::error::StoreError;
use crate::store::state_keys::StateKey;
use crate::store::tx::MirrorTx;

/// The number of random bytes.
const BYTES: usize = 12;

impl MirrorTx<'_> {
    /// Gives the mirror an id if it has none.
    pub(in crate::store) fn name_mirror(&self) -> Result<(), StoreError> {
        if self.state::<String>(&StateKey::MirrorId)?.is_some_and(|id| !id.is_empty()) {
            return Ok(());
        }
        self.renew_mirror_id()
    }

    /// Gives the mirror a new id, because a copy is a different mirror.
    ///
    /// # Errors
    /// Returns an error of SQLite or of the system's random number generator.
    pub fn renew_mirror_id(&self) -> Result<(), StoreError> {
        self.set_state(&StateKey::MirrorId, &self.random_id()?)
    }

    /// A random text.
    pub(super) fn random_id(&self) -> Result<String, StoreError> {
        let mut bytes = [0u8; BYTES];
        getrandom::fill(&mut bytes).map_err(|source| StoreError::Random(source.to_string()))?;
        Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}
