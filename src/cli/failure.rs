//! A failed verb: the message on stderr, and the exit code.

use std::error::Error;
use std::fmt::Write as _;
use std::io;

use crate::api::ApiError;
use crate::app::MirrorError;
use crate::config::ConfigError;
use crate::daemon::DaemonError;
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::store::StoreError;
use crate::sync::SyncError;

#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    /// `None` if the reader of a stream is gone, so nothing has to be reported.
    error: Option<Box<dyn Error + Send + Sync>>,
    hint: Option<String>,
}

impl Failure {
    pub fn new(exit: Exit, error: impl Into<Box<dyn Error + Send + Sync>>) -> Failure {
        Failure { exit, error: Some(error.into()), hint: None }
    }

    pub fn hinted<H>(exit: Exit, hint: Option<H>, error: impl Into<Box<dyn Error + Send + Sync>>) -> Failure
    where
        H: Into<String>,
    {
        Failure { hint: hint.map(H::into), ..Failure::new(exit, error) }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// The text for stderr: the error with all its causes on one line, the hint on the next.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Some(error) = &self.error {
            let _ = writeln!(text, "error: {}", error_chain(&**error));
            if let Some(hint) = &self.hint {
                let _ = writeln!(text, "hint: {hint}");
            }
        }
        text
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure::hinted(Exit::Config, error.hint(), error)
    }
}

impl From<DaemonError> for Failure {
    fn from(error: DaemonError) -> Failure {
        Failure::hinted(error.exit(), error.hint(), error)
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Failure {
        Failure::hinted(Exit::of_api(&error), error.hint(), error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::hinted(Exit::of_store(&error), error.hint(), error)
    }
}

impl From<MirrorError> for Failure {
    fn from(error: MirrorError) -> Failure {
        DaemonError::from(error).into()
    }
}

impl From<SyncError> for Failure {
    fn from(error: SyncError) -> Failure {
        let accept =
            "`--accept-workspace` mirrors this workspace instead, and erases the mirrored records and their history";
        let hint = match &error {
            SyncError::OtherWorkspace { .. } => {
                Some(format!("use the key of the mirrored workspace, or a different `database.path`; {accept}"))
            }
            SyncError::NotRecognised { unread, .. } if unread.is_empty() => {
                Some(format!("{}; {accept}", error.hint().unwrap_or_default()))
            }
            other => other.hint().map(String::from),
        };
        Failure::hinted(Exit::of_sync(&error), hint, error)
    }
}

/// For errors of a stream. If its reader is gone (`| head`), the program ends silently and successfully.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Failure { exit: Exit::Done, error: None, hint: None }
        } else {
            Failure::new(Exit::Storage, error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_the_error_chain_and_the_hint() {
        let source = io::Error::from(io::ErrorKind::NotFound);
        let path = "/x.toml".into();
        let failure = Failure::from(ConfigError::File { path, source });
        assert_eq!(failure.exit(), Exit::Config);
        assert_eq!(
            failure.text(),
            "error: could not read the configuration file /x.toml: entity not found\n\
             hint: `crm-mirror init FILE` writes one\n"
        );
    }

    #[test]
    fn closed_stdout_is_not_a_failure() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((failure.exit(), failure.text()), (Exit::Done, String::new()));
        assert_eq!(Failure::from(io::Error::other("disk full")).exit(), Exit::Storage);
    }
}
