use super::former::{Process, wait_for_all};
use super::*;
use crate::config::{Config, Socket};
use crate::server::{Running, Server, StartError};
use crate::shard::SERVER_SESSION;
use farside_hashtable::plan::{Lease, Op, Put, put};
use farside_protocol::wire::Condition;
use farside_protocol::{Key, Record};
use farside_transport::region::{Access, RegionFile};
use farside_transport::{Counts, Fabric, LaneIo, drive};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::time::Duration;
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

fn config(path: &Path) -> Config {
    Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        socket: Socket::Off,
        threads: Some(1),
        region_dir: Some(path.into()),
        ..Config::default()
    }
}

/// What a table is made with.
fn new(path: &Path) -> Config {
    Config { memory: Some(2 << 20), shards: Some(2), max_keys: Some(1000), ..config(path) }
}

fn start(config: Config) -> Running {
    Server::start(config).unwrap()
}

fn refused(config: Config) -> String {
    match Server::start(config) {
        Err(error @ StartError::Region(_)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

fn figure(running: &Running, name: &str) -> u64 {
    let figure = running.stats().into_iter().find(|figure| figure.name == name);
    figure.map_or(0, |figure| figure.value.parse().unwrap())
}

/// Stores a record in shard 0, as a client does; its duties are not done.
fn store(running: &Running, key: &str, value: &str) -> farside_protocol::Version {
    let state = running.state();
    let (shard, fabric) = (&state.shards[0], state.fabric());
    let record = Record::new(Key::new(key.as_bytes()).unwrap(), value.as_bytes()).unwrap();
    let mut lives = Vec::new();
    shard.heap.lock().lease(SERVER_SESSION, record.class(), 1, 0, &mut lives).unwrap();
    let lease = Lease { life: lives[0], class: record.class() };
    let (mut lane, mut counts, mut duties) = (fabric.open_lane(), Counts::default(), Default::default());
    let mut io = LaneIo::new(&fabric, &mut lane, &mut counts, 0, u64::MAX);
    let op = Op::new(&shard.table, record.key, 0, u64::MAX);
    let put = put(&mut io, &shard.table, &op, &record, Condition::Always, lease, None, &mut duties);
    let Ok(Put::Stored { version, .. }) = drive(put) else { panic!("it is stored") };
    version
}

/// All files of a table, byte for byte, with their rights.
fn contents(path: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let files = fs::read_dir(path).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        (entry.file_name().into_string().unwrap(), (mode, fs::read(entry.path()).unwrap_or_default()))
    });
    files.collect()
}

#[test]
fn a_table_is_made_for_its_owner_alone_and_as_a_whole() {
    let folder = folder();
    let path = folder.path().join("table");
    let running = start(new(&path));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    let files = contents(&path);
    assert_eq!(files.keys().collect::<Vec<_>>(), ["ledger", "shard-0", "shard-1"]);
    assert!(files.values().all(|(mode, _)| mode & 0o777 == 0o600));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing beside it");
    running.shutdown();
    assert!(path.join("shard-0").exists());
}

#[test]
fn an_empty_folder_and_what_a_killed_server_had_begun_are_in_nobodys_way() {
    let folder = folder();
    let (path, begun) = (folder.path().join("table"), folder.path().join("table.new"));
    fs::create_dir(&path).unwrap();
    fs::create_dir(&begun).unwrap();
    fs::write(begun.join("shard-0"), "half").unwrap();
    start(new(&path)).shutdown();
    assert!(path.join("ledger").exists() && !begun.exists());
    fs::remove_dir_all(&path).unwrap();
    fs::create_dir(&begun).unwrap();
    fs::write(begun.join("notes"), "precious").unwrap();
    assert!(refused(new(&path)).contains("holds files that are no table's"));
    assert_eq!(fs::read(begun.join("notes")).unwrap(), b"precious");
}

#[test]
fn a_table_goes_on_with_what_it_had_and_no_version_comes_twice() {
    let folder = folder();
    let path = folder.path().join("table");
    let mut versions = Vec::new();
    for generation in 1..=4 {
        let running = start(if generation == 1 { new(&path) } else { config(&path) });
        assert_eq!(figure(&running, "farside_generation"), generation);
        assert_eq!(figure(&running, "farside_recovered_keys"), generation - 1);
        assert_eq!(figure(&running, "farside_shards"), 2);
        versions.push(store(&running, &format!("key {generation}"), "value").to_bits());
        versions.push(store(&running, "key 1", "again").to_bits());
        assert_eq!(figure(&running, "farside_keys"), generation);
        running.shutdown();
    }
    let sorted: std::collections::BTreeSet<_> = versions.iter().collect();
    assert_eq!(sorted.len(), versions.len());
}

#[test]
fn what_was_leased_or_superseded_is_free_after_a_restart() {
    let folder = folder();
    let path = folder.path().join("table");
    let running = start(new(&path));
    store(&running, "key", "old");
    store(&running, "key", "new");
    let state = running.state();
    let class = farside_protocol::Class::holding(100).unwrap();
    state.shards[0].heap.lock().lease(SERVER_SESSION, class, 50, 0, &mut Vec::new()).unwrap();
    drop(state);
    running.shutdown();
    let running = start(config(&path));
    assert_eq!(figure(&running, "farside_keys"), 1);
    assert_eq!(figure(&running, "farside_bytes_used"), 64);
    assert_eq!(figure(&running, "farside_bytes_leased") + figure(&running, "farside_quarantined_bytes"), 0);
}

#[test]
fn settings_that_are_the_servers_can_be_others_after_a_restart() {
    let folder = folder();
    let path = folder.path().join("table");
    start(new(&path)).shutdown();
    let running = start(Config { quarantine: Duration::from_millis(200), ..config(&path) });
    assert_eq!(figure(&running, "farside_quarantine_milliseconds"), 200);
}

#[test]
fn flags_that_contradict_a_table_say_so_and_change_nothing() {
    let folder = folder();
    let path = folder.path().join("table");
    start(new(&path)).shutdown();
    let before = contents(&path);
    for (config, says) in [
        (
            Config { shards: Some(1), ..config(&path) },
            "has 2 shards, and --shards says 1: leave --shards out",
        ),
        (
            Config { memory: Some(4 << 20), ..config(&path) },
            "has 2097152 B of memory, and --memory says 4194304 B",
        ),
        (Config { max_keys: Some(5000), ..config(&path) }, "--max-keys says 5000"),
    ] {
        let message = refused(config);
        assert!(message.contains(says), "{message}");
        assert!(contents(&path) == before, "{says}: a file has changed");
    }
    start(new(&path)).shutdown();
}

#[test]
fn a_table_has_one_server_at_a_time() {
    let folder = folder();
    let path = folder.path().join("table");
    let running = start(new(&path));
    let before = contents(&path);
    let message = refused(config(&path));
    assert!(message.contains("another server's") && message.contains(path.to_str().unwrap()), "{message}");
    assert!(message.contains("--region-dir"), "{message}");
    assert!(contents(&path) == before);
    running.shutdown();
    start(config(&path)).shutdown();
}

/// What is done to a table, and what is said of it then.
type Damage = (&'static str, fn(&Path), &'static str);

#[test]
fn a_table_that_is_damaged_or_anothers_is_refused_and_left_as_it_is() {
    fn put(path: &Path, at: u64, bytes: &[u8]) {
        fs::File::options().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
    }
    fn cut(path: &Path, len: u64) {
        fs::File::options().write(true).open(path).unwrap().set_len(len).unwrap();
    }
    let cases: [Damage; 12] = [
        ("cut off", |path| cut(&path.join("shard-1"), 1 << 19), "it was cut off"),
        ("cut off to nothing", |path| cut(&path.join("shard-0"), 0), "does not begin with Farside's magic"),
        ("longer", |path| cut(&path.join("shard-0"), 4 << 20), "or is another file"),
        ("another layout", |path| put(&path.join("shard-0"), 8, &[99]), "layout 99"),
        ("a damaged superblock", |path| put(&path.join("shard-1"), 33, b"?"), "checksum does not match"),
        (
            "shards that have changed places",
            |path| {
                fs::rename(path.join("shard-0"), path.join("x")).unwrap();
                fs::rename(path.join("shard-1"), path.join("shard-0")).unwrap();
                fs::rename(path.join("x"), path.join("shard-1")).unwrap();
            },
            "a shard of another table",
        ),
        ("a shard missing", |path| fs::remove_file(path.join("shard-1")).unwrap(), "there is no such file"),
        ("no ledger", |path| fs::remove_file(path.join("ledger")).unwrap(), "holds files, and no table"),
        ("a ledger of another layout", |path| put(&path.join("ledger"), 8, &[7]), "layout 7"),
        (
            "a damaged head of the ledger",
            |path| put(&path.join("ledger"), 17, b"???"),
            "its checksum does not match",
        ),
        (
            "a damaged word of the ledger",
            |path| put(&path.join("ledger"), 4096, b"??"),
            "unit 0 makes no sense",
        ),
        ("a ledger cut off", |path| cut(&path.join("ledger"), 4096), "it was cut off"),
    ];
    for (what, damage, says) in cases {
        let folder = folder();
        let path = folder.path().join("table");
        let running = start(new(&path));
        store(&running, "key", "value");
        running.shutdown();
        damage(&path);
        let before = contents(&path);
        let message = refused(config(&path));
        assert!(message.contains(says) && message.contains(path.to_str().unwrap()), "{what}: {message}");
        assert!(
            message.contains("remove the folder") || message.contains("(--region-dir)"),
            "{what}: {message}"
        );
        assert!(contents(&path) == before, "{what}: a file has changed");
    }
}

#[test]
fn a_place_that_cannot_be_had_says_why() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, "precious").unwrap();
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("notes"), "precious").unwrap();
    for (path, says) in [
        (file.as_path(), "is no folder"),
        (&other, "holds files, and no table"),
        (&folder.path().join("absent/table"), "make it, or choose another one"),
        (Path::new("/proc/table"), "neither tmpfs nor hugetlbfs"),
    ] {
        let message = refused(new(path));
        assert!(
            message.contains(says) && message.contains("--region-dir") | message.contains("/dev/shm"),
            "{message}"
        );
    }
    let huge = Config { memory: Some(1 << 40), shards: Some(1), ..new(&folder.path().join("huge")) };
    let message = refused(huge);
    assert!(message.contains("--memory"), "{message}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left of it");
}

