//! What Farside relies on of a verbs device, one promise after another.

use super::Error;
use super::Litmus;
use super::ends::{ACK_TIMEOUT, End, HEAP_LEN, LIMIT, LIMITS, Result, check, expect_event};
use crate::{
    Access, BoundsError, Buffer, CmId, Completion, EventChannel, EventKind, MemoryRegion, MemoryWindow,
    Operation, PostError, ProtectionDomain, QueuePairState, RemoteAddress, SendFlags, SendList, Status,
    Transport, Verbs, ack_deadline,
};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const ROUNDS: u64 = 1000;

/// The vendor that soft-RoCE says it is of.
const SOFT_ROCE: u32 = 0xff_ffff;

/// What is said of a promise about atomic operations.
const NO_ATOMICS: &str = "the device has no atomics";

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (seed.wrapping_mul(0x9e37_79b9).wrapping_add(at * 131) >> 3) as u8).collect()
}

/// Seconds that `what` takes.
fn median(mut what: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut times = (0..200)
        .map(|_| {
            let began = Instant::now();
            what()?;
            Ok(began.elapsed())
        })
        .collect::<Result<Vec<_>>>()?;
    times.sort_unstable();
    Ok(times[times.len() / 2].as_secs_f64())
}

/// WRITEs one number after another to `word`, each behind a longer WRITE, until that fails or it is to `stop`.
fn keep_writing(end: &End, word: RemoteAddress, stop: &AtomicBool) -> Result<()> {
    let from = end.buffer.slice(0, 4096)?;
    let mut number = 0u64;
    let mut completions = [Completion::EMPTY; 8];
    while !stop.load(Ordering::Relaxed) {
        if end.queue_pair.send_free() >= 2 {
            number += 1;
            let mut list = SendList::<2>::new();
            list.push(0, Operation::Write { from, to: word.add(4096) }, SendFlags::SILENT)?;
            let bytes = number.to_le_bytes();
            list.push(0, Operation::WriteInline { bytes: &bytes, to: word }, SendFlags::SIGNALLED)?;
            end.queue_pair.post_send(&mut list)?;
        }
        let count = end.queue.poll(&mut completions)?;
        for completion in &completions[..count] {
            end.queue_pair.retire(completion);
            completion.result().map_err(|status| status.to_string())?;
        }
        thread::yield_now();
    }
    Ok(())
}

impl Litmus {
    pub(super) fn settings(&self) -> Result<String> {
        let iwarp = self.client.id.context()?.transport() == Transport::Iwarp;
        let mut told = String::new();
        for end in [&self.client, &self.end] {
            let settings = end.queue_pair.settings()?;
            // iWARP leaves retries to TCP; soft-iWARP does not tell its state either.
            let bounded = settings.state == QueuePairState::ReadyToSend
                && settings.ack_timeout == ACK_TIMEOUT
                && settings.retry_count <= 6
                && settings.rnr_retry_count <= 6
                && settings.initiator_depth >= 1
                && settings.responder_resources >= 1;
            check(iwarp || bounded, || format!("{settings:?}"))?;
            told = format!(
                "timeout {} retries {}/{} depths {}/{} mtu {} gid {}, a dead peer ends within {:?}",
                settings.ack_timeout,
                settings.retry_count,
                settings.rnr_retry_count,
                settings.initiator_depth,
                settings.responder_resources,
                settings.mtu,
                settings.gid_index,
                ack_deadline(settings.ack_timeout, settings.retry_count)
            );
        }
        Ok(told)
    }

    pub(super) fn write_then_read(&self) -> Result<String> {
        for (seed, len) in [8, 64, 1024, 4096, 16384, 65536].into_iter().enumerate() {
            let bytes = pattern(seed as u64, len);
            self.client.buffer.write(0, &bytes)?;
            let slice = self.client.buffer.slice(0, len)?;
            self.client.run_well(&[Operation::Write { from: slice, to: self.keys.heap }])?;
            self.client.buffer.write(0, &vec![0; len])?;
            self.client.run_well(&[Operation::Read { into: slice, from: self.keys.heap }])?;
            let (mut there, mut here) = (vec![0; len], vec![0; len]);
            self.server.shard.heap.read(0, &mut there)?;
            check(there == bytes, || format!("a WRITE of {len} bytes is not what arrived"))?;
            self.client.buffer.read(0, &mut here)?;
            check(here == bytes, || format!("a READ of {len} bytes is not what is there"))?;
        }
        Ok("8 B to 64 KiB".into())
    }

