//! The control socket: its permissions, and sockets that killed daemons left.
//!
//! It is created in a new directory that only its owner can enter, and then moved to its path: at no time can others
//! connect, whatever the umask. The directory is addressed by its descriptor, so that nobody who can write the folder
//! around it can put another one in its place. A socket without a listener was left by a killed daemon, and is replaced.
//!
//! While another process listens on it, or its directory cannot be written, it is waited for, like the mirror's file. Nothing
//! can be asked meanwhile, so the log and `systemctl status` report the reason.

use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use tokio::net::UnixListener;

use crate::config::Config;
use crate::store::lock;

const MODE: Mode = Mode::RUSR.union(Mode::WUSR);

const PRIVATE: Mode = Mode::RWXU;

const FRESH: &str = "s";

/// A socket that is removed when this is dropped, if the file is still the same one.
#[derive(Debug)]
pub(super) struct ControlSocket {
    path: PathBuf,
    inode: u64,
}

impl ControlSocket {
    /// Creates the socket; [`ErrorKind::AddrInUse`] while another process listens on it.
    pub(super) fn bind(path: &Path) -> io::Result<(ControlSocket, UnixListener)> {
        match fs::symlink_metadata(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
            Ok(meta) if !meta.file_type().is_socket() => {
                return Err(io::Error::other("there is a file that is not a socket"));
            }
            Ok(_) if UnixStream::connect(path).is_ok() => return Err(ErrorKind::AddrInUse.into()),
            Ok(_) => {}
        }
        let (inode, listener) = make(path)?;
        Ok((ControlSocket { path: path.to_path_buf(), inode }, listener))
    }
}

/// Creates the socket in a directory that only its owner can enter, and moves it to its path with its final mode.
fn make(path: &Path) -> io::Result<(u64, UnixListener)> {
    let private = path.with_file_name(format!(".crm-mirror-{:032x}", fastrand::u128(..)));
    // Fails if there is anything of this name.
    rustix::fs::mkdirat(CWD, &private, PRIVATE)?;
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let made = rustix::fs::openat(CWD, &private, flags, Mode::empty())
        .map_err(io::Error::from)
        .and_then(|folder| make_in(folder.as_fd(), path));
    let _ = fs::remove_dir(&private);
    made
}

fn make_in(folder: BorrowedFd<'_>, path: &Path) -> io::Result<(u64, UnixListener)> {
    let meta = rustix::fs::fstat(folder)?;
    let is_private = !Mode::from_raw_mode(meta.st_mode).intersects(Mode::RWXG | Mode::RWXO);
    let is_ours = is_private && meta.st_uid == rustix::process::geteuid().as_raw();
    if !is_ours {
        return Err(io::Error::other("its directory was replaced while it was being created"));
    }
    let listener = UnixListener::bind(format!("/proc/self/fd/{}/{FRESH}", folder.as_raw_fd()))?;
    let moved = rustix::fs::chmodat(folder, FRESH, MODE, AtFlags::empty())
        .and_then(|()| rustix::fs::statat(folder, FRESH, AtFlags::SYMLINK_NOFOLLOW))
        .and_then(|meta| rustix::fs::renameat(folder, FRESH, CWD, path).map(|()| meta.st_ino));
    if moved.is_err() {
        let _ = rustix::fs::unlinkat(folder, FRESH, AtFlags::empty());
    }
    Ok((moved?, listener))
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.ino() == self.inode) {
            // If this fails, the next daemon recognizes the socket as left over.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Creates the socket; if that fails, why, what helps, and whether another process listens on it.
pub(super) fn open(config: &Config) -> Result<(ControlSocket, UnixListener), (String, &'static str, bool)> {
    let path = config.socket.display();
    ControlSocket::bind(&config.socket).map_err(|error| {
        if error.kind() != ErrorKind::AddrInUse {
            let reason = format!("could not open the control socket {path}: {error}");
            return (reason, "its directory must exist and be writable (`daemon.socket`)", false);
        }
        let mut reason = format!("another process listens on the control socket {path}");
        if let Some(pid) = lock::current_writer(&config.database).flatten() {
            reason.push_str(&format!(": process {pid} writes the mirror"));
        }
        (reason, "each mirror needs its own daemon and its own socket (`daemon.socket`)", true)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn socket_without_a_listener_is_replaced_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "left over");
        let (socket, listener) = ControlSocket::bind(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert_eq!(ControlSocket::bind(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop((socket, listener));
        assert!(!path.exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn other_files_are_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        fs::write(&path, "mine").unwrap();
        assert_eq!(ControlSocket::bind(&path).unwrap_err().kind(), ErrorKind::Other);
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }
}
