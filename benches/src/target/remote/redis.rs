//! RESP, the protocol of Redis and Valkey: GET, MGET for batches, SET, one behind the other for batches.

use std::io::Write;
use std::time::Duration;

use super::{Answer, Facts, Fault, Protocol, Wire};
use crate::target::ErrorKind;

/// Redis or Valkey.
#[derive(Debug)]
pub struct Redis;

impl Protocol for Redis {
    const STORE: &'static str = "redis";
    const PORT: u16 = 6379;
    const NAME: &'static str = "RESP";

    fn facts(wire: &mut Wire) -> Result<Facts, Fault> {
        let mut facts = Facts::default();
        for section in ["server", "cpu"] {
            command(&[b"INFO", section.as_bytes()], &mut wire.out);
        }
        wire.send()?;
        for _ in 0..2 {
            let len = bulk(wire)?.ok_or_else(|| Fault::nonsense(b"$-1"))?;
            for line in String::from_utf8_lossy(wire.block(len)?).lines() {
                let Some((name, value)) = line.split_once(':') else { continue };
                match name {
                    "redis_version" if facts.version.is_empty() => facts.version = format!("Redis {value}"),
                    "valkey_version" => facts.version = format!("Valkey {value}"),
                    "run_id" => value.clone_into(&mut facts.instance),
                    "process_id" => facts.pid = value.parse().ok(),
                    "used_cpu_sys" | "used_cpu_user" => {
                        facts.cpu +=
                            Duration::try_from_secs_f64(value.parse().unwrap_or(0.0)).unwrap_or_default();
                    }
                    _ => {}
                }
            }
        }
        Ok(facts)
    }

    fn ask_values(keys: &[Vec<u8>], out: &mut Vec<u8>) {
        head(b'*', keys.len() + 1, out);
        argument(b"MGET", out);
        keys.iter().for_each(|key| argument(key, out));
    }

    fn take_values(
        wire: &mut Wire,
        _keys: &[Vec<u8>],
        values: &mut [Vec<u8>],
        answers: &mut [Answer],
    ) -> Result<(), Fault> {
        let line = wire.line()?;
        if number(line, b'*')? != Some(values.len()) {
            return Err(Fault::nonsense(line));
        }
        for (value, answer) in values.iter_mut().zip(answers) {
            *answer = Self::take_value(wire, &[], value)?;
        }
        Ok(())
    }

    fn ask_value(key: &[u8], out: &mut Vec<u8>) {
        command(&[b"GET", key], out);
    }

    fn take_value(wire: &mut Wire, _key: &[u8], value: &mut Vec<u8>) -> Result<Answer, Fault> {
        let Some(len) = bulk(wire)? else { return Ok(Answer::NotFound) };
        value.clear();
        value.extend_from_slice(wire.block(len)?);
        Ok(Answer::Done)
    }

    fn ask_to_store(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        command(&[b"SET", key, value], out);
    }

    fn take_stored(wire: &mut Wire) -> Result<(), Fault> {
        match wire.line()? {
            b"+OK" => Ok(()),
            line => Err(refusal(line)),
        }
    }
}

fn command(arguments: &[&[u8]], out: &mut Vec<u8>) {
    head(b'*', arguments.len(), out);
    arguments.iter().for_each(|bytes| argument(bytes, out));
}

fn argument(bytes: &[u8], out: &mut Vec<u8>) {
    head(b'$', bytes.len(), out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn head(kind: u8, count: usize, out: &mut Vec<u8>) {
    out.push(kind);
    let _ = write!(out, "{count}\r\n");
}

/// The length of the bulk string that comes next; none for a null.
fn bulk(wire: &mut Wire) -> Result<Option<usize>, Fault> {
    number(wire.line()?, b'$')
}

/// The number behind `kind`; none for -1.
fn number(line: &[u8], kind: u8) -> Result<Option<usize>, Fault> {
    let Some(digits) = line.strip_prefix(&[kind]) else { return Err(refusal(line)) };
    if digits == b"-1" {
        return Ok(None);
    }
    let digits = std::str::from_utf8(digits).ok();
    let number = digits.and_then(|digits| digits.parse().ok()).filter(|&number| number <= 512 << 20);
    number.map(Some).ok_or_else(|| Fault::nonsense(line))
}

/// What `line` says in place of what was asked for.
fn refusal(line: &[u8]) -> Fault {
    let Some(text) = line.strip_prefix(b"-") else { return Fault::nonsense(line) };
    let text = String::from_utf8_lossy(text).into_owned();
    let kind = match text.split(' ').next().unwrap_or_default() {
        "OOM" => ErrorKind::Full,
        "NOAUTH" | "WRONGPASS" | "NOPERM" | "DENIED" | "READONLY" => ErrorKind::Refused,
        "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "BUSY" => ErrorKind::Unavailable,
        _ => ErrorKind::Invalid,
    };
    Fault::Refusal(kind, text)
}