    pub(super) fn write_inline(&self) -> Result<String> {
        let bytes = pattern(99, LIMITS.inline_len as usize);
        let (into, at) = (self.client.buffer.slice(0, 8)?, self.keys.heap.add(128));
        self.client.run_well(&[
            Operation::WriteInline { bytes: &bytes, to: at },
            Operation::Read { into, from: at },
        ])?;
        let mut there = vec![0; bytes.len()];
        self.server.shard.heap.read(128, &mut there)?;
        check(there == bytes, || "the bytes are not those that arrived".into())?;
        let max = self.client.queue_pair.inline_len_max();
        let long = vec![0; max as usize + 1];
        let too_long = self.client.run(&[Operation::WriteInline { bytes: &long, to: self.keys.heap }]);
        check(too_long.is_err(), || "more than the most was posted".into())?;
        Ok(format!("up to {max} B"))
    }

    /// More messages than there are receives at a time.
    pub(super) fn send(&self) -> Result<String> {
        for round in 0..3 * u64::from(LIMITS.receive_requests) {
            let message = pattern(round, 40 + round as usize);
            self.client.run_well(&[Operation::SendInline { bytes: &message }])?;
            let completion = self.end.complete()?;
            check(completion.is_receive() && completion.status() == Status::SUCCESS, || {
                format!("{completion:?}")
            })?;
            let len = completion.received_len().unwrap_or(0) as usize;
            let at = completion.token() as usize * 1024;
            let mut came = vec![0; len];
            self.end.buffer.read(at, &mut came)?;
            check(came == message, || format!("{len} bytes came of {}", message.len()))?;
            self.end.queue_pair.post_receive(completion.token(), self.end.buffer.slice(at, 1024)?)?;
        }
        Ok(String::new())
    }

    pub(super) fn compare_swap(&self) -> Result<String> {
        let found = self.client.buffer.slice(0, 8)?;
        let at = self.keys.index;
        if !self.atomics {
            let refused = self.client.run(&[Operation::CompareSwap { found, at, expect: 0, new: 1 }]);
            let refused = refused.err().and_then(|error| error.downcast::<PostError>().ok());
            check(matches!(refused.as_deref(), Some(PostError::NoAtomics)), || {
                "a compare-and-swap was posted to a device that has none".into()
            })?;
            return Ok("the device has none, and none is posted".into());
        }
        self.server.shard.index.store(0, 7)?;
        for (expect, new, finds) in [(7, 8, 7), (7, 9, 8), (8, 10, 8)] {
            self.client.run_well(&[Operation::CompareSwap { found, at, expect, new }])?;
            let word = self.client.buffer.load(0)?;
            check(word == finds, || format!("{word} was found, not {finds}"))?;
        }
        self.client.run_well(&[Operation::FetchAdd { found, at, add: 5 }])?;
        let there = self.server.shard.index.load(0)?;
        check(there == 15, || format!("{there} is there, not 15"))?;
        Ok("and fetch-and-add".into())
    }

    /// [WRITE, CAS, READ], or without atomics [WRITE, READ], with one completion: each sees what was before it.
    pub(super) fn ordered_list(&self) -> Result<String> {
        let buffer = &self.client.buffer;
        let (found, read) = (buffer.slice(0, 8)?, buffer.slice(8, 8)?);
        self.server.shard.index.store(64, 0)?;
        for round in 0..ROUNDS {
            let bytes = (round + 1).to_le_bytes();
            let write = Operation::WriteInline { bytes: &bytes, to: self.keys.heap };
            if self.atomics {
                let at = self.keys.index.add(64);
                let swap = Operation::CompareSwap { found, at, expect: round, new: round + 1 };
                self.client.run_well(&[write, swap, Operation::Read { into: read, from: at }])?;
                check(buffer.load(0)? == round, || format!("round {round}: the swap lost"))?;
            } else {
                self.client.run_well(&[write, Operation::Read { into: read, from: self.keys.heap }])?;
            }
            let word = buffer.load(8)?;
            check(word == round + 1, || format!("round {round}: READ {word} after it was changed"))?;
            let written = self.server.shard.heap.load(0)?;
            check(written == round + 1, || format!("round {round}: {written} was written"))?;
        }
        check(self.client.is_quiet()?, || "a list had more than one completion".into())?;
        let steps = if self.atomics { "[WRITE, CAS, READ]" } else { "[WRITE, READ]" };
        Ok(format!("{steps} {ROUNDS} times, one completion each"))
    }