/// A kill while superblocks are being replaced leaves one that is neither the old nor the new.
#[test]
fn superblocks_that_are_cut_off_while_they_are_replaced_are_whole_again() {
    let folder = folder();
    let path = folder.path().join("table");
    let running = start(new(&path));
    store(&running, "key", "value");
    let superblock = running.state().shards[0].superblock;
    running.shutdown();
    let ledger = RegionFile::open(fs::File::open(&path).unwrap(), LEDGER).unwrap();
    let ledger = LedgerFile::over(ledger.map(LedgerFile::len(&superblock)).unwrap(), &superblock);
    let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        ledger.drafting(&superblock, || {
            let shard = fs::File::options().write(true).open(path.join("shard-1")).unwrap();
            shard.write_all_at(b"half", 40).unwrap();
            panic!("killed");
        });
    }));
    assert!(killed.is_err());
    drop(ledger);
    let running = start(config(&path));
    assert_eq!((figure(&running, "farside_keys"), figure(&running, "farside_generation")), (1, 2));
    running.shutdown();
    start(config(&path)).shutdown();
}

#[test]
fn who_still_has_the_memory_is_waited_for_and_named() {
    let folder = folder();
    let path = folder.path().join("table");
    let running = start(new(&path));
    let shared = running.state().shards[1].region.share(Access::Read).unwrap();
    running.shutdown();
    let files = || vec![RegionFile::open(fs::File::open(&path).unwrap(), "shard-1").unwrap()];
    let (gone, short) = (Process { pid: 1 << 30, began: 1 }, Duration::from_millis(20));
    assert!(matches!(wait_for_all(&path, gone, &files(), short), Err(RegionError::Held { .. })));
    let mapped = farside_transport::Region::map(
        shared,
        1 << 20,
        Access::Read,
        farside_transport::region::Populate::Lazily,
    );
    let message = wait_for_all(&path, gone, &files(), short).unwrap_err().to_string();
    assert!(message.contains(&format!("by process {} (", std::process::id())), "{message}");
    drop(mapped.unwrap());
    wait_for_all(&path, gone, &files(), short).unwrap();
}

#[test]
fn a_server_that_has_not_ended_is_waited_for() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let server = Process::of(child.id().into()).unwrap();
    let wait = |server| wait_for_all(Path::new("/x"), server, &[], Duration::from_millis(20));
    assert!(matches!(wait(server), Err(RegionError::Ending { holder, .. }) if holder.pid == child.id()));
    wait(Process { began: server.began + 1, ..server }).expect("another process with its number");
    wait(Process::own()).expect("this one itself");
    child.kill().unwrap();
    // Ended, and not asked for yet.
    while wait(server).is_err() {}
    child.wait().unwrap();
    wait(server).unwrap();
}
