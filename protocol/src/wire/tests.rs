//! Every message reads back as it was written, and nothing else than what was written is ever a panic.

use super::*;
use crate::error::ErrorKind;
use crate::geometry::{Geometry, SlotIndex};
use crate::limits::SHARDS_MAX;
use crate::superblock::{Authority, Superblock};
use crate::word::{Life, Locator, Version};
use crate::{Class, Key, TableSeed};
use alloc::string::String;
use alloc::vec::Vec;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// The owned parts of a request of any kind; which of them a kind has is [`Parts::request`]'s to say.
#[derive(Clone, Debug)]
struct Parts {
    key: Vec<u8>,
    value: Vec<u8>,
    token: Vec<u8>,
    name: String,
    word: u64,
    condition: Condition,
    lives: [Vec<Life>; 3],
    flag: bool,
    class: usize,
    small: u16,
}

fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        Just(Condition::Always),
        Just(Condition::Absent),
        any::<u64>().prop_map(|bits| Condition::Version(Version::from_bits(bits))),
    ]
}

fn life() -> impl Strategy<Value = Life> {
    any::<u64>().prop_map(|bits| Version::from_bits(bits).life())
}

fn parts() -> impl Strategy<Value = Parts> {
    let bytes = (vec(any::<u8>(), 1..300), vec(any::<u8>(), 0..300), vec(any::<u8>(), 0..TOKEN_LEN_MAX));
    let lives = [vec(life(), 0..20), vec(life(), 0..20), vec(life(), 0..20)];
    let numbers = (any::<u64>(), any::<bool>(), 0..Class::COUNT, 0..=LIVES_MAX as u16);
    (bytes, any::<String>(), condition(), lives, numbers).prop_map(
        |((key, value, token), name, condition, lives, (word, flag, class, small))| Parts {
            key,
            value,
            token,
            name,
            word,
            condition,
            lives,
            flag,
            class,
            small,
        },
    )
}

