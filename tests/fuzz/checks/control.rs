//! Bodies of requests on the control socket, and edits. The first byte chooses the path.

use std::collections::BTreeMap;

use crm_mirror::daemon::control::requested;
use crm_mirror::model::{Clock, Object, RecordId, Resource};
use crm_mirror::outbox::queue;
use crm_mirror::outbox::{EditRequest, Given};
use crm_mirror::store::StoreError;
use crm_mirror::sync::Job;
use serde::Deserialize;
use serde_json::Value;

use super::choice;
use super::mirrored::mirrored;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenEdit {
    object: Object,
    id: RecordId,
    fields: BTreeMap<String, Value>,
}

/// Checks one body.
pub fn check(data: &[u8]) {
    let (which, body) = choice(data);
    match which % 3 {
        0 => {
            for kind in [Job::sync(), Job::resync()] {
                if let Ok(requested) = requested(kind, body) {
                    job(&requested);
                }
            }
        }
        1 => {
            if let Ok(verify) = requested(Job::verify(), body) {
                let said = serde_json::to_vec(&verify).expect("a job is a document");
                assert_eq!(requested(Job::verify(), &said).ok(), Some(verify.clone()));
                job(&verify);
            }
        }
        _ => {
            if let Ok(body) = serde_json::from_slice::<GivenEdit>(body) {
                let changes = body.fields.into_iter().map(|(column, value)| (column, Given::Json(value))).collect();
                edit(EditRequest { object: body.object, record: body.id, changes });
            }
        }
    }
}

fn job(job: &Job) {
    if let Ok(within) = job.clone().within(Some(&[Resource::Contacts])) {
        assert!(!within.concerns(Resource::Companies));
    }
    assert!(job.name() == "push" || Resource::ALL.into_iter().any(|resource| job.concerns(resource)) || is_empty(job));
}

fn is_empty(job: &Job) -> bool {
    job.objects.as_ref().is_some_and(Vec::is_empty)
}

/// Validates an edit and queues it; nothing is kept.
fn edit(request: EditRequest) {
    let mirrored = mirrored();
    let now = mirrored.crm.clock.now();
    let done = mirrored.runtime.block_on(mirrored.store.write(move |tx| {
        let first = queue::queue(tx, &request, now);
        if let Err(error) = &first
            && !matches!(error, StoreError::Refused(_))
        {
            panic!("{request:?}: {error:?}");
        }
        if let Ok(queued) = first {
            assert_eq!(queued.edit.is_some(), !queued.fields.is_empty(), "{request:?}");
            // The same again changes nothing.
            let again = queue::queue(tx, &request, now).expect("it was valid");
            assert_eq!(again.edit, None, "{request:?}");
        }
        Err::<(), _>(StoreError::Interrupted)
    }));
    assert!(matches!(done, Err(StoreError::Interrupted)), "{done:?}");
}
