//! The parts of events, status and history that every user of the machine may see.

use crate::daemon::events::Event;
use crate::daemon::plot_data::PageHistory;
use crate::daemon::status_reply::{HIDDEN, public_reason};
use crate::sync::events::RunEvent;

/// The public form of an event; `None` if it is not public.
pub(super) fn event(line: &str) -> Option<String> {
    let event = match serde_json::from_str(line).ok()? {
        // Findings contain values, and an error may quote the service.
        Event::Finished { job, exit, summary, error, .. } => {
            let summary = summary.map(|mut summary| {
                summary.notes.clear();
                summary
            });
            let error = error.map(|_| public_reason(exit).into());
            Event::Finished { job, exit, summary, found: Vec::new(), error, hint: None }
        }
        Event::Run(RunEvent::Warning { .. }) => {
            Event::Run(RunEvent::Warning { text: format!("a run reported a warning; {HIDDEN}") })
        }
        event => event,
    };
    serde_json::to_string(&event).ok()
}

/// The history without texts of the service.
#[must_use]
pub(super) fn history(mut history: PageHistory) -> PageHistory {
    for run in &mut history.runs {
        run.error = run.error.as_ref().map(|_| HIDDEN.into());
    }
    history
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Object, RecordId};
    use crate::store::FieldDifference;
    use crate::sync::Findings;
    use crate::sync::findings::{Difference, DifferenceKind};

    #[test]
    fn findings_and_texts_of_the_service_are_not_public() {
        let difference = Difference {
            object: Object::Contact,
            id: RecordId::new("ct_1"),
            kind: DifferenceKind::Different,
            fields: vec![FieldDifference { column: "name".into(), here: "Ada".into(), there: "Eve".into() }],
        };
        let findings = Findings { differences: vec![difference], ..Findings::default() };
        let finished = Event::Finished {
            job: 4,
            exit: 69,
            summary: None,
            found: vec![(Object::Contact, findings)],
            error: Some("400: Ada's position is too long".into()),
            hint: None,
        };
        let line = serde_json::to_string(&finished).unwrap();
        assert!(line.contains("Eve") && line.contains("Ada's position"));
        assert_eq!(
            event(&line).unwrap(),
            "{\"event\":\"finished\",\"job\":4,\"exit\":69,\"summary\":null,\"found\":[],\
             \"error\":\"the service is unavailable\",\"hint\":null}"
        );
        assert_eq!(event("{\"event\":\"paused\"}").unwrap(), "{\"event\":\"paused\"}");
        let warning = serde_json::to_string(&Event::Run(RunEvent::Warning { text: "Ada".into() })).unwrap();
        assert!(!event(&warning).unwrap().contains("Ada"));
        assert_eq!(event("Eve"), None);
    }
}