impl Parts {
    /// One request of each kind.
    fn requests(&self) -> Vec<Request<'_>> {
        let key = Key::new(&self.key).unwrap();
        let [published, retired, returned] = self.lives.clone();
        let conditional = match self.condition {
            Condition::Absent => Condition::Always,
            other => other,
        };
        [
            Request::Hello(Hello {
                token: &self.token,
                rights: if self.flag { Rights::Read } else { Rights::ReadWrite },
                wants: [Wants::Messages, Wants::Memory, Wants::QueuePairs][usize::from(self.small) % 3],
                name: &self.name,
            }),
            Request::Ping,
            Request::Stats,
            Request::Get { key },
            Request::Put { key, value: &self.value, expires_at_ms: self.word, condition: self.condition },
            Request::Delete { key, condition: conditional },
            Request::FetchAdd { key, delta: self.word as i64 },
            Request::Lease {
                shard: self.word as u32,
                class: Class::from_index(self.class).unwrap(),
                queue_pair: self.word as u32,
                count: self.small,
            },
            Request::Report { shard: self.word as u32, published, retired, returned },
            Request::Scan { from: self.position(), keys_max: self.small.max(1), prefix: &self.key },
            Request::Fence { session: self.word },
        ]
        .into()
    }

    /// One response of each kind.
    fn responses(&self) -> Vec<Response<'_>> {
        // Version and locator 0 stand for none on the wire.
        let version = Version::from_bits(self.word.max(1));
        let locator = Locator::from_bits(self.word | 1);
        let hint = self.flag.then_some(Hint { locator, slot: SlotIndex(self.small.into()) });
        let kind = ErrorKind::from_code(self.small % 9 + 1).unwrap();
        // One for each block, or none at all.
        let keys = self.lives[0].iter().map(|life| life.count as u32).filter(|_| self.flag).collect();
        let statistic = Statistic { name: self.name.clone(), value: self.name.clone() };
        [
            Response::Error { kind, message: &self.name },
            Response::Welcome(self.welcome(usize::from(self.small) % 3 + 1)),
            Response::Pong,
            Response::Stats([statistic.clone(), statistic].into()),
            Response::Value { version, expires_at_ms: self.word, flags: self.small, value: &self.value },
            Response::Absent,
            Response::Stored { version: self.flag.then_some(version), hint },
            Response::Mismatch { current: self.flag.then_some(version) },
            Response::Deleted { existed: self.flag },
            Response::Counter { value: self.word as i64, version, hint },
            Response::Scanned {
                next: self.flag.then_some(self.position()),
                entries: (0..self.small % 3).map(|_| self.scan_entry()).collect(),
            },
            Response::Leased { lives: self.lives[0].clone(), keys, retry_ms: self.word as u32 },
            Response::Done,
        ]
        .into()
    }

    fn position(&self) -> ScanPosition {
        ScanPosition { shard: self.word as u32, slot: (self.word >> 32) as u32 }
    }

    fn scan_entry(&self) -> ScanEntry<'_> {
        let version = Version::from_bits(self.word);
        let key = Key::new(&self.key).unwrap();
        ScanEntry { key, value: &self.value, version, expires_at_ms: self.word, flags: self.small }
    }

    /// One message of each kind: kind, body, and what decodes it.
    fn messages(&self) -> Vec<(u8, Vec<u8>, Reread)> {
        let part =
            |bytes: Vec<u8>, reread: Reread| (split(&bytes).0.kind, bytes[HEADER_LEN..].to_vec(), reread);
        let requests =
            self.requests().into_iter().map(|request| part(encode_request(&request, 0), reread_request));
        let responses =
            self.responses().into_iter().map(|response| part(encode_response(&response, 0), reread_response));
        requests.chain(responses).collect()
    }

    fn welcome(&self, shards: usize) -> Welcome {
        let shard = |shard| Superblock {
            geometry: Geometry::new(1 << 20, 16).unwrap(),
            seed: TableSeed(self.word),
            quarantine_ms: 100,
            authority: Authority::Coherent,
            generation: self.word as u32,
            shard: shard as u32,
            shards: shards as u32,
            table_id: self.word.into(),
        };
        Welcome {
            server_version: self.name.clone(),
            instance: self.word.into(),
            session: self.word,
            rights: Rights::ReadWrite,
            memory_rights: if self.flag { Rights::Read } else { Rights::ReadWrite },
            lease_ms: self.small.into(),
            host: self.name.clone(),
            socket: self.name.clone(),
            rdma: self.name.clone(),
            shards: (0..shards).map(shard).collect(),
            queue_pairs: self.flag.then(|| QueuePairs {
                ticket: self.word.into(),
                atomics: [AtomicScope::None, AtomicScope::Device, AtomicScope::Global][shards % 3],
                memory: alloc::vec![
                    RemoteMemory { address: self.word, index_key: self.small.into(), heap_key: 7 };
                    shards
                ],
            }),
        }
    }
}

/// Decodes a body and encodes it again.
type Reread = fn(u8, &[u8]) -> Result<Vec<u8>, DecodeError>;

fn reread_request(kind: u8, body: &[u8]) -> Result<Vec<u8>, DecodeError> {
    Request::decode(kind, body).map(|request| encode_request(&request, 0).split_off(HEADER_LEN))
}

fn reread_response(kind: u8, body: &[u8]) -> Result<Vec<u8>, DecodeError> {
    Response::decode(kind, body).map(|response| encode_response(&response, 0).split_off(HEADER_LEN))
}

/// The one frame in `bytes`.
fn split(bytes: &[u8]) -> (FrameHeader, &[u8]) {
    let (header, body) = bytes.split_first_chunk().unwrap();
    let header = FrameHeader::decode(header).unwrap();
    assert_eq!(body.len(), header.body_len as usize);
    (header, body)
}

fn encode_request(request: &Request<'_>, id: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    request.encode(id, &mut bytes);
    bytes
}

fn encode_response(response: &Response<'_>, id: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    response.encode(id, &mut bytes);
    bytes
}

