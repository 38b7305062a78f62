//! Opens regular files and nothing else: a FIFO would block for ever, and a device has no end.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Opens a file of a user to read it, by whatever links it is reached.
pub fn open(path: &Path) -> io::Result<File> {
    opened(File::options().read(true), OFlags::NONBLOCK, path)
}

/// Opens a file that the program itself keeps, to read it. Whoever may write its folder may have put a link there, which
/// is not followed.
pub fn open_own(path: &Path) -> io::Result<File> {
    opened(File::options().read(true), OFlags::NONBLOCK | OFlags::NOFOLLOW, path)
}

/// Like [`open_own`], to write it too; it is created with this mode if it is missing.
pub fn open_or_create_own(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = File::options();
    opened(options.create(true).read(true).write(true).mode(mode), OFlags::NONBLOCK | OFlags::NOFOLLOW, path)
}

fn opened(options: &mut OpenOptions, flags: OFlags, path: &Path) -> io::Result<File> {
    let file = options.custom_flags(flags.bits().cast_signed()).open(path).map_err(|error| {
        match Errno::from_io_error(&error) {
            Some(Errno::LOOP) if flags.contains(OFlags::NOFOLLOW) => io::Error::other("it is a symbolic link"),
            // What opening a FIFO or a socket to write it returns.
            Some(Errno::NXIO) => not_regular(),
            _ => error,
        }
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
}

fn not_regular() -> io::Error {
    io::Error::other("it is not a regular file")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_to_files_of_users_only_and_a_fifo_never_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        symlink("file", at("link")).unwrap();
        symlink("nothing", at("dangling")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), rustix::fs::Mode::RWXU).unwrap();
        for name in ["file", "link"] {
            let mut text = String::new();
            open(&at(name)).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "text", "{name}");
        }
        for name in ["link", "dangling", "fifo", "."] {
            assert!(open_own(&at(name)).is_err(), "{name}");
            assert!(open_or_create_own(&at(name), 0o600).is_err(), "{name}");
        }
        assert_eq!(open_own(&at("link")).unwrap_err().to_string(), "it is a symbolic link");
        assert!(open(&at("fifo")).is_err() && open(&at(".")).is_err());
        assert!(!at("nothing").exists());
        open_own(&at("file")).unwrap();
        open_or_create_own(&at("new"), 0o600).unwrap();
    }
}
