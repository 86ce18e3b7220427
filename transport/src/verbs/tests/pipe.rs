//! Messages over a real device, between ends that keep the rules and ends that do not.

use super::*;
use credits::{Header, RECEIVES};
use farside_verbs_sys::{
    CmId, Completion, CompletionQueue, Operation, ProtectionDomain, QueuePair, QueuePairLimits,
};
use farside_verbs_sys::{PostError, SendFlags, SendList};
use introduction::Purpose;
use std::io::ErrorKind;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

impl Bed {
    /// Both ends of the pipe of session `ticket`, the client's first.
    async fn pipe(&self, ticket: u128) -> (Stream, Stream) {
        self.listener.invite(ticket, Rights::Read);
        let arrives = self.listener.expect_pipe(ticket);
        let client = Stream::new(self.dial_as(ticket, &Rdma::default()).pipe().unwrap()).unwrap();
        let server = timeout(LIMIT, arrives).await.unwrap().expect("it connected");
        (client, Stream::new(server).unwrap())
    }
}

/// Bytes that differ from place to place.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// Writes `bytes` and reads as many, each at its own pace.
async fn say_and_hear(end: &mut Stream, bytes: &[u8], piece: usize) {
    let (mut reader, mut writer) = tokio::io::split(end);
    let say = async {
        for piece in bytes.chunks(piece) {
            writer.write_all(piece).await.unwrap();
        }
        writer.flush().await.unwrap();
    };
    let hear = async {
        let mut heard = vec![0; bytes.len()];
        for piece in heard.chunks_mut(piece) {
            reader.read_exact(piece).await.unwrap();
        }
        assert!(heard == bytes);
    };
    timeout(LIMIT, async { tokio::join!(say, hear) }).await.unwrap();
}

#[test]
fn both_ends_say_much_at_once() {
    for address in devices() {
        let bed = bed(address, 1 << 20);
        runtime().block_on(async {
            let bytes = bytes(1 << 20);
            // Whole messages and parts of them, and what fits into a work request.
            for (ticket, (one, other)) in [(100_000, 7000), (4088, 4089), (100, 33)].into_iter().enumerate() {
                let bytes = &bytes[..(one * 300).min(bytes.len())];
                let (mut client, mut server) = bed.pipe(ticket as u128).await;
                tokio::join!(say_and_hear(&mut client, bytes, one), say_and_hear(&mut server, bytes, other));
                bed.listener.fence(ticket as u128);
            }
        });
    }
}

