//! Bodies of requests on the control socket. The first byte chooses the path.

use crm_mirror::daemon::control::bodies::{self, EditBody, SyncBody, VerifyBody};
use crm_mirror::model::{Clock, Resource};
use crm_mirror::outbox::queue::{self, QueueError};
use crm_mirror::outbox::{EditRequest, EditSource};
use crm_mirror::store::StoreError;
use crm_mirror::sync::Job;

use super::choice;
use super::mirrored::mirrored;

/// Checks one body.
pub fn check(data: &[u8]) {
    let (which, body) = choice(data);
    match which % 3 {
        0 => {
            if let Ok(body) = bodies::parse::<SyncBody>(body) {
                job(&body.of(Job::sync()));
                job(&body.of(Job::resync()));
            }
        }
        1 => {
            if let Ok(body) = bodies::parse::<VerifyBody>(body) {
                job(&body.job());
            }
        }
        _ => {
            if let Ok(body) = serde_json::from_slice::<EditBody>(body) {
                edit(body.request());
            }
        }
    }
}

fn job(job: &Job) {
    if let Ok(within) = job.clone().within(Some(&[Resource::Contacts])) {
        assert!(!within.concerns(Resource::Companies));
    }
    assert!(job.kind() == "push" || Resource::ALL.into_iter().any(|resource| job.concerns(resource)) || is_empty(job));
}

fn is_empty(job: &Job) -> bool {
    job.selection().and_then(|selection| selection.resources()).is_some_and(<[Resource]>::is_empty)
}

/// Validates an edit and queues it; nothing is kept.
fn edit(request: EditRequest) {
    let mirrored = mirrored();
    let now = mirrored.crm.clock.now();
    let done = mirrored.runtime.block_on(mirrored.store.write(move |tx| {
        let first = queue::queue(tx, &request, EditSource::Socket, now);
        if let Err(QueueError::Store(error)) = &first {
            panic!("{request:?}: {error:?}");
        }
        if let Ok((queued, _)) = first {
            assert_eq!(queued.edit.is_some(), !queued.fields.is_empty(), "{request:?}");
            // The same again changes nothing.
            let (again, _) = queue::queue(tx, &request, EditSource::Socket, now).expect("it was valid");
            assert_eq!(again.edit, None, "{request:?}");
        }
        Err::<(), _>(StoreError::Interrupted)
    }));
    assert!(matches!(done, Err(StoreError::Interrupted)), "{done:?}");
}
