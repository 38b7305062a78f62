//! Local edits inside a run: they go first, before anything is read.

use super::engine::Engine;
use super::error::SyncError;

impl Engine {
    /// Sends the edits that wait.
    pub(super) async fn push_edits(&self) -> Result<(), SyncError> {
        Ok(())
    }
}
