//! The order of the steps of a run: a pure function from the knowledge to the next step.
//!
//! The order is the priority. Edits come first; then the short lists, which describe the fields of records; then what
//! keeps the mirror up to date: changes and counts of both objects, and records in doubt; then columns to fill, first copies, and other sweeps; and
//! last details, with the rest of the budget. Objects that the key cannot read are skipped, and the others continue; a step
//! that fails leaves the others alone. The audits of the schedule wait for the first copies: a small budget pays for
//! one or the other.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::job::{Job, JobKind};
use crate::model::{Object, Resource};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Make sure that the key sees the mirrored workspace.
    Identity,
    Edits,
    /// Store the requested sweeps, so that the next run starts those that this one does not reach.
    NoteSweeps,
    Definitions,
    Team,
    Changes(Object),
    /// Read the values of new columns.
    Fill(Object),
    /// Count what walks of more than one page have read.
    Counts(Object),
    /// Decide on the records that are in doubt already: what follows may wait for the budget.
    Doubts(Object),
    Sweep(Object),
    /// Count an object between its audits.
    Total(Object),
    Audit(Object),
    Details(Object),
    /// Read old details again, if RU are left over.
    OldDetails(Object),
    /// Decide on the records that are in doubt since then, such as those whose details were not found.
    LateRemovals(Object),
}

impl Step {
    /// Whether an attempt after an interruption goes on with nothing that was read before.
    pub const fn begins_again(self) -> bool {
        matches!(self, Step::Definitions | Step::Team | Step::Audit(_))
    }

