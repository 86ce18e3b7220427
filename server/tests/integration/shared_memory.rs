//! Sessions that share the server's memory, and what becomes of their blocks when they die.

use crate::client::{Client, config, eventually, figure, hello, key_of, start};
use farside_protocol::limits::SLOTS_PER_WINDOW;
use farside_protocol::wire::{Condition, Request, Response, Rights, Wants, Welcome};
use farside_protocol::{
    ErrorKind, KeyHash, Life, Link, Locator, Record, SlotIndex, SlotState, SlotWord, Superblock, superblock,
};
use farside_server::{Config, Running, Socket};
use farside_transport::fd_passing;
use farside_transport::region::{Access, Populate, Region};
use std::time::{Duration, Instant};

/// A session that shares memory, played by hand.
struct Sharer {
    client: Client,
    welcome: Welcome,
    regions: Vec<Region>,
}

fn start_shared(folder: &tempfile::TempDir) -> Running {
    let socket = Socket::At(folder.path().join("farside.sock"));
    start(Config { socket, ..config() })
}

impl Sharer {
    fn open(running: &Running, rights: Rights) -> Self {
        let (mut client, socket) = Client::mute_unix(running);
        let welcome = client.greet(&hello(b"", rights, Wants::Memory)).welcome();
        let files = fd_passing::receive(&socket, welcome.shards.len()).unwrap();
        let access = if rights == Rights::ReadWrite { Access::ReadWrite } else { Access::Read };
        let lengths = welcome.shards.iter().map(|shard| shard.geometry.region_len());
        let map = |(file, len)| Region::map(file, len, access, Populate::Lazily).unwrap();
        Self { client, regions: files.into_iter().zip(lengths).map(map).collect(), welcome }
    }

    fn shard_of(&self, key: &str) -> (usize, KeyHash) {
        let hash = KeyHash::of(key.as_bytes(), self.welcome.shards[0].seed);
        (hash.shard(self.welcome.shards.len()), hash)
    }

    fn lease(&mut self, shard: usize, record: &Record<'_>, count: u16) -> Vec<Life> {
        let request = Request::Lease { shard: shard as u32, class: record.class(), queue_pair: 0, count };
        match self.client.call(&request).response() {
            Response::Leased { lives, .. } => lives,
            other => panic!("{other:?}"),
        }
    }

    /// Writes a record for `key` into a leased block; returns where it is and the slots where its key belongs.
    fn write(&mut self, key: &str, value: &[u8]) -> (usize, Locator, Life, Vec<SlotIndex>) {
        let (shard, hash) = self.shard_of(key);
        let record = Record::new(key_of(key), value).unwrap();
        let life = self.lease(shard, &record, 1)[0];
        let mut bytes = vec![0; record.len().next_multiple_of(8)];
        let locator = record.encode(hash.fingerprint(), record.class(), life, &mut bytes);
        self.regions[shard].write(life.block.offset(), &bytes).unwrap();
        let geometry = self.welcome.shards[shard].geometry;
        let first = geometry.window(hash.home_line(geometry.lines()));
        (shard, locator, life, (first.0..).take(SLOTS_PER_WINDOW).map(SlotIndex).collect())
    }

    fn swap(&self, shard: usize, at: u64, expect: u64, new: u64) {
        assert_eq!(self.regions[shard].compare_swap(at, expect, new).unwrap(), expect);
    }

    /// Dies as a killed process does: mappings and connection go, nothing is said.
    fn die(self) {
        drop(self.regions);
        drop(self.client);
    }
}

fn orphans(running: &Running) -> u64 {
    figure(running, "farside_orphan_blocks_total")
}

#[test]
fn every_shard_comes_with_its_superblock() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_shared(&folder);
    let sharer = Sharer::open(&running, Rights::ReadWrite);
    for (shard, region) in sharer.welcome.shards.iter().zip(&sharer.regions) {
        let mut page = [0; 4096];
        region.read(0, &mut page).unwrap();
        let (bytes, rest) = page.split_first_chunk::<{ superblock::LEN }>().unwrap();
        assert_eq!(Superblock::decode(bytes).as_ref(), Ok(shard));
        assert!(rest.iter().all(|byte| *byte == 0));
    }
    assert_eq!(sharer.welcome.socket, running.socket().unwrap().to_str().unwrap());
}