    /// Many operations with one doorbell, each with a completion, and no more than fit.
    pub(super) fn credits(&self) -> Result<String> {
        let queue_pair = &self.client.queue_pair;
        check(queue_pair.send_free() == LIMITS.send_requests, || {
            format!("{} places are free", queue_pair.send_free())
        })?;
        let mut list = SendList::<64>::new();
        for token in 0..LIMITS.send_requests {
            let into = self.client.buffer.slice(token as usize * 8, 8)?;
            list.push(token, Operation::Read { into, from: self.keys.heap }, SendFlags::SIGNALLED)?;
        }
        queue_pair.post_send(&mut list)?;
        list.push(64, Operation::SendInline { bytes: b"one too many" }, SendFlags::SIGNALLED)?;
        let full = queue_pair.post_send(&mut list);
        check(matches!(full, Err(PostError::Full { needed: 1, free: 0 })), || format!("{full:?}"))?;
        for token in 0..LIMITS.send_requests {
            let completion = self.client.complete()?;
            check(completion.token() == token && completion.result().is_ok(), || format!("{completion:?}"))?;
        }
        check(queue_pair.send_free() == LIMITS.send_requests, || "places were lost".into())?;
        Ok(format!("{} READs on one doorbell, in order", LIMITS.send_requests))
    }

    pub(super) fn events(&self) -> Result<String> {
        let queue = &self.client.queue;
        queue.take_events()?;
        queue.request_event()?;
        let mut list = SendList::<1>::new();
        let into = self.client.buffer.slice(0, 8)?;
        list.push(1, Operation::Read { into, from: self.keys.heap }, SendFlags::SIGNALLED)?;
        self.client.queue_pair.post_send(&mut list)?;
        check(queue.wait(LIMIT)?, || "no event came".into())?;
        self.client.complete()?.result().map_err(|status| status.to_string())?;
        Ok(String::new())
    }

    /// Two connections add to one word, each by compare-and-swap, and READ it in the same list.
    pub(super) fn contention(&self) -> Result<String> {
        if !self.atomics {
            return Ok(NO_ATOMICS.into());
        }
        let word = 128;
        self.server.shard.index.store(word, 0)?;
        let (other, _end, keys) = self.server.connection()?;
        let add = |end: &End| -> Result<u64> {
            let (found, into) = (end.buffer.slice(0, 8)?, end.buffer.slice(8, 8)?);
            let at = keys.index.add(word as u64);
            let (mut expect, mut added, mut lost) = (0, 0, 0);
            while added < ROUNDS {
                let swap = Operation::CompareSwap { found, at, expect, new: expect + 1 };
                end.run_well(&[swap, Operation::Read { into, from: at }])?;
                let (was, read) = (end.buffer.load(0)?, end.buffer.load(8)?);
                let least = if was == expect { expect + 1 } else { was };
                check(read >= least, || format!("READ {read} after a swap that saw or left {least}"))?;
                (expect, added, lost) =
                    if was == expect { (expect + 1, added + 1, lost) } else { (was, added, lost + 1) };
            }
            Ok(lost)
        };
        let lost = thread::scope(|scope| -> Result<u64> {
            let theirs = scope.spawn(|| add(&other));
            Ok(add(&self.client)? + theirs.join().expect("a thread panicked")?)
        })?;
        let sum = self.server.shard.index.load(word)?;
        check(sum == 2 * ROUNDS, || format!("{sum} after {} additions", 2 * ROUNDS))?;
        Ok(format!("{} additions, {lost} swaps that met the other", 2 * ROUNDS))
    }

