//! Frame headers, and the cursor with which bodies are read.

use super::{BODY_LEN_MAX, HEADER_LEN};
use alloc::vec::Vec;

/// Why bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// A body longer than any message has.
    #[error("a frame announces a body of {0} bytes; the longest has {BODY_LEN_MAX}")]
    BodyTooLong(u32),
    /// Bytes that must be zero are not.
    #[error("a frame's reserved bytes are not zero")]
    Reserved,
    /// No message has this kind.
    #[error("a frame has the unknown kind {0:#04x}")]
    Kind(u8),
    /// The body ended early.
    #[error("a frame's body ends in the middle of a field")]
    Truncated,
    /// The body goes on after its last field.
    #[error("a frame's body has {0} bytes too many")]
    Trailing(usize),
    /// A field has a value it cannot have.
    #[error("a frame's field `{0}` is out of range")]
    Field(&'static str),
}

/// The header before each body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// Bytes of the body, at most [`BODY_LEN_MAX`].
    pub body_len: u32,
    /// What the body is.
    pub kind: u8,
    /// The request's number, repeated in its answer.
    pub id: u64,
}

impl FrameHeader {
    /// Decodes and checks.
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let header = Self { body_len: reader.u32()?, kind: reader.u8()?, id: 0 };
        if reader.take(3)? != [0; 3] {
            return Err(DecodeError::Reserved);
        }
        if header.body_len as usize > BODY_LEN_MAX {
            return Err(DecodeError::BodyTooLong(header.body_len));
        }
        Ok(Self { id: reader.u64()?, ..header })
    }
}

/// Appends one frame to `out`: `body` writes its body behind the header.
pub(super) fn frame(out: &mut Vec<u8>, kind: u8, id: u64, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_LEN]);
    body(out);
    let body_len = out.len() - start - HEADER_LEN;
    assert!(body_len <= BODY_LEN_MAX, "sizes are checked before a message is made");
    out[start..start + 4].copy_from_slice(&(body_len as u32).to_le_bytes());
    out[start + 4] = kind;
    out[start + 8..start + HEADER_LEN].copy_from_slice(&id.to_le_bytes());
}

/// Reads fields off the front of a body.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*head)
    }

    pub(super) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn u128(&mut self) -> Result<u128, DecodeError> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    pub(super) fn flag(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Field(field)),
        }
    }

    /// Bytes behind a 16-bit length.
    pub(super) fn short_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.u16()?;
        self.take(len.into())
    }

    /// Text behind a 16-bit length.
    pub(super) fn text(&mut self, field: &'static str) -> Result<&'a str, DecodeError> {
        core::str::from_utf8(self.short_bytes()?).map_err(|_| DecodeError::Field(field))
    }

    /// All that is left.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }

    pub(super) fn finish(self) -> Result<(), DecodeError> {
        if self.0.is_empty() { Ok(()) } else { Err(DecodeError::Trailing(self.0.len())) }
    }
}

/// Appends bytes behind a 16-bit length; longer ones are cut, which only names and messages can be.
pub(super) fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(u16::MAX.into())];
    out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Appends text behind a 16-bit length, cut at a character if it is longer.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_short_bytes(out, &text.as_bytes()[..text.floor_char_boundary(u16::MAX.into())]);
}
