//! This program as a process that updates keys, to be stopped or killed in the middle of it.

use crate::server::{self, Process};
use crate::ways::Way;
use crate::{PATIENT, connect};
use farside::ErrorKind;
use rustix::io::ioctl_fionread;
use rustix::process::Signal;
use std::io::{Read, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Before the address of a server that this program is to write to, that of its RDMA device or the name of another
/// transport, and the number of its first update.
const WRITE: &str = "--write";

/// So many that about half of what a writer leaves outlives the next one, and its memory the quarantine.
pub(crate) const KEYS: u64 = 2_000;

/// What a writer says of an update, in a byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    Done = b'.' as isize,
    /// It had no effect.
    Failed = b'!' as isize,
    /// It had an effect or had none.
    Indeterminate = b'?' as isize,
}

impl Told {
    fn of(byte: u8) -> Self {
        let all = [Self::Done, Self::Failed, Self::Indeterminate];
        all.into_iter().find(|told| *told as u8 == byte).expect("a writer says nothing else")
    }
}

/// Writes until it is killed, if this program was started for that.
pub(crate) fn perhaps_run(arguments: &[String]) {
    let [_, write, address, way, first] = arguments else { return };
    if write != WRITE {
        return;
    }
    let way = match way.as_str() {
        "shm" => Way::Shm,
        "tcp" => Way::Tcp,
        device => Way::Verbs(device.parse().unwrap()),
    };
    let mut session = connect(address, way, PATIENT).session().unwrap();
    let mut output = std::io::stdout();
    for number in first.parse().unwrap().. {
        let outcome = match update(number) {
            (key, Some(value)) => session.put(key, value).map(drop),
            (key, None) => session.delete(key).map(drop),
        };
        let told = match outcome {
            Ok(()) => Told::Done,
            Err(error) if error.kind() == ErrorKind::Indeterminate => Told::Indeterminate,
            Err(_) => Told::Failed,
        };
        output.write_all(&[told as u8]).unwrap();
        output.flush().unwrap();
    }
}

pub(crate) fn key(number: u64) -> String {
    format!("key/{number}")
}

/// The number of the first update of one of several writers who have no key in common.
pub(crate) fn first_of(writer: u64) -> u64 {
    writer << 40
}

/// The update with this number: a key, and the value that is put there, or `None` if it is deleted.
pub(crate) fn update(number: u64) -> (String, Option<Vec<u8>>) {
    // Parts that say nothing about each other.
    let random = spread(number);
    let (at, kind, len) = (random % KEYS, random / KEYS % 100, random / KEYS / 100 % 1_000);
    let len = if kind == 99 { 20_000 } else { 8 + len as usize };
    let value = || number.to_le_bytes().into_iter().cycle().take(len).collect();
    (key(number >> 40 << 20 | at), (kind >= 20).then(value))
}

/// Numbers that look random, of numbers in sequence (the finalizer of SplitMix64).
pub(crate) fn spread(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// A process that carries out one update after the other.
pub(crate) struct Writer {
    child: Child,
    output: ChildStdout,
}

impl Writer {
    pub(crate) fn start(server: &Process, way: Way, first: u64) -> Self {
        let way = way.device().map_or_else(|| way.transport().to_string(), |device| device.to_string());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([WRITE, server.address(), &way, &first.to_string()]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = child.stdout.take().unwrap();
        Self { child, output }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until so many more updates have ended. Returns what was said of them.
    pub(crate) fn hear(&mut self, ended: u64) -> Vec<Told> {
        self.wait(ended).into_iter().map(Told::of).collect()
    }

    /// Stops it some time after so many updates have ended. Returns what it has said, to the last update that ended.
    pub(crate) fn stop_after(&mut self, ended: u64) -> Vec<Told> {
        let mut told = self.wait(ended);
        server::stop(&self.child);
        let rest = ioctl_fionread(&self.output).unwrap() as usize;
        let from = told.len();
        told.resize(from + rest, 0);
        self.output.read_exact(&mut told[from..]).unwrap();
        told.into_iter().map(Told::of).collect()
    }

    pub(crate) fn go_on(&self) {
        server::signal(&self.child, Signal::CONT);
    }

    /// Kills it some time after so many updates have ended. Returns what it has said since it was last asked.
    pub(crate) fn kill_after(mut self, ended: u64) -> Vec<Told> {
        let mut told = self.wait(ended);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.output.read_to_end(&mut told).unwrap();
        told.into_iter().map(Told::of).collect()
    }

    fn wait(&mut self, ended: u64) -> Vec<u8> {
        let mut told = vec![0; ended as usize];
        self.output.read_exact(&mut told).expect("it writes until it is killed");
        told
    }
}

/// Also of a test that fails.
impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