    /// What another connection finds behind a swapped word is at least what was written before the swap.
    pub(super) fn publication(&self) -> Result<String> {
        if !self.atomics {
            return Ok(NO_ATOMICS.into());
        }
        const WORDS: usize = 32;
        let (slot, record) = (384, 8192);
        self.server.shard.index.store(slot, 0)?;
        self.server.shard.heap.write(record, &[0; WORDS * 8])?;
        let (other, _end, keys) = self.server.connection()?;
        let (at, record) = (keys.index.add(slot as u64), keys.heap.add(record as u64));
        let publish = || -> Result<()> {
            let (found, from) = (other.buffer.slice(0, 8)?, other.buffer.slice(8, WORDS * 8)?);
            for round in 0..ROUNDS {
                other.buffer.write(8, &(round + 1).to_le_bytes().repeat(WORDS))?;
                let swap = Operation::CompareSwap { found, at, expect: round, new: round + 1 };
                other.run_well(&[Operation::Write { from, to: record }, swap])?;
            }
            Ok(())
        };
        let look = || -> Result<u64> {
            let buffer = &self.client.buffer;
            let (word, into) = (buffer.slice(0, 8)?, buffer.slice(8, WORDS * 8)?);
            let mut looks = 0;
            loop {
                self.client.run_well(&[
                    Operation::Read { into: word, from: at },
                    Operation::Read { into, from: record },
                ])?;
                let published = buffer.load(0)?;
                for number in 0..WORDS {
                    let there = buffer.load(8 + number * 8)?;
                    check(there >= published, || format!("{there} was found behind {published}"))?;
                }
                looks += 1;
                if published == ROUNDS {
                    return Ok(looks);
                }
            }
        };
        let looks = thread::scope(|scope| -> Result<u64> {
            let publisher = scope.spawn(publish);
            let looks = look();
            publisher.join().expect("a thread panicked")?;
            looks
        })?;
        Ok(format!("{ROUNDS} records of {} B, looked at {looks} times", WORDS * 8))
    }

    pub(super) fn rejection(&self) -> Result<String> {
        let address = self.server.address()?;
        let data = thread::scope(|scope| -> Result<Option<Vec<u8>>> {
            let client = scope.spawn(|| -> Result<Option<Vec<u8>>> {
                let channel = EventChannel::new(Verbs::load()?)?;
                let id = CmId::new(&channel)?;
                let from = SocketAddr::new(self.server.client, 0);
                id.resolve_address(Some(from), address, LIMIT)?;
                expect_event(&channel, EventKind::AddressResolved)?;
                id.resolve_route(LIMIT)?;
                expect_event(&channel, EventKind::RouteResolved)?;
                let end = End::new(&channel, id, &ProtectionDomain::new(&self.client.id.context()?)?)?;
                end.id.connect(End::parameters(&end.id)?, b"")?;
                let event = expect_event(&channel, EventKind::Rejected)?;
                Ok(event.private_data().map(<[u8]>::to_vec))
            });
            let mut event = expect_event(&self.server.channel, EventKind::ConnectRequest)?;
            check(event.private_data() == Some(b""), || format!("{event:?}"))?;
            event.take_request().ok_or("no identifier")?.reject(b"not today")?;
            client.join().expect("the client panicked")
        })?;
        check(data.as_deref() == Some(b"not today"), || format!("it came with {data:?}"))?;
        Ok("its reason arrives".into())
    }

    /// A WRITE to memory that allows none changes nothing, and ends the connection. Soft-iWARP is known to report
    /// success.
    pub(super) fn rights(&self) -> Result<String> {
        let (client, _end, keys) = self.server.connection()?;
        self.server.shard.index.store(256, 1)?;
        let bytes = 2u64.to_le_bytes();
        let status = client.run(&[Operation::WriteInline { bytes: &bytes, to: keys.index.add(256) }])?;
        check(client.is_quiet()?, || "it completed twice".into())?;
        let there = self.server.shard.index.load(256)?;
        check(there == 1, || "the word was changed".into())?;
        let iwarp = client.id.context()?.transport() == Transport::Iwarp;
        check(iwarp || status == Status::REMOTE_ACCESS, || format!("{status}"))?;
        let state = client.queue_pair.settings()?.state;
        check(iwarp || state == QueuePairState::Error, || format!("the queue pair is {state:?}"))?;
        Ok(format!("{status}, the word is as it was"))
    }

