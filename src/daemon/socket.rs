//! The control socket: its permissions, and sockets that killed daemons left.
//!
//! It is created in a directory that only its owner can enter, and then moved to its path: at no time can others
//! connect, whatever the umask. A socket without a listener was left by a killed daemon, and is replaced. A socket that
//! cannot be opened is waited for, like the mirror: see `socket_wait`.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// Why the control socket cannot be opened now.
#[derive(Debug, thiserror::Error)]
pub(super) enum SocketError {
    /// Its directory is missing or cannot be written, or another file is in its place.
    #[error("could not open the control socket {path}")]
    Io {
        /// The socket.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another process listens on it.
    #[error("another process listens on the control socket {path}")]
    Taken {
        /// The socket.
        path: PathBuf,
    },
}

impl SocketError {
    /// The setting that fixes it.
    pub(super) const fn hint(&self) -> &'static str {
        match self {
            SocketError::Io { .. } => "its directory must exist and be writable (`daemon.socket`)",
            SocketError::Taken { .. } => "each mirror needs its own daemon and its own socket (`daemon.socket`)",
        }
    }
}

/// Only the daemon's user, and root, can connect.
const MODE: u32 = 0o600;

/// The mode of the directory in which it is created.
const PRIVATE: u32 = 0o700;

/// Its name in that directory.
const FRESH: &str = "s";

/// A socket that is removed when this is dropped, if the file is still the same one.
#[derive(Debug)]
pub(super) struct ControlSocket {
    path: PathBuf,
    inode: u64,
}

impl ControlSocket {
    /// Creates the socket and listens on it.
    ///
    /// # Errors
    /// Returns an error if another program listens there, or the directory cannot be written.
    pub(super) fn bind(path: &Path) -> Result<(ControlSocket, UnixListener), SocketError> {
        let failed = |source| SocketError::Io { path: path.to_path_buf(), source };
        match fs::symlink_metadata(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(failed(e)),
            Ok(meta) if !meta.file_type().is_socket() => {
                return Err(failed(io::Error::other("there is a file that is not a socket")));
            }
            Ok(_) if UnixStream::connect(path).is_ok() => {
                return Err(SocketError::Taken { path: path.to_path_buf() });
            }
            Ok(_) => {}
        }
        let private = path.with_file_name(format!(".crm-mirror-{}", std::process::id()));
        let made = make(&private, path);
        let _ = fs::remove_file(private.join(FRESH));
        let _ = fs::remove_dir(&private);
        let (inode, listener) = made.map_err(failed)?;
        Ok((ControlSocket { path: path.to_path_buf(), inode }, listener))
    }
}

/// Creates the socket in a directory that only its owner can enter, and moves it to its path with its final mode.
fn make(private: &Path, path: &Path) -> io::Result<(u64, UnixListener)> {
    // Left by a process that was killed.
    let _ = fs::remove_file(private.join(FRESH));
    match DirBuilder::new().mode(PRIVATE).create(private) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => fs::set_permissions(private, Permissions::from_mode(PRIVATE))?,
    }
    let fresh = private.join(FRESH);
    let listener = UnixListener::bind(&fresh)?;
    fs::set_permissions(&fresh, Permissions::from_mode(MODE))?;
    let inode = fs::metadata(&fresh)?.ino();
    fs::rename(&fresh, path)?;
    Ok((inode, listener))
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.ino() == self.inode) {
            // If this fails, the next daemon recognizes the socket as left over.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn socket_without_a_listener_is_replaced_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "left over");
        let (socket, listener) = ControlSocket::bind(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert!(matches!(ControlSocket::bind(&path), Err(SocketError::Taken { .. })));
        drop((socket, listener));
        assert!(!path.exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn other_files_are_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        fs::write(&path, "mine").unwrap();
        assert!(matches!(ControlSocket::bind(&path), Err(SocketError::Io { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }
}
