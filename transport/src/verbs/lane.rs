//! The buffers of one operation: ordinary memory for the plan, and beside it registered memory for the device.
//!
//! ```text
//! registered:  | words found by CAS, 8 B a step | what WRITEs carry | what READs bring |
//!              0                               32         out_len   ^ 8-byte aligned
//! ```
//! What a device may write is copied out, once, when the chain has completed.
//!
//! Where answers go lies a number that nobody knows until the device overwrites it. For soft-RoCE (Linux 6.1) sometimes
//! completes a CAS or READ whose answer was lost with a packet; taken for the answer, what lay there before would be a
//! wrong one.

use crate::fabric::{Buffers, Lane};
use farside_hashtable::{CHAIN_LEN_MAX, Chain, Lost, Step};
use farside_verbs_sys::{Access, Buffer, MemoryRegion, ProtectionDomain, RegisterError};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

/// Bytes for the words that compare-and-swaps find.
const FOUND_LEN: usize = CHAIN_LEN_MAX * 8;

/// The first registration: enough for a chain on small records.
const FIRST_LEN: usize = 8192;

/// Memory that the device may touch.
pub(super) type Registered = MemoryRegion<Buffer>;

/// The buffers of one operation.
#[derive(Debug)]
pub struct VerbsLane {
    buffers: Buffers,
    /// What lies where the device has not answered: random, so that no one can store it on purpose.
    unanswered: u64,
    pub(super) registered: Option<Registered>,
    /// The token of the chain in flight.
    pub(super) flight: Option<u32>,
}

impl Default for VerbsLane {
    fn default() -> Self {
        let unanswered = RandomState::new().hash_one("unanswered");
        Self { buffers: Buffers::default(), unanswered, registered: None, flight: None }
    }
}

impl VerbsLane {
    /// Where in the registered memory the word goes that step number `step` finds.
    pub(super) const fn found_at(step: usize) -> usize {
        step * 8
    }

    /// Where in the registered memory a WRITE's bytes are.
    pub(super) const OUT_AT: usize = FOUND_LEN;

    /// Where in the registered memory READs of `chain` arrive.
    pub(super) fn in_at(chain: &Chain) -> usize {
        FOUND_LEN + out_len(chain)
    }

    /// Registers memory for `chain` unless there is enough, and copies in what it writes, unless all of that is at most
    /// `inline_len` bytes, which travel in the request.
    pub(super) fn prepare(
        &mut self,
        domain: &Arc<ProtectionDomain>,
        chain: &Chain,
        inline_len: usize,
    ) -> Result<(), RegisterError> {
        let out = out_len(chain);
        let needed = FOUND_LEN + out + in_len(chain);
        let serves =
            |registered: &Registered| registered.len() >= needed && Arc::ptr_eq(registered.domain(), domain);
        if !self.registered.as_ref().is_some_and(serves) {
            self.registered = None;
            let buffer = Buffer::new(needed.next_power_of_two().max(FIRST_LEN));
            self.registered = Some(MemoryRegion::new(domain, buffer, Access::LOCAL_WRITE)?);
        }
        let registered = self.registered.as_ref().expect("made just now, or there");
        for at in answer_ends(chain) {
            registered.store(at, self.unanswered).expect("it has room for all of the chain");
        }
        if out > inline_len {
            registered
                .write(Self::OUT_AT, &self.buffers.outgoing[..out])
                .expect("it has room for all of the chain");
        }
        Ok(())
    }

    /// The first `len` bytes that a WRITE carries.
    pub(super) fn written(&self, len: usize) -> &[u8] {
        &self.buffers.outgoing[..len]
    }

    /// Copies out what a completed `chain` brought and found, if the device has answered all of it.
    pub(super) fn collect(&mut self, chain: &mut Chain) -> Result<(), Lost> {
        let in_at = Self::in_at(chain);
        let registered = self.registered.as_ref().expect("a chain was posted with it");
        let is_answered = |at| registered.load(at).expect("as above") != self.unanswered;
        if !answer_ends(chain).all(is_answered) {
            return Err(Lost);
        }
        for (number, step) in chain.iter_mut().enumerate() {
            match *step {
                Step::Read { len, to, .. } => {
                    let (to, len) = (to as usize, len as usize);
                    let into = &mut self.buffers.incoming[to..to + len];
                    registered.read(in_at + to, into).expect("it has room for all of the chain");
                }
                Step::CompareSwap { ref mut found, .. } => {
                    *found = registered.load(Self::found_at(number)).expect("it has room for these words");
                }
                Step::Write { .. } => {}
            }
        }
        Ok(())
    }

    /// How much memory it keeps.
    pub fn bytes(&self) -> usize {
        self.buffers.incoming.len()
            + self.buffers.outgoing.len()
            + self.registered.as_ref().map_or(0, MemoryRegion::len)
    }

    /// Whether the buffers hold what `chain` says it needs.
    pub(super) fn holds(&self, chain: &Chain) -> bool {
        out_len(chain) <= self.buffers.outgoing.len() && in_len(chain) <= self.buffers.incoming.len()
    }
}

/// Where in the registered memory the last words are that a device writes to answer the steps of `chain`.
fn answer_ends(chain: &Chain) -> impl Iterator<Item = usize> {
    let in_at = VerbsLane::in_at(chain);
    chain.iter().enumerate().filter_map(move |(number, step)| match *step {
        Step::Read { len, to, .. } => Some(in_at + (to + len) as usize - 8),
        Step::CompareSwap { .. } => Some(VerbsLane::found_at(number)),
        Step::Write { .. } => None,
    })
}

fn out_len(chain: &Chain) -> usize {
    let lens = chain.iter().map(|step| if let Step::Write { len, .. } = step { *len as usize } else { 0 });
    lens.max().unwrap_or(0)
}

fn in_len(chain: &Chain) -> usize {
    let ends = chain.iter().map(|step| match step {
        Step::Read { len, to, .. } => *to as usize + *len as usize,
        _ => 0,
    });
    ends.max().unwrap_or(0)
}

impl Lane for VerbsLane {
    #[inline]
    fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    #[inline]
    fn buffers_mut(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    #[inline]
    fn in_flight(&self) -> bool {
        self.flight.is_some()
    }
}
