//! A failed verb: the message on stderr, and the exit code.

use std::error::Error;
use std::io;

use crate::daemon::DaemonError;
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::store::StoreError;
use crate::sync::SyncError;

type Cause = Box<dyn Error + Send + Sync>;

#[derive(Debug)]
pub struct Failure {
    /// [`Exit::Done`] if the reader of a stream is gone, so nothing has to be reported.
    exit: Exit,
    error: Cause,
    hint: Option<String>,
}

impl Failure {
    pub fn new(exit: Exit, error: impl Into<Cause>) -> Failure {
        Failure { exit, error: error.into(), hint: None }
    }

    pub fn hinted(exit: Exit, hint: Option<impl Into<String>>, error: impl Into<Cause>) -> Failure {
        Failure { hint: hint.map(Into::into), ..Failure::new(exit, error) }
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
        if self.exit == Exit::Done {
            return String::new();
        }
        let hint = self.hint.as_ref().map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
        format!("error: {}\n{hint}", error_chain(&*self.error))
    }
}

/// What may end the daemon, too: of the configuration, and of opening the mirror.
impl<E> From<E> for Failure
where
    DaemonError: From<E>,
{
    fn from(error: E) -> Failure {
        let error = DaemonError::from(error);
        Failure::hinted(error.exit(), error.hint(), error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::hinted(Exit::of_store(&error), error.hint(), error)
    }
}

impl From<SyncError> for Failure {
    fn from(error: SyncError) -> Failure {
        let accept = match &error {
            SyncError::NotRecognised { unread, .. } if !unread.is_empty() => "",
            SyncError::OtherWorkspace { .. } | SyncError::NotRecognised { .. } => {
                "; `--accept-workspace` mirrors this workspace instead, and erases the mirrored records and their history"
            }
            _ => "",
        };
        let hint = error.hint().map(|hint| format!("{hint}{accept}"));
        Failure::hinted(Exit::of_sync(&error), hint, error)
    }
}

/// For errors of a stream. If its reader is gone (`| head`), the program ends silently and successfully.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::new(if error.kind() == io::ErrorKind::BrokenPipe { Exit::Done } else { Exit::Storage }, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigError;

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
