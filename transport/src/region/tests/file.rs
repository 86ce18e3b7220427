//! Regions on named files.

use super::*;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use tempfile::TempDir;

const LEN: u64 = 1 << 20;

fn folder() -> (TempDir, File) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let opened = File::open(folder.path()).unwrap();
    (folder, opened)
}

#[test]
fn what_is_written_is_there_for_the_next_who_maps_it() {
    let (path, folder) = folder();
    check_filesystem(&folder).unwrap();
    let region = RegionFile::create(&folder, "shard", LEN).unwrap().map(LEN).unwrap();
    region.write(4096, &[7; 64]).unwrap();
    drop(region);
    let file = RegionFile::open(&folder, "shard").unwrap();
    assert_eq!(file.head::<4104>().unwrap()[4096..], [7; 8]);
    let region = file.map(LEN).unwrap();
    assert_eq!((region.len(), region.load(4096)), (LEN, Ok(u64::from_le_bytes([7; 8]))));
    let metadata = fs::metadata(path.path().join("shard")).unwrap();
    assert_eq!(metadata.mode() & 0o777, 0o600);
    assert!(metadata.blocks() * 512 >= LEN, "all of it is allocated");
    assert!(
        matches!(RegionFile::create(&folder, "shard", LEN), Err(FileError::System { .. })),
        "it is there"
    );
}

#[test]
fn it_is_held_until_the_last_mapping_is_gone() {
    let (_path, folder) = folder();
    let server = RegionFile::create(&folder, "shard", LEN).unwrap().map(LEN).unwrap();
    let next = RegionFile::open(&folder, "shard").unwrap();
    assert!(!next.is_held().unwrap(), "the server's own mapping does not count");
    for access in [Access::Read, Access::ReadWrite] {
        let shared = server.share(access).unwrap();
        assert!(next.is_held().unwrap(), "a descriptor on its way");
        let client = Region::map(shared, LEN, access, Populate::Lazily).unwrap();
        assert!(next.is_held().unwrap(), "a mapping alone");
        assert!(next.holders().iter().any(|holder| holder.pid == std::process::id()), "{:?}", next.holders());
        client.let_go().unwrap();
        assert!(!next.is_held().unwrap());
        assert_eq!(client.load(0), Ok(0));
    }
}

#[test]
fn a_region_that_is_let_go_is_read_and_changed_as_before_but_by_nobody_else() {
    let ours = region(LEN);
    let theirs = peer(&ours, Access::ReadWrite);
    ours.write(8, &[5; 8]).unwrap();
    theirs.let_go().unwrap();
    assert_eq!((theirs.load(8), theirs.compare_swap(8, 0, 6), theirs.load(8)), (Ok(0), Ok(0), Ok(6)));
    theirs.write(LEN - 8, &[1; 8]).unwrap();
    assert_eq!((ours.load(8), ours.load(LEN - 8)), (Ok(u64::from_le_bytes([5; 8])), Ok(0)));
    assert!(matches!(theirs.load(LEN), Err(AccessError::Bounds { .. })));
}

#[test]
fn a_hole_is_filled_before_it_is_mapped() {
    let (path, folder) = folder();
    drop(RegionFile::create(&folder, "shard", LEN).unwrap());
    let blocks = || fs::metadata(path.path().join("shard")).unwrap().blocks();
    let (file, whole) = (File::options().write(true).open(path.path().join("shard")).unwrap(), blocks());
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, LEN / 2).unwrap();
    assert!(blocks() < whole);
    let _region = RegionFile::open(&folder, "shard").unwrap().map(LEN).unwrap();
    assert_eq!(blocks(), whole);
}

#[test]
fn what_cannot_be_a_region_says_why() {
    let (path, folder) = folder();
    fs::create_dir(path.path().join("folder")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", path.path().join("link")).unwrap();
    fs::write(path.path().join("short"), [0; 64]).unwrap();
    assert!(matches!(RegionFile::open(&folder, "absent"), Err(FileError::Missing)));
    assert!(RegionFile::open(&folder, "folder").is_err());
    assert!(RegionFile::open(&folder, "link").is_err());
    let short = RegionFile::open(&folder, "short").unwrap();
    assert_eq!(short.head::<128>().unwrap(), [0; 128]);
    assert!(matches!(short.map(LEN), Err(FileError::Length { found: 64, expected: LEN })));
    let error = RegionFile::create(&folder, "huge", 1 << 50).unwrap_err();
    assert!(matches!(error, FileError::Full { .. } | FileError::NoRoom { .. }), "{error}");
    // Whatever holds this file's source.
    if let Err(error) = check_filesystem(File::open(env!("CARGO_MANIFEST_DIR")).unwrap()) {
        assert!(error.to_string().contains("/dev/shm"), "{error}");
    }
}

#[test]
fn the_locker_of_a_file_is_told() {
    let (_path, folder) = folder();
    assert_eq!(locker(&folder), None);
    rustix::fs::flock(&folder, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let locker = locker(&folder).map(|holder| holder.pid);
    // A container may hide the locks of its host's processes, its own among them.
    assert!(locker.is_none_or(|pid| pid == std::process::id()), "{locker:?}");
}
