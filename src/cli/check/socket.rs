//! The control socket: whether a daemon answers there.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::finding::Finding;
use super::mirror;

/// Whether a daemon answers at the control socket. `writer` is the process that writes the mirror.
pub(super) fn check(path: &Path, writer: Option<Option<u32>>) -> Finding {
    let name = "daemon.socket";
    let shown = path.display();
    match UnixStream::connect(path) {
        Ok(_) => Finding::ok(name, format!("a daemon answers at {shown}")),
        Err(error) if error.kind() == ErrorKind::NotFound => match writer {
            None => Finding::ok(name, format!("no daemon is running: {shown} does not exist")),
            Some(pid) => Finding::ok(name, format!("{} is not a daemon: {shown} does not exist", mirror::process(pid))),
        },
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Finding::skip(name, format!("the current user cannot access the daemon at {shown}"))
        }
        Err(error) if error.kind() == ErrorKind::InvalidInput => Finding::warn(
            name,
            format!("{shown} is too long a path for a socket"),
            "set `daemon.socket` to a shorter path",
        ),
        Err(_) => Finding::warn(
            name,
            format!("{shown} exists, but no process answers"),
            "the daemon was killed or hangs: restart it; nothing is lost",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::finding::FindingState;
    use std::os::unix::net::UnixListener;

    #[test]
    fn socket_without_a_listener_is_a_warning() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        assert_eq!(check(&path, None).state, FindingState::Ok);
        let listener = UnixListener::bind(&path).unwrap();
        assert!(check(&path, None).message.starts_with("a daemon answers"));
        assert!(check(&dir.path().join("s".repeat(200)), None).message.contains("too long"));
        drop(listener);
        assert_eq!(check(&path, None).state, FindingState::Warn);
    }
}
