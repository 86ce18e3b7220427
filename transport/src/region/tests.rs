use super::*;
use rustix::fs::{SealFlags, fcntl_get_seals, fstat, ftruncate};
use std::os::fd::OwnedFd;

mod file;

fn region(len: u64) -> Region {
    Region::create("farside-test", len, HugePages::Never).unwrap()
}

fn peer(region: &Region, access: Access) -> Region {
    Region::map(region.share(access).unwrap(), region.len(), access, Populate::Lazily).unwrap()
}

fn writable(region: &Region) -> OwnedFd {
    region.share(Access::ReadWrite).unwrap()
}

#[test]
fn what_one_mapping_writes_another_reads() {
    let ours = region(8192);
    let (writer, reader) = (peer(&ours, Access::ReadWrite), peer(&ours, Access::Read));
    let bytes: Vec<u8> = (0..1000).map(|i| i as u8).collect();
    writer.write(4096 + 8, &bytes).unwrap();
    let mut copy = vec![0; 1000];
    reader.read(4096 + 8, &mut copy).unwrap();
    assert_eq!(copy, bytes);
    assert_eq!(reader.load(4096 + 8).unwrap(), u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7]));
    assert_eq!(ours.load(4096 + 8 + 1000).unwrap(), 0);
}

#[test]
fn a_swap_happens_only_over_the_expected_word_and_tells_what_was_there() {
    let ours = region(64);
    assert_eq!(ours.compare_swap(8, 0, 5), Ok(0));
    assert_eq!(ours.compare_swap(8, 0, 6), Ok(5));
    assert_eq!(ours.load(8), Ok(5));
    assert_eq!(ours.compare_swap(8, 5, 6), Ok(5));
    assert_eq!(ours.load(8), Ok(6));
}

#[test]
fn every_access_outside_the_region_or_off_words_is_refused() {
    let ours = region(64);
    let mut buffer = [0; 128];
    for (at, len) in [(64, 8), (56, 16), (0, 72), (1, 8), (4, 8), (0, 12), (u64::MAX - 7, 8), (1 << 40, 0)] {
        let refused = Err(AccessError::Bounds { at, len, region_len: 64 });
        assert_eq!(ours.read(at, &mut buffer[..len]), refused, "{at} {len}");
        assert_eq!(ours.write(at, &buffer[..len]), refused, "{at} {len}");
    }
    for at in [64, 57, 3, u64::MAX] {
        assert!(matches!(ours.load(at), Err(AccessError::Bounds { .. })));
        assert!(matches!(ours.compare_swap(at, 0, 0), Err(AccessError::Bounds { .. })));
    }
    assert_eq!(ours.read(64, &mut []), Ok(()));
    assert_eq!(ours.read(56, &mut buffer[..8]), Ok(()));
}

#[test]
fn a_read_only_peer_is_refused_changes_and_cannot_map_its_descriptor_writable() {
    let ours = region(4096);
    let reader = peer(&ours, Access::Read);
    assert_eq!(reader.compare_swap(8, 0, 1), Err(AccessError::ReadOnly { at: 8 }));
    assert_eq!(reader.write(16, &[0; 8]), Err(AccessError::ReadOnly { at: 16 }));
    let descriptor = ours.share(Access::Read).unwrap();
    assert!(matches!(
        Region::map(descriptor, 4096, Access::ReadWrite, Populate::Lazily),
        Err(MapError::ReadOnly)
    ));
    let descriptor = ours.share(Access::Read).unwrap();
    assert!(
        memmap2::MmapOptions::new().len(4096).map_raw(&descriptor).is_err(),
        "the kernel must refuse it too"
    );
    // Nor can another user open it anew.
    assert_eq!(fstat(&descriptor).unwrap().st_mode & 0o777, 0o600);
}

#[test]
fn a_region_cannot_be_resized_or_unsealed() {
    let ours = region(4096);
    assert!(ftruncate(writable(&ours), 0).is_err());
    assert!(ftruncate(writable(&ours), 8192).is_err());
    let seals = fcntl_get_seals(writable(&ours)).unwrap();
    assert_eq!(seals, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL);
}

