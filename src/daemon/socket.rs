//! The control socket: who may use it, and what a daemon that was killed leaves behind.
//!
//! It is made in a folder that is closed to everybody but its owner, and only then put in its place: there is no moment
//! in which others could connect, whatever the umask. A socket that nobody listens on is one that a killed daemon left,
//! and is replaced.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

use super::error::DaemonError;

/// Only the daemon's user, and root.
const MODE: u32 = 0o600;

/// The folder in which it is made.
const PRIVATE: u32 = 0o700;

/// Its name there.
const FRESH: &str = "s";

/// A socket that is removed when this is dropped, if it is still the one that was made.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    inode: u64,
}

impl ControlSocket {
    /// Makes the socket and listens on it.
    ///
    /// # Errors
    /// If another program listens there, or the folder does not take it.
    pub fn bind(path: &Path) -> Result<(ControlSocket, UnixListener), DaemonError> {
        let failed = |source| DaemonError::Socket { path: path.to_path_buf(), source };
        match fs::symlink_metadata(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(failed(e)),
            Ok(meta) if !meta.file_type().is_socket() => {
                return Err(failed(io::Error::other("there is a file that is not a socket")));
            }
            Ok(_) if UnixStream::connect(path).is_ok() => {
                return Err(DaemonError::SocketTaken { path: path.to_path_buf(), pid: None });
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

/// Makes the socket in a folder that only its owner can enter, and puts it in its place with its final mode.
fn make(private: &Path, path: &Path) -> io::Result<(u64, UnixListener)> {
    // Left behind by a process that was killed.
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
            // A socket that stays is recognised as left behind.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_that_nobody_listens_on_is_replaced_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "left behind");
        let (socket, listener) = ControlSocket::bind(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert!(matches!(ControlSocket::bind(&path), Err(DaemonError::SocketTaken { .. })));
        drop((socket, listener));
        assert!(!path.exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn other_files_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        fs::write(&path, "mine").unwrap();
        assert!(matches!(ControlSocket::bind(&path), Err(DaemonError::Socket { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }
}
