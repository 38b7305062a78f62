//! Jobs: what a run should do.
//!
//! The same type is used on the command line and in the daemon's queue; its kind is in `sync_runs`.

use crate::model::Resource;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// Changes, then work in progress: sweeps, details.
    Sync { objects: Selection, accept: Acceptance },
    /// Every record, whatever its age.
    Resync { objects: Selection, accept: Acceptance },
    /// A comparison of the mirror with the service.
    Verify {
        /// Contacts, companies or both.
        objects: Selection,
        /// Whether to compare every listed field of every record, at 1 RU per 100, instead of counting.
        full: bool,
        repair: bool,
        accept: Acceptance,
    },
    /// Local edits only, if `write_back` is enabled.
    Push,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    #[default]
    All,
    /// The configured ones, if they are due.
    Configured(Vec<Resource>),
    /// Those that a person named: they are read even if they are not due.
    Named(Vec<Resource>),
}

/// Permissions that only a person can give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acceptance {
    /// Any number of records that the service no longer has may be removed.
    pub removals: bool,
    /// A different workspace may replace the mirrored one.
    pub workspace: bool,
}

impl Selection {
    /// The named resources; all if none is named.
    pub fn named(resources: &[Resource]) -> Selection {
        if resources.is_empty() { Selection::All } else { Selection::Named(resources.to_vec()) }
    }

    /// The resources; `None` for all.
    pub fn resources(&self) -> Option<&[Resource]> {
        match self {
            Selection::All => None,
            Selection::Configured(resources) | Selection::Named(resources) => Some(resources),
        }
    }

    pub fn contains(&self, resource: Resource) -> bool {
        self.resources().is_none_or(|resources| resources.contains(&resource))
    }

    pub fn names(&self, resource: Resource) -> bool {
        matches!(self, Selection::Named(resources) if resources.contains(&resource))
    }

    /// This selection, limited to the configured resources; all of those if none was named.
    pub fn within(self, configured: Option<&[Resource]>) -> Result<Selection, Resource> {
        let Some(configured) = configured else { return Ok(self) };
        match self {
            Selection::Named(named) => match named.iter().find(|resource| !configured.contains(resource)) {
                None => Ok(Selection::Named(named)),
                Some(other) => Err(*other),
            },
            Selection::All | Selection::Configured(_) => Ok(Selection::Configured(configured.to_vec())),
        }
    }
}

impl Job {
    pub fn sync() -> Job {
        Job::Sync { objects: Selection::All, accept: Acceptance::default() }
    }

    pub fn resync() -> Job {
        Job::Resync { objects: Selection::All, accept: Acceptance::default() }
    }

    /// A verification of contacts and companies by counts, without repair.
    pub fn verify() -> Job {
        Job::Verify { objects: Selection::All, full: false, repair: false, accept: Acceptance::default() }
    }

    /// The scheduled audit: [`Job::verify`] with repair.
    pub fn audit() -> Job {
        Job::Verify { objects: Selection::All, full: false, repair: true, accept: Acceptance::default() }
    }

    /// The name in `sync_runs`, on the socket and in texts.
    pub const fn kind(&self) -> &'static str {
        match self {
            Job::Sync { .. } => "sync",
            Job::Resync { .. } => "resync",
            Job::Verify { .. } => "verify",
            Job::Push => "push",
        }
    }

    /// The selection; `None` for a job that reads no list.
    pub fn selection(&self) -> Option<&Selection> {
        match self {
            Job::Sync { objects, .. } | Job::Resync { objects, .. } | Job::Verify { objects, .. } => Some(objects),
            Job::Push => None,
        }
    }

    pub fn concerns(&self, resource: Resource) -> bool {
        self.selection().is_some_and(|objects| objects.contains(resource))
    }

    pub fn names(&self, resource: Resource) -> bool {
        self.selection().is_some_and(|objects| objects.names(resource))
    }

    pub fn accept(&self) -> Acceptance {
        match self {
            Job::Sync { accept, .. } | Job::Resync { accept, .. } | Job::Verify { accept, .. } => *accept,
            Job::Push => Acceptance::default(),
        }
    }

    #[must_use]
    pub fn about(mut self, selection: Selection) -> Job {
        if let Job::Sync { objects, .. } | Job::Resync { objects, .. } | Job::Verify { objects, .. } = &mut self {
            *objects = selection;
        }
        self
    }

    /// The same job for these resources, named by a person.
    #[must_use]
    pub fn of(self, resources: &[Resource]) -> Job {
        self.about(Selection::named(resources))
    }

    #[must_use]
    pub fn accepting(mut self, allowed: Acceptance) -> Job {
        if let Job::Sync { accept, .. } | Job::Resync { accept, .. } | Job::Verify { accept, .. } = &mut self {
            *accept = allowed;
        }
        self
    }

    #[must_use]
    pub fn accepting_removals(self) -> Job {
        let accept = Acceptance { removals: true, ..self.accept() };
        self.accepting(accept)
    }

    pub fn within(self, configured: Option<&[Resource]>) -> Result<Job, Resource> {
        match self.selection().cloned() {
            Some(objects) => Ok(self.about(objects.within(configured)?)),
            None => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Resource::{Companies, Contacts, TeamMembers};

    #[test]
    fn configuration_limits_a_job() {
        let configured = Some(&[Contacts, TeamMembers][..]);
        assert_eq!(Job::sync().within(None), Ok(Job::sync()));
        let within = Job::sync().within(configured).unwrap();
        assert_eq!(within.selection(), Some(&Selection::Configured(vec![Contacts, TeamMembers])));
        assert!(within.concerns(Contacts) && !within.names(Contacts) && !within.concerns(Companies));
        let named = Job::resync().of(&[Contacts]).within(configured).unwrap();
        assert!(named.names(Contacts) && !named.concerns(TeamMembers));
        assert_eq!(Job::sync().of(&[Companies]).within(configured), Err(Companies));
        assert_eq!(Job::Push.within(configured), Ok(Job::Push));
    }
}