#[test]
fn a_peers_file_that_could_fail_under_us_is_not_mapped() {
    let map = |file: OwnedFd, len| Region::map(file, len, Access::Read, Populate::Lazily);
    let unsealed = rustix::fs::memfd_create("unsealed", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&unsealed, 4096).unwrap();
    // Its owner could: that is this process's own user, who could end it anyway, or another.
    let nobody = Some(rustix::fs::Uid::from_raw(65_534));
    let is_given_away = rustix::fs::fchown(&unsealed, nobody, None).is_ok();
    match map(unsealed, 4096) {
        Ok(_) => assert!(!is_given_away),
        Err(error) => assert!(matches!(error, MapError::NotSealed { owner: 65_534 }), "{error}"),
    }
    let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    assert!(matches!(map(socket.into(), 4096), Err(MapError::NotMemory)));

    let ours = region(4096);
    for announced in [8192, 4104, 4088, 0] {
        assert!(
            matches!(map(writable(&ours), announced), Err(MapError::Length { found: 4096, .. })),
            "{announced}"
        );
    }
}

#[test]
fn a_region_that_does_not_fit_is_refused_before_it_takes_memory() {
    let error = Region::create("huge", 1 << 50, HugePages::Never).unwrap_err();
    assert!(matches!(error, CreateError::NoRoom { needed, .. } if needed == 1 << 50), "{error}");
    for len in [0, 12] {
        assert!(matches!(Region::create("odd", len, HugePages::Never), Err(CreateError::Length(_))));
    }
}

/// Whether there are huge pages is the machine's; what must hold is that the region says which it got.
#[test]
fn huge_pages_are_used_or_the_reason_is_told() {
    let ours = Region::create("farside-test", (1 << 20) + 8, HugePages::Try).unwrap();
    ours.write(1 << 20, &[7; 8]).unwrap();
    match ours.pages() {
        Pages::Huge(size) => assert_eq!(*size, 2 << 20),
        Pages::Ordinary { reason } => {
            assert!(reason.is_some());
            let error = Region::create("farside-test", 1 << 20, HugePages::Require).unwrap_err();
            assert!(error.to_string().contains("vm.nr_hugepages"), "{error}");
        }
    }
    let peer = peer(&ours, Access::ReadWrite);
    assert_eq!(peer.load(1 << 20), Ok(0x0707_0707_0707_0707));
    assert_eq!(matches!(peer.pages(), Pages::Huge(_)), matches!(ours.pages(), Pages::Huge(_)));
}

/// Two threads each put their own word and then look for the other's, as INSERT does: both must never miss.
#[test]
fn of_two_that_swap_and_then_read_one_sees_the_other() {
    let ours = region(4096);
    let rounds = 20_000;
    let barrier = std::sync::Barrier::new(2);
    let player = |own: u64, other: u64| {
        let mut seen = Vec::with_capacity(rounds);
        for round in 0..rounds as u64 {
            // Two cache lines a round apart from each other, so that the words do not share one.
            let base = round % 16 * 128;
            barrier.wait();
            ours.compare_swap(base + own, round / 16, round / 16 + 1).unwrap();
            let mut word = [0; 8];
            ours.read(base + other, &mut word).unwrap();
            seen.push(u64::from_le_bytes(word) == round / 16 + 1);
            barrier.wait();
        }
        seen
    };
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| player(0, 64));
        let second = player(64, 0);
        (first.join().unwrap(), second)
    });
    assert!(first.iter().zip(&second).all(|(first, second)| *first || *second));
}

/// A record's body is written, then published by a swap; a reader that follows the published word sees all of it.
#[test]
fn what_a_swap_published_is_seen_whole_by_who_follows_it() {
    const WORDS: usize = 32;
    let ours = region(1 << 16);
    let writer = peer(&ours, Access::ReadWrite);
    let reader = peer(&ours, Access::Read);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for generation in 1..=5_000u64 {
                let block = 4096 + generation % 128 * 256;
                let body: Vec<u8> = (0..WORDS).flat_map(|_| generation.to_le_bytes()).collect();
                writer.write(block, &body).unwrap();
                writer.compare_swap(0, generation - 1, generation).unwrap();
            }
        });
        let mut latest = 0;
        while latest < 5_000 {
            latest = reader.load(0).unwrap();
            if latest == 0 {
                continue;
            }
            let mut body = [0; WORDS * 8];
            reader.read(4096 + latest % 128 * 256, &mut body).unwrap();
            // The writer may have gone round the blocks since; it never goes back.
            for word in body.as_chunks::<8>().0 {
                assert!(u64::from_le_bytes(*word) >= latest);
            }
        }
    });
}