#[test]
fn a_reader_cannot_map_the_memory_for_writing() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_shared(&folder);
    let (mut client, socket) = Client::mute_unix(&running);
    let welcome = client.greet(&hello(b"", Rights::Read, Wants::Memory)).welcome();
    let files = fd_passing::receive(&socket, welcome.shards.len()).unwrap();
    let len = welcome.shards[0].geometry.region_len();
    for file in files {
        assert!(Region::map(file, len, Access::ReadWrite, Populate::Lazily).is_err());
    }
}

#[test]
fn a_writer_that_is_not_trusted_gets_memory_to_read_and_no_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let socket = Socket::At(folder.path().join("farside.sock"));
    let running = start(Config { socket, untrusted_writers: true, ..config() });
    let (mut client, socket) = Client::mute_unix(&running);
    let welcome = client.greet(&hello(b"", Rights::ReadWrite, Wants::Memory)).welcome();
    assert_eq!((welcome.rights, welcome.memory_rights), (Rights::ReadWrite, Rights::Read));
    let files = fd_passing::receive(&socket, welcome.shards.len()).unwrap();
    let len = welcome.shards[0].geometry.region_len();
    for file in files {
        assert!(Region::map(file, len, Access::ReadWrite, Populate::Lazily).is_err());
    }

    let key = key_of("k");
    let put = Request::Put { key, value: b"v", expires_at_ms: 0, condition: Condition::Always };
    let version = match client.call(&put).response() {
        Response::Stored { version: Some(version), .. } => version,
        other => panic!("{other:?}"),
    };
    // To retire a record that is live would have its memory overwritten.
    let retired =
        Request::Report { shard: 0, published: vec![], retired: vec![version.life()], returned: vec![] };
    let lease =
        Request::Lease { shard: 0, class: Record::new(key, b"v").unwrap().class(), queue_pair: 0, count: 1 };
    for request in [retired, lease] {
        assert_eq!(client.call(&request).error().0, ErrorKind::Invalid);
    }
    assert_eq!(client.call(&Request::Get { key }).value(), b"v");
}

#[test]
fn what_a_sharer_publishes_is_served_to_all() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_shared(&folder);
    let mut sharer = Sharer::open(&running, Rights::ReadWrite);
    let (shard, locator, life, slots) = sharer.write("k", b"by hand");
    sharer.swap(shard, slots[3].offset(), 0, SlotWord::committed(locator).to_bits());
    let report =
        Request::Report { shard: shard as u32, published: vec![life], retired: vec![], returned: vec![] };
    assert_eq!(sharer.client.call(&report).response(), Response::Done);
    assert_eq!(Client::connect(&running).get("k").value(), b"by hand");
    sharer.die();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(Client::connect(&running).get("k").value(), b"by hand");
    assert_eq!(orphans(&running), 0);
}

#[test]
fn the_tentative_word_of_a_dead_client_is_cleared_and_its_blocks_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_shared(&folder);
    let leased = || figure(&running, "farside_bytes_leased");
    let mut sharer = Sharer::open(&running, Rights::ReadWrite);
    let (shard, locator, _, slots) = sharer.write("k", b"never finished");
    sharer.swap(shard, slots[0].offset(), 0, SlotWord::tentative(locator).to_bits());
    let record = Record::new(key_of("x"), b"").unwrap();
    sharer.lease(shard, &record, 100);
    assert!(leased() > 6400);

    let twin = Sharer::open(&running, Rights::ReadWrite);
    let word = || {
        let bits = twin.regions[shard].load(slots[0].offset()).unwrap();
        SlotWord::from_bits(bits).state()
    };
    assert_eq!(word(), SlotState::Tentative);
    let died = Instant::now();
    sharer.die();
    eventually("the word is cleared", || word() == SlotState::Empty);
    assert!(died.elapsed() < Duration::from_secs(1), "the key is usable within a second");
    eventually("its blocks are free", || leased() == 0 && figure(&running, "farside_quarantined_bytes") == 0);
    assert_eq!(orphans(&running), 101);
    let mut client = Client::connect(&running);
    assert!(matches!(client.get("k").response(), Response::Absent));
    assert!(matches!(client.put("k", b"v").response(), Response::Stored { .. }));
}

#[test]
fn a_key_can_be_put_while_a_stopped_client_is_in_the_middle_of_its_insert() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_shared(&folder);
    let mut sharer = Sharer::open(&running, Rights::ReadWrite);
    let (shard, locator, _, slots) = sharer.write("k", b"stopped");
    let (at, word) = (slots[0].offset(), SlotWord::tentative(locator).to_bits());
    sharer.swap(shard, at, 0, word);
    let mut client = Client::connect(&running);
    assert!(matches!(client.put("k", b"v").response(), Response::Stored { .. }));
    // Its word was killed: when it goes on, its commit fails.
    assert_ne!(sharer.regions[shard].load(at).unwrap(), word);
    assert_eq!(client.get("k").value(), b"v");
}

