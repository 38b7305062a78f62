//! The mirror's id: random and created once. Cursors of the feed begin with it, so that a follower of one mirror never
//! continues on another. A mirror whose id is lost gets a new one, and its followers start again.

use uuid::Uuid;

use crate::store::error::StoreError;
use crate::store::state_keys::StateKey;
use crate::store::tx::MirrorTx;

impl MirrorTx<'_> {
    /// Gives the mirror an id if it has none.
    pub(in crate::store) fn name_mirror(&self) -> Result<(), StoreError> {
        if self.state::<String>(&StateKey::MirrorId)?.is_some_and(|id| !id.is_empty()) {
            return Ok(());
        }
        self.renew_mirror_id()
    }

    /// Gives the mirror a new id, because a copy is a different mirror.
    pub fn renew_mirror_id(&self) -> Result<(), StoreError> {
        self.set_state(&StateKey::MirrorId, &self.random_id()?)
    }

    /// A random text of 32 digits.
    pub(super) fn random_id(&self) -> Result<String, StoreError> {
        Ok(Uuid::new_v4().simple().to_string())
    }
}
