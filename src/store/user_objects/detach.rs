//! Removes users' objects before a change of the columns and restores them afterwards.

use std::path::Path;

use super::files::{self, ViewFiles};
use super::objects;
use super::report;
use super::state_entry::PeopleState;
use crate::store::derived::options::ViewOptions;
use crate::store::error::StoreError;
use crate::store::state_keys::StateKey;
use crate::store::tx::MirrorTx;

impl MirrorTx<'_> {
    /// Removes users' views and triggers from the file until the columns have been changed in this transaction.
    pub(in crate::store) fn remove_user_objects(&self) -> Result<(), StoreError> {
        let mut aside = self.pending.aside.borrow_mut();
        if aside.is_none() {
            *aside = Some(objects::set_aside(&self.conn)?);
        }
        Ok(())
    }

    /// Removes users' indexes on a column that will be dropped.
    pub(in crate::store) fn set_indexes_aside(&self, table: &str, column: &str) -> Result<(), StoreError> {
        self.remove_user_objects()?;
        let taken = objects::take_indexes(&self.conn, table, column)?;
        self.pending.aside.borrow_mut().get_or_insert_default().extend(taken);
        Ok(())
    }

    /// Restores the removed objects, retries those refused before, and recreates the views of the directory.
    pub(in crate::store) fn restore_user_objects(&self) -> Result<(), StoreError> {
        let Some(mut objects) = self.pending.aside.take() else { return Ok(()) };
        let known: PeopleState = self.state(&StateKey::PeopleObjects)?.unwrap_or_default();
        objects.retain(|object| object.kind != "view" || known.files.file_of(&object.name).is_none());
        objects.extend(known.refused.iter().cloned());
        // Triggers may be on the views from files.
        let (views, others): (Vec<_>, Vec<_>) = objects.into_iter().partition(|object| object.kind == "view");
        let mut refused = objects::put_back(&self.conn, &views);
        let files = files::apply(&self.conn, &known.files, &self.view_files()?)?;
        refused.extend(objects::put_back(&self.conn, &others));
        self.remember_people(&known, &PeopleState { refused, files })
    }

    /// Drops users' indexes that could make a write fail. Call it before the first write after a change of the schema.
    pub(in crate::store) fn drop_harmful_indexes(&self) -> Result<(), StoreError> {
        let dropped = objects::drop_harmful_indexes(&self.conn)?;
        if dropped.is_empty() {
            return Ok(());
        }
        let mut known: PeopleState = self.state(&StateKey::PeopleObjects)?.unwrap_or_default();
        known.refused.retain(|object| dropped.iter().all(|index| index.name != object.name));
        for index in dropped {
            tracing::warn!("The index `{}` was dropped: {}", index.name, index.why);
            known.refused.push(index);
        }
        self.set_state(&StateKey::PeopleObjects, &known)
    }

    /// Recreates the views of the directory if a file changed.
    pub(in crate::store) fn refresh_view_files(&self) -> Result<(), StoreError> {
        let known: PeopleState = self.state(&StateKey::PeopleObjects)?.unwrap_or_default();
        let found = self.view_files()?;
        if known.files.digest == files::digest(&found) || known.files.digest.is_empty() && found.is_empty() {
            return Ok(());
        }
        let files = files::apply(&self.conn, &known.files, &found)?;
        self.remember_people(&known, &PeopleState { refused: known.refused.clone(), files })
    }

    fn view_files(&self) -> Result<ViewFiles, StoreError> {
        let options: ViewOptions = self.state(&StateKey::ViewOptions)?.unwrap_or_default();
        Ok(options.folder.map(|folder| files::read(Path::new(&folder))).unwrap_or_default())
    }

    /// Stores the state of users' objects, and logs a warning for each that stopped working.
    fn remember_people(&self, known: &PeopleState, now: &PeopleState) -> Result<(), StoreError> {
        for object in now.refused.iter().filter(|object| known.refused.iter().all(|old| old.name != object.name)) {
            tracing::warn!("The {} `{}` could not be kept: {}", object.kind, object.name, object.why);
        }
        for (file, why) in now.files.refused.iter().filter(|(file, _)| !known.files.refused.contains_key(*file)) {
            tracing::warn!("The file `{file}` of database.views was not applied: {why}");
        }
        self.set_state(&StateKey::PeopleObjects, now)?;
        for broken in report::views(&self.conn, &now.files)? {
            tracing::warn!("The {} `{}` does not work: {}", broken.kind, broken.name, broken.why);
        }
        Ok(())
    }
}
