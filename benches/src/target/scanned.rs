//! The records that a scan brought.

/// Records one behind the other, so that taking one in allocates nothing once there is room.
#[derive(Debug, Default)]
pub struct Scanned {
    bytes: Vec<u8>,
    /// Of each record, the lengths of its key and its value.
    lengths: Vec<(usize, usize)>,
}

impl Scanned {
    /// None yet, with room for `records` of up to `record_len` bytes.
    #[must_use]
    pub fn with_capacity(records: usize, record_len: usize) -> Self {
        Self { bytes: Vec::with_capacity(records * record_len), lengths: Vec::with_capacity(records) }
    }

    /// Takes a record in.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.lengths.push((key.len(), value.len()));
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.lengths.clear();
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// The keys with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &self.bytes[..];
        self.lengths.iter().map(move |&(key_len, value_len)| {
            let (key, behind) = rest.split_at(key_len);
            let (value, behind) = behind.split_at(value_len);
            rest = behind;
            (key, value)
        })
    }
}