    /// A window lets the peer of one queue pair WRITE to a range, until it is invalidated. Soft-RoCE is known to look at
    /// the bounds of the range's region alone.
    pub(super) fn windows(&self) -> Result<String> {
        const RANGE: Range<usize> = 4096..4160;
        let attributes = self.server.listener.context()?.attributes()?;
        if attributes.memory_windows_max == 0 {
            return Ok("the device has none of type 2".into());
        }
        let domain = self.end.queue_pair.domain();
        let region = MemoryRegion::new(domain, Buffer::new(HEAP_LEN), Access::WINDOWS)?;
        // By `client` to `at` with `key`: how it ended, and whether it changed anything.
        let write = |client: &End, at: usize, key: u32| {
            region.store(at, 0)?;
            let to = RemoteAddress { key, ..region.remote() }.add(at as u64);
            let status = client.run(&[Operation::WriteInline { bytes: &[1; 8], to }])?;
            Ok::<_, Error>((status, region.load(at)? != 0))
        };
        let mut told = Vec::new();
        for (who, at, ended, is_right) in [
            ("within", RANGE.start, false, true),
            ("by another peer", RANGE.start, false, false),
            ("after its end", RANGE.start, true, false),
            ("outside", RANGE.end, false, false),
        ] {
            let (client, end, _keys) = self.server.connection()?;
            let (other, _other_end, _keys) = self.server.connection()?;
            // It goes before its queue pair: soft-RoCE would keep whoever destroys that for most of a minute.
            let mut window = MemoryWindow::new(domain)?;
            let over = region.window_range(RANGE.start, RANGE.len())?;
            end.run_well(&[Operation::Bind { window: &window, over }])?;
            window.bound();
            let key = window.key();
            if ended {
                end.run_well(&[Operation::Invalidate { key }])?;
            }
            let (status, changed) = write(if who == "by another peer" { &other } else { &client }, at, key)?;
            let is_excused = who == "outside" && attributes.vendor == SOFT_ROCE;
            check(is_excused || (changed, status == Status::SUCCESS) == (is_right, is_right), || {
                format!(
                    "a WRITE {who} ended with {status}, and changed {}",
                    if changed { "it" } else { "nothing" }
                )
            })?;
            told.push(format!("{who} {}", if changed { "carried out" } else { "refused" }));
        }
        let known = if told.contains(&"outside carried out".into()) {
            ", for soft-RoCE looks at the region's bounds alone"
        } else {
            ""
        };
        Ok(format!("WRITEs {}{known}", told.join(", ")))
    }

    /// A failed queue pair gives back what was posted to it.
    pub(super) fn flush(&self) -> Result<String> {
        let (_client, end, _keys) = self.server.connection()?;
        end.queue_pair.fail()?;
        for _ in 0..LIMITS.receive_requests {
            let completion = end.complete()?;
            check(completion.status() == Status::FLUSHED && completion.is_receive(), || {
                format!("{completion:?}")
            })?;
        }
        Ok(format!("{} receives", LIMITS.receive_requests))
    }

    pub(super) fn disconnect(&self) -> Result<String> {
        let (client, end, _keys) = self.server.connection()?;
        client.id.disconnect()?;
        let event = expect_event(&end.channel, EventKind::Disconnected)?;
        check(event.id == end.id.key(), || "of another connection".into())?;
        end.id.disconnect()?;
        Ok(String::new())
    }

    /// Once a server has destroyed a queue pair, what its peer had posted, and posts, changes nothing any more.
    pub(super) fn fence(&self) -> Result<String> {
        const FENCES: usize = 20;
        let heap = &self.server.shard.heap;
        let word = 4096;
        for _ in 0..FENCES {
            let (client, end, keys) = self.server.connection()?;
            heap.store(word, 0)?;
            let stop = AtomicBool::new(false);
            let (reached, later) = thread::scope(|scope| {
                scope.spawn(|| keep_writing(&client, keys.heap.add(word as u64), &stop));
                let began = Instant::now();
                while heap.load(word).is_ok_and(|number| number < 8) && began.elapsed() < LIMIT {
                    thread::yield_now();
                }
                drop(end);
                let reached = heap.load(word);
                thread::sleep(Duration::from_millis(5));
                let later = heap.load(word);
                stop.store(true, Ordering::Relaxed);
                Ok::<_, BoundsError>((reached?, later?))
            })?;
            check(reached >= 8, || format!("only {reached} WRITEs arrived"))?;
            check(later == reached, || {
                format!("WRITE {later} was carried out after the fence, which was at {reached}")
            })?;
        }
        Ok(format!("{FENCES} connections were ended while they wrote"))
    }

    /// Work for an end that is gone fails, and in time. Soft-iWARP may never say so.
    pub(super) fn gone(&self) -> Result<String> {
        let (client, end, keys) = self.server.connection()?;
        let settings = client.queue_pair.settings()?;
        self.server.shard.heap.store(2048, 0)?;
        drop(end);
        let began = Instant::now();
        let write = Operation::WriteInline { bytes: b"too late", to: keys.heap.add(2048) };
        let mut list = SendList::<1>::new();
        list.push(0, write, SendFlags::SIGNALLED)?;
        client.queue_pair.post_send(&mut list)?;
        let iwarp = client.id.context()?.transport() == Transport::Iwarp;
        let status = if iwarp { None } else { Some(client.complete()?.status()) };
        check(self.server.shard.heap.load(2048)? == 0, || "it was carried out".into())?;
        let Some(status) = status else { return Ok("nothing was changed".into()) };
        let took = began.elapsed();
        check(matches!(status, Status::RETRIES_EXCEEDED | Status::FLUSHED), || status.to_string())?;
        let deadline = ack_deadline(settings.ack_timeout, settings.retry_count).ok_or("no deadline")?;
        // As much again for a machine that is busy with other things, and a second.
        check(took < 2 * deadline + Duration::from_secs(1), || format!("after {took:?}"))?;
        Ok(format!("{status} after {} ms", took.as_millis()))
    }