#[test]
fn who_does_not_read_is_not_sent_more() {
    for address in devices() {
        let bed = bed(address, 1 << 20);
        runtime().block_on(async {
            let (client, mut server) = bed.pipe(1).await;
            let bytes = bytes(1 << 20);
            let mut written = 0;
            // Ends when the other one's receives are full, however long its silence.
            while let Ok(Ok(())) =
                timeout(Duration::from_millis(500), std::future::poll_fn(|cx| client.poll_writable(cx))).await
            {
                written += client.try_write(&bytes[written..]).unwrap();
            }
            assert_eq!(client.try_write(&bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert!(written > 0 && written < RECEIVES as usize * 4096, "{written}");
            let mut read = vec![0; written];
            timeout(LIMIT, server.read_exact(&mut read)).await.unwrap().unwrap();
            assert!(read == bytes[..written]);
            timeout(LIMIT, std::future::poll_fn(|cx| client.poll_writable(cx))).await.unwrap().unwrap();
            assert!(client.try_write(&bytes).unwrap() > 0, "it goes on");
        });
    }
}

#[test]
fn after_the_fence_nothing_is_read_or_sent() {
    for address in devices() {
        let bed = bed(address, 1 << 20);
        runtime().block_on(async {
            let (client, mut server) = bed.pipe(1).await;
            assert_eq!(bed.listener.connected(), 1);
            let mut byte = [0];
            client.try_write(b"a").unwrap();
            timeout(LIMIT, server.read_exact(&mut byte)).await.unwrap().unwrap();
            assert_eq!(client.try_write(b"b").unwrap(), 1);
            // It has come, and is not read any more.
            timeout(LIMIT, std::future::poll_fn(|cx| server.poll_readable(cx))).await.unwrap().unwrap();
            bed.listener.fence(1);
            assert_eq!(bed.listener.connected(), 0);
            assert_eq!(server.try_read(&mut &mut byte[..]).unwrap(), 0);
            assert_eq!(server.try_write(b"c").unwrap_err().kind(), ErrorKind::BrokenPipe);
            let void = bed.dial_as(1, &Rdma::default()).pipe().unwrap_err();
            assert!(matches!(void, SetupError::Rejected { .. }), "{void:?}");

            // One that waits is woken by the fence, and by the end of the other side.
            let (_client, mut server) = bed.pipe(2).await;
            let (read, ()) = tokio::join!(timeout(LIMIT, server.read(&mut byte)), async {
                tokio::task::yield_now().await;
                bed.listener.fence(2);
            });
            assert_eq!(read.unwrap().unwrap(), 0);
            let (client, mut server) = bed.pipe(3).await;
            drop(client);
            // A device may also say that its queue pair failed.
            let read = timeout(LIMIT, server.read(&mut byte)).await.unwrap();
            assert_eq!(read.unwrap_or(0), 0);
        });
    }
}

#[test]
fn a_session_has_one_pipe_and_only_if_it_is_to_have_one() {
    for address in devices() {
        let bed = bed(address, 1 << 20);
        bed.listener.invite(1, Rights::ReadWrite);
        let refused = |ticket| bed.dial_as(ticket, &Rdma::default()).pipe().unwrap_err();
        assert!(matches!(refused(1), SetupError::Rejected { .. }));
        runtime().block_on(async {
            let _ends = bed.pipe(2).await;
            assert!(matches!(refused(2), SetupError::Rejected { .. }));
        });
    }
}

/// A client's queue pair that sends what it likes.
struct Raw {
    pair: QueuePair,
    _id: CmId,
}

impl Raw {
    fn connect(bed: &Bed, ticket: u128) -> Self {
        let dial = bed.dial_as(ticket, &Rdma::default());
        let way = dial.find_way().unwrap();
        let context = way.id.context().unwrap();
        let completions = CompletionQueue::new(&context, 128).unwrap();
        let domain = ProtectionDomain::new(&context).unwrap();
        let limits = QueuePairLimits { send_requests: 64, receive_requests: 1, inline_len: 32 };
        let pair = way.id.create_queue_pair(&domain, &completions, &completions, limits).unwrap();
        let (pair, id) = dial.connect(way, pair, Purpose::Messages).unwrap();
        Self { pair, _id: id }
    }

    /// Fails once the device knows that the connection has ended.
    fn send(&self, bytes: &[u8]) -> Result<(), PostError> {
        let mut list = SendList::<1>::new();
        list.push(0, Operation::SendInline { bytes }, SendFlags::SIGNALLED)?;
        self.pair.post_send(&mut list)
    }
}

#[test]
fn who_breaks_the_rules_is_found_out_and_harms_no_other() {
    let word = |number: u32, posted: u32| Header::from_word(u64::from(number) << 32 | u64::from(posted));
    let word = |number, posted| word(number, posted).to_word().to_ne_bytes();
    let hello = word(0, RECEIVES);
    let with_byte = [&word(1, RECEIVES)[..], b"x"].concat();
    let lies: [(&[&[u8]], &str); 6] = [
        (&[b"short"], "a message of 5 bytes"),
        (&[&word(1, RECEIVES)], "message 1 came for message 0"),
        (&[&hello, &with_byte, &with_byte], "message 1 came for message 2"),
        (&[&word(0, 1000)], "more receives than there can be"),
        (&[&hello, &word(1, RECEIVES - 1)], "fewer than the one before"),
        (&[&hello, &word(1, RECEIVES)], "announces nothing"),
    ];
    for address in devices() {
        let bed = bed(address, 1 << 20);
        runtime().block_on(async {
            let (mut client, mut server) = bed.pipe(1000).await;
            let arrive = async |ticket| {
                bed.listener.invite(ticket, Rights::Read);
                let arrives = bed.listener.expect_pipe(ticket);
                let raw = Raw::connect(&bed, ticket);
                let server = timeout(LIMIT, arrives).await.unwrap().expect("it connected");
                (raw, Stream::new(server).unwrap())
            };
            for (ticket, (messages, says)) in lies.iter().enumerate() {
                let (raw, mut server) = arrive(ticket as u128).await;
                messages.iter().for_each(|message| raw.send(message).unwrap());
                let mut read = Vec::new();
                let end = timeout(LIMIT, server.read_to_end(&mut read)).await.unwrap().unwrap_err();
                assert_eq!(end.kind(), ErrorKind::InvalidData);
                assert!(end.to_string().contains(says), "{end}");
            }
            // More than there are receives for: its own device fails, or the connection.
            let (raw, server_of_greedy) = arrive(2000).await;
            let before = bed.listener.connected();
            let greedy = |number: u32| raw.send(&[&word(number, RECEIVES)[..], b"x"].concat());
            let refused = (0..64).any(|number| greedy(number).is_err());
            // Soft-iWARP may never complete what was refused, but tells its end of the connection.
            let is_over = || {
                let mut completions = [Completion::EMPTY; 64];
                let count = raw.pair.send_queue().poll(&mut completions).unwrap();
                let failed = completions[..count].iter().any(|completion| completion.result().is_err());
                refused || failed || bed.listener.connected() < before
            };
            let fails = async {
                while !is_over() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            timeout(LIMIT, fails).await.expect("it was stopped");
            drop(server_of_greedy);
            let bytes = bytes(100_000);
            tokio::join!(say_and_hear(&mut client, &bytes, 1000), say_and_hear(&mut server, &bytes, 1000));
        });
    }
}
