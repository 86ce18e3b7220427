//! What came in on a connection, and the frames in it.

use crate::budget::Share;
use farside_protocol::wire::{DecodeError, FrameHeader, HEADER_LEN, PARTING};

/// Room for a connection's first read; it doubles while reads fill it.
const ROOM_MIN: usize = 4 << 10;
/// Room past which a connection has to have a reason, such as a large value.
const ROOM_MAX: usize = 64 << 10;

/// The bytes read from one connection and not yet worked off.
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    /// Up to here they are worked off.
    start: usize,
    room: usize,
    body_len_max: usize,
    /// The room of a large frame, from its beginning to its end.
    share: Option<Share>,
}

/// Bytes that are no frame, or none that may come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("a request announces a body of {len} bytes; here it may have {most}")]
    TooLong { id: u64, len: u32, most: usize },
}

impl FrameError {
    /// The request that it is about.
    pub(crate) fn id(&self) -> u64 {
        match self {
            Self::Decode(_) => PARTING,
            Self::TooLong { id, .. } => *id,
        }
    }
}

/// One whole frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) header: FrameHeader,
    pub(crate) body: &'a [u8],
}

impl Frame<'_> {
    /// Bytes of header and body.
    pub(crate) fn len(&self) -> usize {
        HEADER_LEN + self.body.len()
    }
}

impl Inbox {
    /// An empty one, which takes frames with bodies of up to `body_len_max` bytes.
    pub(crate) fn new(body_len_max: usize) -> Self {
        Self { bytes: Vec::new(), start: 0, room: ROOM_MIN, body_len_max, share: None }
    }

    /// Takes frames with bodies of up to `body_len_max` bytes from now on.
    pub(crate) fn allow(&mut self, body_len_max: usize) {
        self.body_len_max = body_len_max;
    }

    /// What is there and not worked off.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The first frame, if it is there as a whole. It stays until [`Inbox::advance`].
    pub(crate) fn frame(&self) -> Result<Option<Frame<'_>>, FrameError> {
        let Some((header, rest)) = self.pending().split_first_chunk() else { return Ok(None) };
        let header = FrameHeader::decode(header)?;
        let body_len = header.body_len as usize;
        if body_len > self.body_len_max {
            return Err(FrameError::TooLong { id: header.id, len: header.body_len, most: self.body_len_max });
        }
        Ok(rest.get(..body_len).map(|body| Frame { header, body }))
    }

    /// Leaves `len` bytes behind.
    pub(crate) fn advance(&mut self, len: usize) {
        self.start += len;
        debug_assert!(self.start <= self.bytes.len());
    }

    /// The number and length of a frame that has begun, if it is too large to be read without a share of the budget,
    /// and has none yet.
    pub(crate) fn lacks_share(&self) -> Option<(u64, usize)> {
        let header = self.begun().filter(|_| self.share.is_none())?;
        let len = HEADER_LEN + header.body_len as usize;
        (len > ROOM_MAX).then_some((header.id, len))
    }

    /// Gives the frame that has begun its share, which it keeps until it is worked off.
    pub(crate) fn give_share(&mut self, share: Share) {
        self.share = Some(share);
    }

    fn begun(&self) -> Option<FrameHeader> {
        self.pending().first_chunk().and_then(|header| FrameHeader::decode(header).ok())
    }

    /// A vector to read more bytes onto the end of, with room for them: for the rest of a frame that has begun,
    /// and for as many more as come usually.
    pub(crate) fn make_room(&mut self) -> &mut Vec<u8> {
        if self.bytes.len() == self.bytes.capacity() && !self.bytes.is_empty() {
            // The last read filled all there was: more comes at a time than was thought.
            self.room = (self.room * 2).min(ROOM_MAX);
        }
        self.bytes.drain(..self.start);
        self.start = 0;
        let frame_len = self.begun().map_or(0, |header| HEADER_LEN + header.body_len as usize);
        if frame_len <= ROOM_MAX {
            self.share = None;
            self.bytes.shrink_to(ROOM_MAX);
        }
        self.bytes.reserve_exact(frame_len.max(self.room).saturating_sub(self.bytes.len()));
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farside_protocol::Key;
    use farside_protocol::wire::{BODY_LEN_MAX, Request};

    fn request(len: usize) -> Vec<u8> {
        let (mut bytes, key) = (Vec::new(), vec![b'k'; len]);
        Request::Get { key: Key::new(&key).unwrap() }.encode(9, &mut bytes);
        bytes
    }

    #[test]
    fn frames_come_out_whole_however_they_came_in() {
        let stream: Vec<u8> = [1, 4096, 7, 300].into_iter().flat_map(request).collect();
        for piece in [1, 3, 16, 17, 1000, stream.len()] {
            let mut inbox = Inbox::new(BODY_LEN_MAX);
            let mut lens = Vec::new();
            for bytes in stream.chunks(piece) {
                inbox.make_room().extend_from_slice(bytes);
                while let Some(frame) = inbox.frame().unwrap() {
                    assert_eq!(frame.header.id, 9);
                    lens.push(frame.body.len());
                    let len = frame.len();
                    inbox.advance(len);
                }
            }
            assert_eq!((lens, inbox.pending()), (vec![1, 4096, 7, 300], &[][..]), "pieces of {piece}");
        }
    }

    #[test]
    fn a_body_longer_than_allowed_is_refused_at_its_header() {
        let mut inbox = Inbox::new(100);
        inbox.make_room().extend_from_slice(&request(101)[..HEADER_LEN]);
        assert_eq!(inbox.frame(), Err(FrameError::TooLong { id: 9, len: 101, most: 100 }));
        inbox.allow(BODY_LEN_MAX);
        assert_eq!(inbox.frame(), Ok(None));
    }

    #[test]
    fn room_grows_with_what_comes_and_is_given_back() {
        let mut inbox = Inbox::new(BODY_LEN_MAX);
        inbox.make_room();
        assert!(inbox.bytes.capacity() < 2 * ROOM_MIN);
        let mut header = request(1);
        header[..4].copy_from_slice(&(10_000_000u32).to_le_bytes());
        inbox.make_room().extend_from_slice(&header);
        assert!(inbox.make_room().capacity() >= 10_000_000);
        let pending = inbox.pending().len();
        inbox.advance(pending - 3);
        assert!(inbox.make_room().capacity() <= ROOM_MAX, "whatever came behind it");
        assert_eq!(inbox.pending().len(), 3);
    }
}
