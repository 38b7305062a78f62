//! The control socket: who may use it, and what a daemon that was killed leaves behind.
//!
//! It is made under another name, closed to everybody but its owner, and only then put in its place, so there is no moment
//! in which others could connect. A socket that nobody listens on is one that a killed daemon left, and is replaced.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

use super::error::DaemonError;

/// Only the daemon's user, and root.
const MODE: u32 = 0o600;

/// A socket that is removed when this is dropped, if it is still the one that was made.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    inode: u64,
}

impl Socket {
    /// Makes the socket and listens on it.
    ///
    /// # Errors
    /// If another program listens there, or the folder does not take it.
    pub fn bind(path: &Path) -> Result<(Socket, UnixListener), DaemonError> {
        let failed = |source| DaemonError::Socket { path: path.to_path_buf(), source };
        match fs::symlink_metadata(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(failed(e)),
            Ok(meta) if !meta.file_type().is_socket() => {
                return Err(failed(io::Error::other("something else than a socket stands there")));
            }
            Ok(_) if UnixStream::connect(path).is_ok() => {
                return Err(DaemonError::SocketTaken { path: path.to_path_buf() });
            }
            Ok(_) => {}
        }
        let mut fresh = path.as_os_str().to_owned();
        fresh.push(format!(".{}", std::process::id()));
        let fresh = PathBuf::from(fresh);
        let _ = fs::remove_file(&fresh);
        let listener = UnixListener::bind(&fresh).map_err(failed)?;
        let made = fs::set_permissions(&fresh, Permissions::from_mode(MODE))
            .and_then(|()| fs::metadata(&fresh))
            .and_then(|meta| fs::rename(&fresh, path).map(|()| meta.ino()));
        match made {
            Ok(inode) => Ok((Socket { path: path.to_path_buf(), inode }, listener)),
            Err(e) => {
                let _ = fs::remove_file(&fresh);
                Err(failed(e))
            }
        }
    }
}

impl Drop for Socket {
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
        let (socket, listener) = Socket::bind(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert!(matches!(Socket::bind(&path), Err(DaemonError::SocketTaken { .. })));
        drop((socket, listener));
        assert!(!path.exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn other_files_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        fs::write(&path, "mine").unwrap();
        assert!(matches!(Socket::bind(&path), Err(DaemonError::Socket { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }
}
