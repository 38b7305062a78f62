//! The exit codes: one table, which scripts and units rely on.

use crate::api::admission::AdmissionError;
use crate::api::{ApiError, ErrorClass};
use crate::publish::{DatabaseFailure, PublishError};
use crate::store::{RunOutcome, StoreError};
use crate::sync::SyncError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::FromRepr)]
#[repr(u8)]
pub enum Exit {
    Done = 0,
    Differences = 1,
    Usage = 2,
    Outage = 65,
    Unavailable = 69,
    Internal = 70,
    Storage = 74,
    Paused = 75,
    KeyRefused = 77,
    Config = 78,
}

impl Exit {
    /// Every code with its meaning, for help texts.
    pub const TABLE: [(Exit, &'static str); 10] = [
        (Exit::Done, "done"),
        (Exit::Differences, "differences, or edits held, in conflict or rejected"),
        (Exit::Usage, "the command line is invalid"),
        (Exit::Outage, "refused to mirror what looks like an outage"),
        (Exit::Unavailable, "the service is unavailable"),
        (Exit::Internal, "internal error"),
        (Exit::Storage, "database or disk"),
        (Exit::Paused, "suspended by the budget or a hold; the next run continues"),
        (Exit::KeyRefused, "the key is refused, or has no scope"),
        (Exit::Config, "configuration"),
    ];

    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The exit of a code; codes that are not in the table are internal errors.
    pub fn of_code(code: u8) -> Exit {
        Exit::from_repr(code).unwrap_or(Exit::Internal)
    }

    pub const fn of_outcome(outcome: RunOutcome) -> Exit {
        match outcome {
            RunOutcome::Done => Exit::Done,
            RunOutcome::Refused => Exit::Outage,
            RunOutcome::Suspended => Exit::Paused,
            RunOutcome::Failed => Exit::Internal,
        }
    }

    pub fn of_api(error: &ApiError) -> Exit {
        match error.class() {
            ErrorClass::StopAll | ErrorClass::SkipObject => Exit::KeyRefused,
            ErrorClass::Hold | ErrorClass::Pause => Exit::Paused,
            ErrorClass::Retry | ErrorClass::Unavailable | ErrorClass::Failed => Exit::Unavailable,
            ErrorClass::Configuration => Exit::Config,
            ErrorClass::Gone | ErrorClass::SkipRecord | ErrorClass::BadRequest | ErrorClass::StopRun => match error {
                ApiError::NotAdmitted(AdmissionError::Ledger) => Exit::Storage,
                // Whatever status a service answers, it is no defect of this program.
                ApiError::Status(_) => Exit::Unavailable,
                _ => Exit::Internal,
            },
        }
    }

    pub fn of_store(error: &StoreError) -> Exit {
        match error {
            busy if busy.is_busy() => Exit::Paused,
            StoreError::Refused(_) | StoreError::Exists { .. } => Exit::Usage,
            StoreError::EditOfExcluded { .. } => Exit::Config,
            StoreError::StaleLayout | StoreError::Closed | StoreError::Interrupted => Exit::Internal,
            _ => Exit::Storage,
        }
    }

    pub fn of_publish(error: &PublishError) -> Exit {
        match error {
            PublishError::Database { failure: DatabaseFailure::Unavailable, .. } => Exit::Unavailable,
            PublishError::Busy { .. } | PublishError::Unsettled => Exit::Paused,
            PublishError::Empty | PublishError::Cursor(_) | PublishError::Output(_) => Exit::Storage,
            PublishError::Store(error) => Exit::of_store(error),
            // The address, the schema or a setting.
            _ => Exit::Config,
        }
    }

    pub fn of_sync(error: &SyncError) -> Exit {
        match error {
            SyncError::Api { source, .. } => Exit::of_api(source),
            SyncError::ConstantChanges { .. } => Exit::Paused,
            SyncError::Store(source) => Exit::of_store(source),
            SyncError::NotAdvancing { .. } | SyncError::NotRecognised { .. } | SyncError::NotDue { .. } => {
                Exit::Unavailable
            }
            SyncError::OtherWorkspace { .. } => Exit::Config,
            SyncError::NoScope { .. } => Exit::KeyRefused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{ApiKey, Rejection};
    use crate::model::{Instant, Resource, Ru};
    use std::path::PathBuf;
    use std::time::Duration;

    #[test]
    fn exit_codes_are_stable() {
        let codes = Exit::TABLE.map(|(exit, _)| exit.code());
        assert_eq!(codes, [0, 1, 2, 65, 69, 70, 74, 75, 77, 78]);
    }

    #[test]
    fn failures_of_the_service_have_their_codes() {
        let key = ApiKey::new("k").unwrap();
        let body = |status: u16| format!(r#"{{"error":"E","message":"m","code":{status}}}"#);
        let status = |status| ApiError::Status(Box::new(Rejection::read(status, body(status).as_bytes(), &key)));
        let refills_at = Instant::EPOCH;
        let after = Duration::from_secs(1);
        for (error, code) in [
            (status(401), 77),
            (status(403), 77),
            (status(429), 75),
            (status(503), 69),
            (status(404), 69),
            (status(400), 69),
            (status(410), 69),
            (status(418), 69),
            (status(501), 69),
            (status(520), 69),
            (ApiError::Timeout { tries: 1, after }, 69),
            (ApiError::TooLarge { limit: 1 }, 69),
            (ApiError::NotAdmitted(AdmissionError::Budget { left: Ru::ZERO, refills_at }), 75),
            (ApiError::NotAdmitted(AdmissionError::Hold { until: refills_at, tries: 0 }), 75),
            (ApiError::NotAdmitted(AdmissionError::Stopping), 75),
            (ApiError::NotAdmitted(AdmissionError::Ledger), 74),
            (ApiError::Redirected { status: 301 }, 78),
            (ApiError::Redirected { status: 302 }, 69),
        ] {
            assert_eq!(Exit::of_api(&error).code(), code, "{error}");
            let run = SyncError::Api { doing: "list", resource: Resource::Contacts, source: error };
            assert_eq!(Exit::of_sync(&run).code(), code, "{run}");
        }
    }

    #[test]
    fn failures_of_the_file_have_their_codes() {
        let path = || PathBuf::from("/m.db");
        let io = || std::io::Error::other("no");
        let sqlite = || rusqlite::Error::InvalidQuery;
        let busy = || rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None);
        let json = || serde_json::from_str::<u8>("x").unwrap_err();
        for (error, code) in [
            (StoreError::Open { path: path(), source: sqlite() }, 74),
            (StoreError::Open { path: path(), source: busy() }, 75),
            (StoreError::Sqlite(busy()), 75),
            (StoreError::Io { path: path(), source: io() }, 74),
            (StoreError::NotAMirror { path: path(), why: "it is a text" }, 74),
            (StoreError::Missing { path: path() }, 74),
            (StoreError::NewerSchema { found: 9, known: 1 }, 74),
            (StoreError::Locked { path: path(), pid: Some(7) }, 74),
            (StoreError::Sqlite(sqlite()), 74),
            (StoreError::State { name: "ledger".into(), source: json() }, 74),
            (StoreError::StaleLayout, 70),
            (StoreError::Closed, 70),
            (StoreError::Interrupted, 70),
        ] {
            assert_eq!(Exit::of_store(&error).code(), code, "{error}");
            assert_eq!(Exit::of_sync(&SyncError::Store(error)).code(), code);
        }
    }

    #[test]
    fn failed_runs_have_their_codes() {
        let resource = Resource::Contacts;
        for (error, code) in [
            (SyncError::NotAdvancing { resource }, 69),
            (SyncError::NotRecognised { asked: 40, met: 0, unread: Vec::new() }, 69),
            (SyncError::OtherWorkspace { asked: 40, met: 0 }, 78),
            (SyncError::NoScope { scopes: "contacts:read".into() }, 77),
        ] {
            assert_eq!(Exit::of_sync(&error).code(), code, "{error}");
        }
    }
}
