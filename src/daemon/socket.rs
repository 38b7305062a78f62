//! The control socket: its permissions, and sockets without a listener, which killed daemons left and which are replaced.
//!
//! While another process listens on it, or its directory cannot be written, it is waited for, like the mirror's file. Nothing
//! can be asked meanwhile, so the log and `systemctl status` report the reason.

use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use tokio::net::UnixListener;

use crate::config::Config;
use crate::store::lock;

const MODE: Mode = Mode::RUSR.union(Mode::WUSR);

const BACKLOG: i32 = 128;

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
            Ok(_) => fs::remove_file(path)?,
        }
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // The file has the mode of the socket that is bound: at no time can others connect, whatever the umask.
        rustix::fs::fchmod(&socket, MODE)?;
        // Fails if there is anything of this name, a link too.
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        listen(&socket, BACKLOG)?;
        let inode = fs::symlink_metadata(path)?.ino();
        Ok((ControlSocket { path: path.to_path_buf(), inode }, UnixListener::from_std(socket.into())?))
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.ino() == self.inode) {
            // If this fails, the next daemon recognizes the socket as left over.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Creates the socket; if that fails, why, and what helps.
pub(super) fn open(config: &Config) -> Result<(ControlSocket, UnixListener), (String, Option<&'static str>)> {
    let path = config.socket.display();
    ControlSocket::bind(&config.socket).map_err(|error| {
        if error.kind() != ErrorKind::AddrInUse {
            let reason = format!("could not open the control socket {path}: {error}");
            return (reason, Some("its directory must exist and be writable (`daemon.socket`)"));
        }
        let mut reason = format!("another process listens on the control socket {path}");
        if let Some(pid) = lock::current_writer(&config.database).flatten() {
            reason.push_str(&format!(": process {pid} writes the mirror"));
        }
        (reason, Some("each mirror needs its own daemon and its own socket (`daemon.socket`)"))
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