    /// The resource that the step reads; `None` if it concerns the whole run.
    pub const fn resource(self) -> Option<Resource> {
        match self {
            Step::Identity | Step::Edits | Step::NoteSweeps => None,
            Step::Definitions => Some(Resource::CustomFields),
            Step::Team => Some(Resource::TeamMembers),
            Step::Changes(object)
            | Step::Fill(object)
            | Step::Counts(object)
            | Step::Doubts(object)
            | Step::Sweep(object)
            | Step::Total(object)
            | Step::Audit(object)
            | Step::Details(object)
            | Step::OldDetails(object)
            | Step::LateRemovals(object) => Some(object.resource()),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Knowledge {
    pub done: BTreeSet<Step>,
    pub skipped: BTreeSet<Resource>,
    pub failed: BTreeSet<Step>,
    pub by_person: bool,
    pub write_back: bool,
    /// Whether the schedule is paused: then edits are kept, unless a push is requested.
    pub paused: bool,
    pub details: bool,
    /// Whether the definitions were last read longer ago than their interval.
    pub definitions_due: bool,
    /// Whether their share of the budget has not paid for the definitions yet, so that no sweep of the schedule reads them.
    pub definitions_postponed: bool,
    pub team_due: bool,
    pub team_postponed: bool,
    /// In the order of [`Object::ALL`].
    pub objects: [ObjectKnowledge; 2],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectKnowledge {
    /// Whether its first copy was finished before this run started.
    pub copied: bool,
    /// Whether it is not copied although nothing but the budget is in the way.
    pub copy_waits: bool,
    /// Whether a sweep is in progress that does not wait for a person.
    pub sweeping: bool,
    /// Whether a person, the schedule or a column to fill requests a sweep.
    pub sweep_wanted: bool,
    /// Whether a sweep is still being read: it has decided on nothing yet.
    pub sweep_reading: bool,
    /// Whether records are nominated for removal or were shown in an earlier version, and a decision is due.
    pub in_doubt: bool,
    /// Whether its changes were read within the last minute.
    pub caught_up: bool,
    /// Whether it was last counted longer ago than an hour.
    pub total_due: bool,
    /// Whether it was compared within the last day, and this run repeats a verification that came to no end since.
    pub compared: bool,
    /// How many details are due.
    pub due: u64,
}

/// The next step of a run; `None` at its end.
pub fn next_step(known: &Knowledge, job: &Job) -> Option<Step> {
    order(known).find(|step| !known.done.contains(step) && is_needed(*step, known, job))
}

/// All steps of a run without new knowledge.
pub fn steps(mut known: Knowledge, job: &Job) -> Vec<Step> {
    let taken = std::iter::from_fn(|| {
        let step = next_step(&known, job)?;
        known.done.insert(step);
        Some(step)
    });
    taken.collect()
}

pub fn postpones_audits(known: &Knowledge, job: &Job) -> bool {
    let copy_waits = |object: Object| job.concerns(object.resource()) && known.objects[object as usize].copy_waits;
    job.kind == JobKind::Verify && !known.by_person && Object::ALL.into_iter().any(copy_waits)
}

/// Every step, the most important first.
fn order(known: &Knowledge) -> impl Iterator<Item = Step> {
    let mut sweeps = Object::ALL;
    sweeps.sort_by_key(|object| known.objects[*object as usize].copied);
    let mut details = Object::ALL;
    details.sort_by_key(|object| known.objects[*object as usize].due);
    let of_each = |steps: &'static [fn(Object) -> Step]| {
        Object::ALL.into_iter().flat_map(move |object| steps.iter().map(move |step| step(object)))
    };
    [Step::Identity, Step::Edits, Step::NoteSweeps, Step::Definitions, Step::Team]
        .into_iter()
        .chain(of_each(&[Step::Changes, Step::Counts, Step::Total, Step::Audit]))
        .chain(of_each(&[Step::Doubts]))
        .chain(of_each(&[Step::Fill]))
        .chain(sweeps.into_iter().map(Step::Sweep))
        .chain(details.into_iter().map(Step::Details))
        .chain(of_each(&[Step::OldDetails]))
        .chain(of_each(&[Step::LateRemovals]))
}

fn is_needed(step: Step, known: &Knowledge, job: &Job) -> bool {
    let resync = job.kind == JobKind::Resync;
    let verify = job.kind == JobKind::Verify;
    let syncs = resync || job.kind == JobKind::Sync;
    let audits = verify && !postpones_audits(known, job);
    let sweeps_definitions = resync && !known.definitions_postponed;
    let of = |object: Object| &known.objects[object as usize];
    let reads = |object: Object| job.concerns(object.resource()) && !known.skipped.contains(&object.resource());
    match step {
        Step::Definitions | Step::Team if step.resource().is_some_and(|list| known.skipped.contains(&list)) => false,
        Step::Identity => true,
        Step::Edits => known.write_back && !verify && (!known.paused || job.is_push()),
        Step::NoteSweeps => resync,
        Step::Definitions => {
            job.names(Resource::CustomFields) && syncs
                || job.concerns(Resource::CustomFields) && sweeps_definitions
                || Object::ALL.into_iter().any(|object| job.concerns(object.resource()))
                    && (sweeps_definitions || syncs && known.definitions_due)
        }
        Step::Team => {
            syncs
                && (job.names(Resource::TeamMembers)
                    || job.concerns(Resource::TeamMembers) && (resync && !known.team_postponed || known.team_due))
        }
        Step::Changes(object) => {
            let is_first = syncs || audits && (known.by_person || !of(object).caught_up);
            is_first && reads(object) && of(object).copied
        }
        Step::Fill(object) => syncs && reads(object),
        Step::Counts(object) => syncs && reads(object) && of(object).copied,
        Step::Total(object) => {
            let (scheduled, known_of) = (job.kind == JobKind::Sync && !known.by_person, of(object));
            scheduled
                && reads(object)
                && known_of.copied
                && known_of.total_due
                && !known.failed.contains(&Step::Changes(object))
        }
        Step::Audit(object) => audits && reads(object) && (known.by_person || !of(object).compared),
        Step::Sweep(object) => {
            let known = of(object);
            syncs && reads(object) && (resync || !known.copied || known.sweeping || known.sweep_wanted)
        }
        Step::Details(object) | Step::OldDetails(object) => syncs && known.details && reads(object),
        // Edits that were answered with 404 also nominate. A step that failed while it decided on them is not repeated
        // under another name.
        Step::Doubts(object) | Step::LateRemovals(object) => {
            let deciding = [Step::Doubts(object), Step::Details(object)];
            let sweep_decided = !of(object).sweep_reading && known.failed.contains(&Step::Sweep(object));
            let has_failed = sweep_decided || deciding.iter().any(|step| known.failed.contains(step));
            let known = of(object);
            (reads(object) || job.is_push()) && !verify && known.in_doubt && !has_failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Object::{Company, Contact};
    use Step::{
        Audit, Changes, Counts, Definitions, Details, Doubts, Edits, Fill, Identity, LateRemovals, NoteSweeps,
        OldDetails, Sweep, Team,
    };

    const COPIED: ObjectKnowledge = ObjectKnowledge {
        copied: true,
        copy_waits: false,
        sweeping: false,
        sweep_wanted: false,
        sweep_reading: false,
        in_doubt: false,
        caught_up: false,
        total_due: false,
        compared: false,
        due: 0,
    };

    /// A copied mirror of a workspace where nothing is due.
    fn settled() -> Knowledge {
        Knowledge { objects: [COPIED; 2], ..Knowledge::default() }
    }

    #[test]
    fn sweep_leaves_out_lists_that_the_budget_has_not_paid_for() {
        let known = Knowledge { definitions_postponed: true, team_postponed: true, ..settled() };
        let read = steps(known.clone(), &Job::resync());
        assert!(!read.contains(&Definitions) && !read.contains(&Team), "{read:?}");
        // Unless they are asked for by name.
        for (resource, step) in [(Resource::CustomFields, Definitions), (Resource::TeamMembers, Team)] {
            assert!(steps(known.clone(), &Job::resync().of(&[resource])).contains(&step));
        }
    }

    #[test]
    fn verifications_of_the_schedule_wait_for_first_copies() {
        let waiting = ObjectKnowledge { copy_waits: true, ..ObjectKnowledge::default() };
        for (name, known, job, expected) in [
            (
                "a verification sends no edit and reads no detail",
                Knowledge { write_back: true, details: true, ..settled() },
                Job::verify(),
                vec![Identity, Changes(Contact), Audit(Contact), Changes(Company), Audit(Company)],
            ),
            (
                "a verification before the first copy",
                Knowledge { objects: [waiting, COPIED], by_person: true, ..settled() },
                Job::verify(),
                vec![Identity, Audit(Contact), Changes(Company), Audit(Company)],
            ),
            (
                "a verification of the schedule before the first copy",
                Knowledge { objects: [waiting, COPIED], ..settled() },
                Job::verify(),
                vec![Identity],
            ),
            (
                "a verification of the schedule beside an object that cannot be copied",
                Knowledge { objects: [ObjectKnowledge::default(), COPIED], ..settled() },
                Job::verify(),
                vec![Identity, Audit(Contact), Changes(Company), Audit(Company)],
            ),
        ] {
            assert_eq!(steps(known, &job), expected, "{name}");
        }
        // An object that is not mirrored is not waited for.
        let known = Knowledge { objects: [waiting, COPIED], ..settled() };
        let companies = Job::verify().of(&[Resource::Companies]);
        assert_eq!(steps(known, &companies), [Identity, Changes(Company), Audit(Company)]);
    }

    #[test]
    fn order_of_steps_follows_from_the_knowledge() {
        let keep = |object| [Changes(object), Counts(object), Fill(object)];
        let both = [Contact, Company].map(|object| [Changes(object), Counts(object)]).concat();
        let both = [&both[..], &[Fill(Contact), Fill(Company)]].concat();
        let details = [Details(Contact), Details(Company), OldDetails(Contact), OldDetails(Company)];
        let doubts = [Doubts(Contact), LateRemovals(Contact)];
        let sweeping = ObjectKnowledge { sweeping: true, ..COPIED };
        let wanted = ObjectKnowledge { sweep_wanted: true, ..COPIED };
        for (name, known, job, expected) in [
            ("an idle run", settled(), Job::sync(), [&[Identity][..], &both].concat()),
            (
                "everything is due",
                Knowledge { definitions_due: true, team_due: true, details: true, write_back: true, ..settled() },
                Job::sync(),
                [&[Identity, Edits, Definitions, Team][..], &both, &details].concat(),
            ),
            (
                "a first copy",
                Knowledge { objects: [ObjectKnowledge::default(); 2], details: true, ..settled() },
                Job::sync(),
                [&[Identity, Fill(Contact), Fill(Company), Sweep(Contact), Sweep(Company)][..], &details].concat(),
            ),
            (
                "one object swept, and the other not copied yet",
                Knowledge { objects: [sweeping, ObjectKnowledge::default()], ..settled() },
                Job::sync(),
                [&[Identity][..], &keep(Contact), &[Fill(Company), Sweep(Company), Sweep(Contact)]].concat(),
            ),
            (
                "one object swept, the other wanted",
                Knowledge { objects: [sweeping, wanted], ..settled() },
                Job::sync(),
                [&[Identity][..], &both, &[Sweep(Contact), Sweep(Company)]].concat(),
            ),
            (
                "a resync",
                settled(),
                Job::resync(),
                [&[Identity, NoteSweeps, Definitions, Team][..], &both, &[Sweep(Contact), Sweep(Company)]].concat(),
            ),
            (
                "a resync of companies, by name",
                settled(),
                Job::resync().of(&[Resource::Companies]),
                [&[Identity, NoteSweeps, Definitions][..], &keep(Company), &[Sweep(Company)]].concat(),
            ),
            ("team members by name", settled(), Job::sync().of(&[Resource::TeamMembers]), vec![Identity, Team]),
            ("definitions by name", settled(), Job::sync().of(&[Resource::CustomFields]), vec![Identity, Definitions]),
            (
                "contacts may not be read",
                Knowledge { skipped: [Resource::Contacts].into(), ..settled() },
                Job::sync(),
                [&[Identity][..], &keep(Company)].concat(),
            ),
            ("edits only", Knowledge { write_back: true, ..settled() }, Job::push(), vec![Identity, Edits]),
            (
                "records in doubt, before sweeps and after details",
                Knowledge {
                    objects: [ObjectKnowledge { in_doubt: true, ..COPIED }, COPIED],
                    details: true,
                    ..settled()
                },
                Job::sync(),
                [&[Identity][..], &both[..4], &doubts[..1], &both[4..], &details, &doubts[1..]].concat(),
            ),
            (
                "more details of contacts are due than the budget may pay for",
                Knowledge { objects: [ObjectKnowledge { due: 9, ..COPIED }, COPIED], details: true, ..settled() },
                Job::sync(),
                [&[Identity][..], &both, &[Details(Company), Details(Contact)], &details[2..]].concat(),
            ),
            ("edits only, which are off", settled(), Job::push(), vec![Identity]),
        ] {
            assert_eq!(steps(known, &job), expected, "{name}");
        }
    }
}