/// Whether a kind's last field takes all bytes that are left, so that a shorter or longer body is another message.
fn is_open_ended(kind: u8) -> bool {
    // GET, PUT, DELETE, fetch-add, SCAN end in a key, value or prefix; so does a GET's answer.
    matches!(kind, 0x10..=0x14 | 0x90)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_request_reads_back(parts in parts(), id: u64) {
        for request in parts.requests() {
            let bytes = encode_request(&request, id);
            let (header, body) = split(&bytes);
            prop_assert_eq!(header.id, id);
            prop_assert_eq!(Request::decode(header.kind, body), Ok(request));
        }
    }

    #[test]
    fn every_response_reads_back(parts in parts(), id: u64) {
        for response in parts.responses() {
            let bytes = encode_response(&response, id);
            let (header, body) = split(&bytes);
            prop_assert_eq!(header.id, id);
            prop_assert_eq!(Response::is_error(header.kind), matches!(response, Response::Error { .. }));
            prop_assert_eq!(Response::decode(header.kind, body), Ok(response));
        }
    }

    #[test]
    fn a_welcome_of_as_many_shards_as_there_can_be_reads_back(parts in parts(), shards in 1..=SHARDS_MAX) {
        let welcome = Response::Welcome(parts.welcome(shards));
        let bytes = encode_response(&welcome, 0);
        let (header, body) = split(&bytes);
        prop_assert_eq!(Response::decode(header.kind, body), Ok(welcome));
    }

    /// Frames are appended: what was there before stays.
    #[test]
    fn frames_follow_each_other(parts in parts()) {
        let mut bytes = Vec::new();
        for (id, request) in parts.requests().iter().enumerate() {
            request.encode(id as u64, &mut bytes);
        }
        let mut rest = &bytes[..];
        for (id, request) in parts.requests().into_iter().enumerate() {
            let (header, behind) = rest.split_first_chunk().unwrap();
            let header = FrameHeader::decode(header).unwrap();
            prop_assert_eq!(header.id, id as u64);
            let (body, behind) = behind.split_at(header.body_len as usize);
            prop_assert_eq!(Request::decode(header.kind, body), Ok(request));
            rest = behind;
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn a_body_cut_short_or_with_more_behind_it_is_an_error(parts in parts(), more in vec(any::<u8>(), 1..9)) {
        for (kind, body, reread) in parts.messages().into_iter().filter(|(kind, ..)| !is_open_ended(*kind)) {
            for len in 0..body.len() {
                prop_assert!(reread(kind, &body[..len]).is_err(), "{kind:#04x} cut to {len}");
            }
            let longer = [&body[..], &more].concat();
            prop_assert_eq!(reread(kind, &longer), Err(DecodeError::Trailing(more.len())));
        }
    }

    /// Whatever is taken for a message is one: written again, it is the bytes that were read.
    #[test]
    fn random_bytes_are_an_error_or_a_message(kind: u8, body in vec(any::<u8>(), 0..400)) {
        for reread in [reread_request, reread_response] {
            if let Ok(again) = reread(kind, &body) {
                prop_assert_eq!(&again, &body);
            }
        }
    }

    /// As above, from bytes that are almost right: cut anywhere, and one byte changed.
    #[test]
    fn damaged_messages_are_an_error_or_another_message(parts in parts(), at: Index, len: Index, to: u8) {
        for (kind, mut body, reread) in parts.messages() {
            body.truncate(len.index(body.len() + 1));
            if !body.is_empty() {
                let at = at.index(body.len());
                body[at] = to;
            }
            if let Ok(again) = reread(kind, &body) {
                prop_assert_eq!(&again, &body);
            }
        }
    }

    #[test]
    fn random_headers_are_an_error_or_a_header(bytes: [u8; HEADER_LEN]) {
        match FrameHeader::decode(&bytes) {
            Ok(header) => {
                prop_assert!(header.body_len as usize <= BODY_LEN_MAX);
                prop_assert_eq!(&header.id.to_le_bytes(), &bytes[8..]);
            }
            Err(DecodeError::Reserved) => prop_assert!(bytes[5..8] != [0; 3]),
            Err(DecodeError::BodyTooLong(len)) => prop_assert!(len as usize > BODY_LEN_MAX),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn names_and_messages_longer_than_their_length_field_are_cut_at_a_character(cut in 0..4usize) {
        let long = "x".repeat(usize::from(u16::MAX) - cut) + "äöü";
        let bytes = encode_response(&Response::Error { kind: ErrorKind::Full, message: &long }, 0);
        let (header, body) = split(&bytes);
        match Response::decode(header.kind, body) {
            Ok(Response::Error { message, .. }) => {
                prop_assert!(long.starts_with(message) && message.len() > usize::from(u16::MAX) - 2);
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }
}

#[test]
fn sizes_outside_the_limits_are_refused() {
    let kind = |request: &Request<'_>| split(&encode_request(request, 0)).0.kind;
    let key = Key::new(b"k").unwrap();
    let get = kind(&Request::Get { key });
    assert_eq!(Request::decode(get, &[]), Err(DecodeError::Field("key")));
    assert!(Request::decode(get, &[0; KEY_LEN_MAX]).is_ok());
    assert_eq!(Request::decode(get, &[0; KEY_LEN_MAX + 1]), Err(DecodeError::Field("key")));

    let value = alloc::vec![0; VALUE_LEN_MAX];
    let longest = Request::Put { key, value: &value, expires_at_ms: 0, condition: Condition::Always };
    let mut bytes = encode_request(&longest, 0);
    let (header, body) = split(&bytes);
    assert_eq!(Request::decode(header.kind, body), Ok(longest));
    let put = header.kind;
    bytes.push(0);
    assert_eq!(Request::decode(put, &bytes[HEADER_LEN..]), Err(DecodeError::Field("value")));

    let mut lease = encode_request(
        &Request::Lease { shard: 0, class: Class::holding(1).unwrap(), queue_pair: 0, count: 1 },
        0,
    );
    let lease_kind = split(&lease).0.kind;
    let len = lease.len();
    lease[len - 2..].copy_from_slice(&(LIVES_MAX as u16 + 1).to_le_bytes());
    assert_eq!(Request::decode(lease_kind, &lease[HEADER_LEN..]), Err(DecodeError::Field("count")));
}

#[test]
fn a_delete_that_wants_absence_is_refused() {
    let request = Request::Delete { key: Key::new(b"k").unwrap(), condition: Condition::Always };
    let mut bytes = encode_request(&request, 0);
    bytes[HEADER_LEN] = 1;
    let kind = split(&bytes).0.kind;
    assert_eq!(Request::decode(kind, &bytes[HEADER_LEN..]), Err(DecodeError::Field("condition")));
}

#[test]
fn a_hint_that_names_no_record_is_refused() {
    let hint = Some(Hint { locator: Locator::from_bits(1), slot: SlotIndex(0) });
    let bytes = encode_response(&Response::Stored { version: None, hint }, 0);
    let (kind, body) = (split(&bytes).0.kind, &bytes[HEADER_LEN..]);
    assert!(Response::decode(kind, body).is_ok());
    for (locator, slot) in [(0u64, 1u32), (1 << 62, 0), (1 << 63 | 1, 0)] {
        let mut body = body.to_vec();
        body[8..16].copy_from_slice(&locator.to_le_bytes());
        body[16..].copy_from_slice(&slot.to_le_bytes());
        assert_eq!(Response::decode(kind, &body), Err(DecodeError::Field("hint")));
    }
}

#[test]
fn peers_are_known_by_their_first_bytes() {
    assert_eq!(judge_preface(&PREFACE), Peer::Same);
    for version in (0..=255).filter(|version| *version != VERSION) {
        let mut preface = PREFACE;
        preface[7] = version;
        assert_eq!(judge_preface(&preface), Peer::OtherVersion(version));
    }
    assert_eq!(judge_preface(b"HTTP/1.1"), Peer::Foreign);
    assert_eq!(judge_preface(b"FARSIDF\x01"), Peer::Foreign);
}
