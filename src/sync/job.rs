//! Jobs: what a run should do.
//!
//! The same type is used on the command line and in the daemon's queue; its kind is in `sync_runs`.

use serde::{Deserialize, Serialize};

use crate::model::Resource;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum JobKind {
    /// Changes, then work in progress: sweeps, details.
    #[default]
    Sync,
    /// Every record, whatever its age.
    Resync,
    /// A comparison of the mirror with the service.
    Verify,
    /// Local edits only, if `write_back` is enabled.
    Push,
}

/// The body of a request on the control socket has its members, but for those that the path or the daemon's configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Job {
    #[serde(skip)]
    pub kind: JobKind,
    /// The resources; `None` for all.
    pub objects: Option<Vec<Resource>>,
    /// Whether a person named them: they are read even if they are not due.
    #[serde(skip)]
    pub is_named: bool,
    /// Of a verification: whether to compare every listed field of every record, at 1 RU per 100, instead of counting.
    pub full: bool,
    /// Of a verification: whether to repair what differs.
    pub repair: bool,
    /// Whether a person accepts that any number of records is removed that the service no longer has.
    pub accept_removals: bool,
    /// Whether a person accepts a different workspace in place of the mirrored one.
    #[serde(skip)]
    pub accept_workspace: bool,
}

impl Job {
    pub fn sync() -> Job {
        Job::default()
    }

    pub fn resync() -> Job {
        Job { kind: JobKind::Resync, ..Job::default() }
    }

    /// A verification of contacts and companies by counts, without repair.
    pub fn verify() -> Job {
        Job { kind: JobKind::Verify, ..Job::default() }
    }

    /// The scheduled audit: [`Job::verify`] with repair.
    pub fn audit() -> Job {
        Job { repair: true, ..Job::verify() }
    }

    /// It reads no list.
    pub fn push() -> Job {
        Job { kind: JobKind::Push, objects: Some(Vec::new()), is_named: true, ..Job::default() }
    }

    pub fn is_push(&self) -> bool {
        self.kind == JobKind::Push
    }

    /// The name in `sync_runs`, on the socket and in texts.
    pub fn name(&self) -> &'static str {
        self.kind.into()
    }

    pub fn concerns(&self, resource: Resource) -> bool {
        self.objects.as_ref().is_none_or(|objects| objects.contains(&resource))
    }

    pub fn names(&self, resource: Resource) -> bool {
        self.is_named && self.concerns(resource)
    }

    /// The same job for these resources, named by a person; for all if none is named.
    #[must_use]
    pub fn of(self, resources: &[Resource]) -> Job {
        let is_named = !resources.is_empty();
        Job { objects: is_named.then(|| resources.to_vec()), is_named, ..self }
    }

    #[must_use]
    pub fn accepting_removals(self) -> Job {
        Job { accept_removals: true, ..self }
    }

    /// This job, limited to the configured resources; about all of those if none was named.
    pub fn within(self, configured: Option<&[Resource]>) -> Result<Job, Resource> {
        let Some(configured) = configured else { return Ok(self) };
        if !self.is_named {
            return Ok(Job { objects: Some(configured.to_vec()), ..self });
        }
        match self.objects.iter().flatten().find(|resource| !configured.contains(resource)) {
            None => Ok(self),
            Some(other) => Err(*other),
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
        assert_eq!(within.objects, Some(vec![Contacts, TeamMembers]));
        assert!(within.concerns(Contacts) && !within.names(Contacts) && !within.concerns(Companies));
        let named = Job::resync().of(&[Contacts]).within(configured).unwrap();
        assert!(named.names(Contacts) && !named.concerns(TeamMembers));
        assert_eq!(Job::sync().of(&[Companies]).within(configured), Err(Companies));
        assert_eq!(Job::push().within(configured), Ok(Job::push()));
        assert!(!Job::push().concerns(Contacts));
    }
}
