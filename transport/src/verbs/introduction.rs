//! What a queue pair says of itself when it connects.

/// What a queue pair is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Purpose {
    /// READ, WRITE and compare-and-swap, by one thread of the client.
    OneSided = 0,
    /// SEND, of the session's requests and answers.
    Messages = 1,
}

/// The private data of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Introduction {
    /// Names the session.
    pub(super) ticket: u128,
    pub(super) purpose: Purpose,
}

impl Introduction {
    pub(super) fn encode(self) -> [u8; 17] {
        let mut bytes = [self.purpose as u8; 17];
        bytes[..16].copy_from_slice(&self.ticket.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (ticket, &[purpose]) = bytes.split_first_chunk()? else { return None };
        let purpose =
            [Purpose::OneSided, Purpose::Messages].into_iter().find(|known| *known as u8 == purpose)?;
        Some(Self { ticket: u128::from_le_bytes(*ticket), purpose })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_else_is_an_introduction() {
        for purpose in [Purpose::OneSided, Purpose::Messages] {
            let introduction = Introduction { ticket: u128::MAX - 7, purpose };
            let mut bytes = introduction.encode().to_vec();
            assert_eq!(Introduction::decode(&bytes), Some(introduction));
            assert_eq!(Introduction::decode(&bytes[..16]), None);
            bytes[16] = 2;
            assert_eq!(Introduction::decode(&bytes), None);
            bytes.push(0);
            assert_eq!(Introduction::decode(&bytes), None);
        }
    }
}
