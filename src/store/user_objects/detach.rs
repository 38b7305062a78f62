//! Removes users' objects before a change of the columns and restores the views afterwards.

use std::path::Path;

use super::files::{self, AppliedFiles, ViewFiles};
use super::objects;
use super::report;
use crate::store::error::StoreError;
use crate::store::tx::DerivedTx;

impl DerivedTx<'_> {
    /// Removes users' views and triggers from the file until the columns have been changed in this transaction.
    pub(in crate::store) fn remove_user_objects(&self) -> Result<(), StoreError> {
        let mut aside = self.tx.pending.aside.borrow_mut();
        if aside.is_none() {
            *aside = Some(objects::set_aside(&self.tx.conn)?);
        }
        Ok(())
    }

    /// Drops users' indexes on a column that will be dropped.
    pub(in crate::store) fn drop_user_indexes(&self, table: &str, column: &str) -> Result<(), StoreError> {
        objects::drop_indexes_on(&self.tx.conn, table, column)
    }

    /// Restores the removed views and recreates those of the directory.
    pub(in crate::store) fn restore_user_objects(&self) -> Result<(), StoreError> {
        let Some(mut views) = self.tx.pending.aside.take() else { return Ok(()) };
        let known = self.built_from()?.files;
        views.retain(|view| known.file_of(&view.name).is_none());
        objects::restore(&self.tx.conn, &views);
        self.apply_view_files(&known, &self.view_files()?)
    }

    /// Drops users' indexes that could make a write fail. Call it before the first write after a change of the schema.
    pub(in crate::store) fn drop_indexes_in_the_way(&self) -> Result<(), StoreError> {
        objects::drop_indexes_in_the_way(&self.tx.conn)
    }

    /// Recreates the views of the directory if a file changed.
    pub(in crate::store) fn refresh_view_files(&self) -> Result<(), StoreError> {
        let known = self.built_from()?.files;
        let found = self.view_files()?;
        if known.digest == files::digest(&found) || known.digest.is_empty() && found.is_empty() {
            return Ok(());
        }
        self.apply_view_files(&known, &found)
    }

    fn view_files(&self) -> Result<ViewFiles, StoreError> {
        Ok(self.built_from()?.options.folder.map(|folder| files::read(Path::new(&folder))).unwrap_or_default())
    }

    /// Applies the files, and logs a warning for each object that does not work.
    fn apply_view_files(&self, known: &AppliedFiles, found: &ViewFiles) -> Result<(), StoreError> {
        let now = files::apply(&self.tx.conn, known, found)?;
        for (file, why) in now.refused.iter().filter(|(file, _)| !known.refused.contains_key(*file)) {
            tracing::warn!("The file `{file}` of database.views was not applied: {why}");
        }
        for broken in report::views(&self.tx.conn, &now)? {
            tracing::warn!("The {} `{}` does not work: {}", broken.kind, broken.name, broken.why);
        }
        self.now_built_from(|built| built.files = now)
    }
}