    /// Memory that is no longer registered is left alone, whatever was under way; that it may be freed rests on this.
    pub(super) fn deregistered(&self) -> Result<String> {
        const READS: u32 = 32;
        let (client, _end, keys) = self.server.connection()?;
        self.server.shard.heap.write(0, &[0xff; HEAP_LEN])?;
        let memory = Arc::new(Buffer::new(HEAP_LEN));
        let domain = client.queue_pair.domain();
        let region = MemoryRegion::new(domain, Arc::clone(&memory), Access::LOCAL_WRITE)?;
        let view = MemoryRegion::new(domain, memory, Access::LOCAL_READ)?;
        let mut list = SendList::<{ READS as usize }>::new();
        for token in 0..READS {
            let into = region.slice(0, HEAP_LEN)?;
            list.push(token, Operation::Read { into, from: keys.heap }, SendFlags::SIGNALLED)?;
        }
        client.queue_pair.post_send(&mut list)?;
        drop(region);
        view.write(0, &[0; HEAP_LEN])?;
        let (mut carried_out, mut failed) = (0, 0);
        let mut completions = [Completion::EMPTY; 8];
        loop {
            let count = client.queue.poll(&mut completions)?;
            for completion in &completions[..count] {
                *if completion.result().is_ok() { &mut carried_out } else { &mut failed } += 1;
            }
            if count == 0 {
                client.queue.request_event()?;
                // What a device never completes is no fault here.
                if !client.queue.wait(Duration::from_millis(100))? {
                    break;
                }
            }
        }
        let mut now = vec![0; HEAP_LEN];
        view.read(0, &mut now)?;
        check(now.iter().all(|&byte| byte == 0), || "it was written to".into())?;
        Ok(format!("of {READS} READs {carried_out} were carried out, {failed} failed"))
    }

    /// Medians, in units of the first.
    pub(super) fn costs(&self) -> Result<String> {
        let buffer = &self.client.buffer;
        let (word, found) = (buffer.slice(0, 8)?, buffer.slice(8, 8)?);
        let (heap, index) = (self.keys.heap, self.keys.index.add(512));
        let read = Operation::Read { into: word, from: heap };
        let write = Operation::WriteInline { bytes: &[1; 64], to: heap };
        let swap = Operation::CompareSwap { found, at: index, expect: 0, new: 0 };
        let mut lists = vec![
            ("READ 8", vec![read]),
            ("READ 1024", vec![Operation::Read { into: buffer.slice(1024, 1024)?, from: heap }]),
            ("[READ, READ]", vec![read, read]),
            ("WRITE 64", vec![write]),
        ];
        if self.atomics {
            lists.push(("CAS", vec![swap]));
            lists.push(("[WRITE, CAS]", vec![write, swap]));
            lists.push(("[WRITE, CAS, READ]", vec![write, swap, read]));
        }
        let mut told = Vec::new();
        let mut unit = None;
        for (name, operations) in &lists {
            let median = median(|| self.client.run_well(operations))?;
            let unit = *unit.get_or_insert(median);
            told.push(format!("{name} {:.2}", median / unit));
        }
        if self.server.listener.context()?.attributes()?.memory_windows_max > 0 {
            // On the server's side, where nothing goes over the network.
            let region = MemoryRegion::new(self.end.queue_pair.domain(), Buffer::new(4096), Access::WINDOWS)?;
            let mut window = MemoryWindow::new(region.domain())?;
            let over = region.window_range(0, 64)?;
            let median = median(|| {
                let key = window.next_key();
                self.end
                    .run_well(&[Operation::Bind { window: &window, over }, Operation::Invalidate { key }])?;
                window.bound();
                Ok(())
            })?;
            told.push(format!("a window bound and ended {:.2}", median / unit.expect("READs came first")));
        }
        Ok(told.join(", "))
    }
}