#[test]
fn what_a_dead_client_published_and_did_not_report_stays() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_shared(&folder);
    let mut client = Client::connect(&running);
    client.put("updated", b"old");

    let mut sharer = Sharer::open(&running, Rights::ReadWrite);
    let (shard, locator, _, slots) = sharer.write("inserted", b"new");
    sharer.swap(shard, slots[5].offset(), 0, SlotWord::committed(locator).to_bits());
    // An update whose slot was never brought forward.
    let (shard, locator, _, slots) = sharer.write("updated", b"new");
    let words =
        slots.iter().map(|slot| SlotWord::from_bits(sharer.regions[shard].load(slot.offset()).unwrap()));
    let old = words.into_iter().find(|word| word.is_committed_for(locator.fingerprint())).unwrap();
    let link_at = old.locator().block().offset();
    let link = sharer.regions[shard].load(link_at).unwrap();
    sharer.swap(shard, link_at, link, Link::NextBlind(locator).to_bits());
    sharer.die();

    eventually("both were found", || orphans(&running) == 2);
    for key in ["inserted", "updated"] {
        assert_eq!(client.get(key).value(), b"new");
    }
    eventually("nothing is leased but the server's own stock", || {
        figure(&running, "farside_sessions{transport=\"shm\"}") == 0
    });
}

#[test]
fn a_fence_waits_for_the_end_of_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_shared(&folder);
    let (old, mut new) =
        (Sharer::open(&running, Rights::ReadWrite), Sharer::open(&running, Rights::ReadWrite));
    let fence = Request::Fence { session: old.welcome.session };
    let (kind, message) = new.client.call(&fence).error();
    assert_eq!((kind, message.contains("still connected")), (ErrorKind::Unavailable, true));
    old.die();
    assert_eq!(new.client.call(&fence).response(), Response::Done);
    // One that never was cannot have posted anything.
    assert_eq!(new.client.call(&Request::Fence { session: 999_999 }).response(), Response::Done);
}

#[test]
fn a_silent_sharer_is_marked_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let socket = Socket::At(folder.path().join("farside.sock"));
    let running = start(Config { socket, session_lease: Duration::from_millis(200), ..config() });
    let mut sharer = Sharer::open(&running, Rights::ReadWrite);
    let (_, _, life, _) = sharer.write("k", b"v");
    let silent = || figure(&running, "farside_sessions_silent");
    eventually("it is marked", || silent() == 1);
    std::thread::sleep(Duration::from_millis(500));
    let (shard, _) = sharer.shard_of("k");
    let report =
        Request::Report { shard: shard as u32, published: vec![], retired: vec![], returned: vec![life] };
    assert_eq!(sharer.client.call(&report).response(), Response::Done);
    assert_eq!((silent(), orphans(&running)), (0, 0));
}

#[test]
fn garbage_from_a_sharer_does_not_free_what_it_may_still_write() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_shared(&folder);
    let mut sharer = Sharer::open(&running, Rights::ReadWrite);
    sharer.write("k", b"v");
    sharer.client.write(&[0xff; 64]);
    assert_eq!(sharer.client.receive().unwrap().error().0, ErrorKind::Invalid);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(orphans(&running), 0);
    sharer.die();
    eventually("its block is free", || orphans(&running) == 1);
}

#[test]
fn one_session_cannot_lease_all_memory() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_shared(&folder);
    let mut sharer = Sharer::open(&running, Rights::ReadWrite);
    let value = vec![0; 10_000];
    let record = Record::new(key_of("k"), &value).unwrap();
    let request = Request::Lease { shard: 0, class: record.class(), queue_pair: 0, count: 1000 };
    let mut blocks = 0;
    let kind = loop {
        let reply = sharer.client.call(&request);
        match reply.response() {
            Response::Leased { lives, .. } => blocks += lives.len(),
            Response::Error { kind, .. } => break kind,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(kind, ErrorKind::Refused);
    let size = record.class().size();
    assert!(blocks * size <= (4 << 20) / 4 + size, "{blocks} blocks");
    assert!(matches!(Client::connect(&running).put("other", &value).response(), Response::Stored { .. }));
}
