//! The disk: whether this user may write there, and whether there is room for what the mirror will need.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Access, access, statvfs};
use rustix::io::Errno;

use super::finding::Finding;
use super::mirror::MirrorFacts;
use super::readers::{folder_of, user};
use crate::{exit::Exit, format};

/// What a record with its detail takes where none is here yet to go by.
const PER_RECORD: u64 = 3 * 1024;
/// A mirror with fewer records is mostly empty tables, and says little about a record.
const ENOUGH: u64 = 500;
/// What a run may leave in the WAL beside the file.
const ROOM: u64 = 128 * 1024 * 1024;

/// Looks at the folder and the disk. `expected` is how many records the service has, where that is known.
pub fn check(database: &Path, mirror: Option<&MirrorFacts>, expected: Option<u64>) -> Vec<Finding> {
    let folder = folder_of(database);
    let mut lines = vec![folder_line(&folder, database)];
    if let Ok(disk) = statvfs(&folder) {
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        lines.push(match SpaceForecast::of(mirror, expected) {
            Some(forecast) => room(free, &forecast),
            None => Finding::skip(
                "disk.space",
                format!("{} free; how much the mirror will take is not known", format::bytes(free)),
            ),
        });
    }
    lines
}

/// Whether a run of this user could write. Nothing is written to find out.
fn folder_line(folder: &Path, database: &Path) -> Finding {
    let name = "disk.folder";
    let Ok(meta) = std::fs::metadata(folder) else {
        return Finding::fail(
            name,
            Exit::Storage,
            format!("{} cannot be reached by this user, or does not exist", folder.display()),
            format!("mkdir -p {}, or name another file with `database.path`", folder.display()),
        );
    };
    if !meta.is_dir() {
        return Finding::fail(
            name,
            Exit::Storage,
            format!("{} is not a folder", folder.display()),
            "name another file with `database.path`",
        );
    }
    let mut needed = vec![folder.to_path_buf()];
    needed.extend(["", "-wal", "-shm", ".lock"].map(|suffix| {
        let mut path = database.as_os_str().to_owned();
        path.push(suffix);
        path.into()
    }));
    let refused = needed.iter().filter(|path| path.exists()).find_map(|path| {
        let error = access(path, Access::WRITE_OK).err()?;
        Some((path, error))
    });
    match refused {
        None => Finding::ok(name, format!("this user may write to {}", folder.display())),
        Some((_, Errno::ROFS)) => Finding::fail(
            name,
            Exit::Storage,
            format!("{} is on a disk that is mounted for reading only", folder.display()),
            "after an error the system does that by itself: `dmesg` shows why; then `mount -o remount,rw`",
        ),
        Some((path, _)) => {
            Finding::fail(name, Exit::Storage, format!("this user may not write to {}", path.display()), fix(path))
        }
    }
}

fn fix(path: &Path) -> String {
    let owner = std::fs::metadata(path).map(|meta| user(meta.uid()));
    owner.map_or_else(
        |_| "run this as the user that writes the mirror".into(),
        |owner| format!("it belongs to {owner}: run this as that user, as in `sudo -u {owner} crm-mirror check`"),
    )
}

/// What the mirror will need beyond what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SpaceForecast {
    /// How large the file will be.
    file: u64,
    /// How much it will grow.
    growth: u64,
}

impl SpaceForecast {
    /// `None` where nothing tells how much it will be.
    fn of(mirror: Option<&MirrorFacts>, expected: Option<u64>) -> Option<SpaceForecast> {
        let (bytes, rows) = mirror.map_or((0, 0), |mirror| (mirror.bytes + mirror.wal_bytes, mirror.rows()));
        let expected = expected.or(mirror.map(|_| rows))?;
        Some(SpaceForecast::from(bytes, rows, expected))
    }

    fn from(bytes: u64, rows: u64, expected: u64) -> SpaceForecast {
        let each = if rows < ENOUGH { PER_RECORD } else { bytes / rows };
        let growth = expected.saturating_sub(rows).saturating_mul(each);
        SpaceForecast { file: bytes.saturating_add(growth), growth }
    }

    /// The WAL's share: what a run leaves there, and the one large transaction at the end of a first copy.
    fn with_room(&self) -> u64 {
        self.growth.saturating_add(ROOM.max(self.growth / 2))
    }
}

fn room(free: u64, forecast: &SpaceForecast) -> Finding {
    let name = "disk.space";
    let message = format!("{} free; the mirror will take about {}", format::bytes(free), format::bytes(forecast.file));
    let fix = || format!("make room for {} on this disk, or move `database.path`", format::bytes(forecast.with_room()));
    if free <= forecast.growth {
        Finding::fail(name, Exit::Storage, format!("{message}: not enough"), fix())
    } else if free < forecast.with_room() {
        Finding::warn(name, format!("{message}: hardly enough with its WAL"), fix())
    } else {
        Finding::ok(name, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::finding::FindingState;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn the_forecast_goes_by_what_is_here() {
        assert_eq!(SpaceForecast::from(0, 0, 1000).file, 3000 * 1024);
        assert_eq!(SpaceForecast::from(10 * MIB, 1024, 2048), SpaceForecast { file: 20 * MIB, growth: 10 * MIB });
        assert_eq!(SpaceForecast::from(10 * MIB, 1024, 7).growth, 0);
    }

    #[test]
    fn too_little_room_fails_and_little_room_warns() {
        let forecast = SpaceForecast { file: 500 * MIB, growth: 400 * MIB };
        for (free, state) in
            [(400 * MIB, FindingState::Fail), (599 * MIB, FindingState::Warn), (600 * MIB, FindingState::Ok)]
        {
            assert_eq!(room(free, &forecast).state, state, "{free}");
        }
        let grown = SpaceForecast { file: 7, growth: 0 };
        assert_eq!(room(0, &grown).state, FindingState::Fail);
        assert_eq!(room(MIB, &grown).state, FindingState::Warn);
    }

    #[test]
    fn a_folder_that_is_not_there_is_told_and_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("gone");
        let line = folder_line(&folder, &folder.join("m.db"));
        assert_eq!((line.state, line.exit), (FindingState::Fail, Exit::Storage));
        assert!(!folder.exists());
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(folder_line(&file, &file.join("m.db")).message.ends_with("is not a folder"));
        assert_eq!(folder_line(dir.path(), &dir.path().join("m.db")).state, FindingState::Ok);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
