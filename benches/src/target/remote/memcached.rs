//! memcached's text protocol: get, of many keys for batches, and set, one behind the other for batches.

use std::io::Write;
use std::time::Duration;

use super::{Answer, Facts, Fault, Protocol, Wire};
use crate::target::ErrorKind;

/// Longest key, bytes.
pub const KEY_MAX: usize = 250;

/// memcached.
#[derive(Debug)]
pub struct Memcached;

impl Protocol for Memcached {
    const STORE: &'static str = "memcached";
    const PORT: u16 = 11211;
    const NAME: &'static str = "text protocol";

    fn facts(wire: &mut Wire) -> Result<Facts, Fault> {
        let (mut facts, mut started) = (Facts::default(), 0_i64);
        let seconds =
            |value: &str| Duration::try_from_secs_f64(value.parse().unwrap_or(0.0)).unwrap_or_default();
        wire.out.extend_from_slice(b"stats\r\n");
        wire.send()?;
        loop {
            let line = wire.line()?;
            if line == b"END" {
                break;
            }
            let text = String::from_utf8_lossy(line);
            let Some((name, value)) = text.strip_prefix("STAT ").and_then(|rest| rest.split_once(' ')) else {
                return Err(refusal(line));
            };
            match name {
                "version" => facts.version = format!("memcached {value}"),
                "pid" => facts.pid = value.parse().ok(),
                "time" => started += value.parse::<i64>().unwrap_or(0),
                "uptime" => started -= value.parse::<i64>().unwrap_or(0),
                "rusage_user" | "rusage_system" => facts.cpu += seconds(value),
                _ => {}
            }
        }
        if facts.version.is_empty() {
            return Err(Fault::nonsense(b"END"));
        }
        facts.instance = format!("{} since {started}", facts.pid.unwrap_or(0));
        Ok(facts)
    }

    fn ask_values(keys: &[Vec<u8>], out: &mut Vec<u8>) {
        out.extend_from_slice(b"get");
        for key in keys {
            out.push(b' ');
            out.extend_from_slice(key);
        }
        out.extend_from_slice(b"\r\n");
    }

    fn take_values(
        wire: &mut Wire,
        keys: &[Vec<u8>],
        values: &mut [Vec<u8>],
        answers: &mut [Answer],
    ) -> Result<(), Fault> {
        // They come in the order of their keys, and absent ones do not come.
        answers.fill(Answer::NotFound);
        let mut next = 0;
        while let Some((item, len)) = head(wire, &keys[next..])? {
            let item = next + item;
            values[item].clear();
            values[item].extend_from_slice(wire.block(len)?);
            answers[item] = Answer::Done;
            next = item + 1;
        }
        Ok(())
    }

    fn ask_value(key: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(b"get ");
        out.extend_from_slice(key);
        out.extend_from_slice(b"\r\n");
    }

    fn take_value(wire: &mut Wire, key: &[u8], value: &mut Vec<u8>) -> Result<Answer, Fault> {
        let Some((_, len)) = head(wire, &[key])? else { return Ok(Answer::NotFound) };
        value.clear();
        value.extend_from_slice(wire.block(len)?);
        match wire.line()? {
            b"END" => Ok(Answer::Done),
            line => Err(Fault::nonsense(line)),
        }
    }

    fn ask_to_store(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(b"set ");
        out.extend_from_slice(key);
        let _ = write!(out, " 0 0 {}\r\n", value.len());
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }

    fn take_stored(wire: &mut Wire) -> Result<(), Fault> {
        match wire.line()? {
            b"STORED" => Ok(()),
            line => Err(refusal(line)),
        }
    }
}

/// Which of `keys` the next value is of, and its length; none at the end.
fn head(wire: &mut Wire, keys: &[impl AsRef<[u8]>]) -> Result<Option<(usize, usize)>, Fault> {
    let line = wire.line()?;
    if line == b"END" {
        return Ok(None);
    }
    let Some(rest) = line.strip_prefix(b"VALUE ") else { return Err(refusal(line)) };
    let mut words = rest.split(|&byte| byte == b' ');
    let (key, _flags, len) = (words.next(), words.next(), words.next());
    let item = keys.iter().position(|wanted| Some(wanted.as_ref()) == key);
    let len = len.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    match (item, len) {
        (Some(item), Some(len)) if len <= 1 << 30 => Ok(Some((item, len))),
        _ => Err(Fault::nonsense(line)),
    }
}

/// What `line` says in place of what was asked for.
fn refusal(line: &[u8]) -> Fault {
    let text = String::from_utf8_lossy(line).into_owned();
    let kind = match line {
        b"SERVER_ERROR object too large for cache" => ErrorKind::TooLarge,
        b"SERVER_ERROR out of memory storing object" => ErrorKind::Full,
        b"CLIENT_ERROR unauthenticated" => ErrorKind::Refused,
        b"NOT_STORED" => ErrorKind::Invalid,
        _ if line.starts_with(b"SERVER_ERROR") => ErrorKind::Unavailable,
        _ => return Fault::nonsense(line),
    };
    Fault::Refusal(kind, text)
}
