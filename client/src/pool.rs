//! The cores of an asynchronous client, each behind a lock that is held while a plan runs and never across an
//! await.
//!
//! A key has a home core, so that what is remembered of it is remembered once. If that is busy the operation takes
//! the next free one rather than wait.

use crate::core::Core;
use crate::perform::Cores;
use crate::shared::Shared;
use crate::task::{Attempt, Deadline, Outcome, Task};
use farside_protocol::{Key, KeyHash, TableSeed};
use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::mem;

#[derive(Debug)]
pub(crate) struct Pool {
    slots: Box<[Mutex<Slot>]>,
}

/// Cores are made when they are first used: a program that only uses sessions needs none.
enum Slot {
    Unused,
    Used(Box<Core>),
    Closed,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unused => "unused",
            Self::Used(_) => "used",
            Self::Closed => "closed",
        })
    }
}

impl Pool {
    /// Of `cores` cores, one at least.
    pub(crate) fn new(cores: usize) -> Self {
        Self { slots: (0..cores.max(1)).map(|_| Mutex::new(Slot::Unused)).collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The number of the core at which `key` is at home.
    pub(crate) fn home(&self, key: Key<'_>) -> usize {
        KeyHash::of(key.as_bytes(), TableSeed(0)).shard(self.len())
    }

    /// Each core that is not in use, after the other.
    pub(crate) fn for_each_idle(&self, mut f: impl FnMut(&mut Core)) {
        for slot in &self.slots {
            if let Some(Slot::Used(core)) = slot.try_lock().as_deref_mut() {
                f(core);
            }
        }
    }

    /// Each core, after the other.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&mut Core)) {
        for slot in &self.slots {
            if let Slot::Used(core) = &mut *slot.lock() {
                f(core);
            }
        }
    }

    /// Takes the cores out, for their end.
    pub(crate) fn close(&self) -> Vec<Core> {
        let take = |slot: &Mutex<Slot>| match mem::replace(&mut *slot.lock(), Slot::Closed) {
            Slot::Used(core) => Some(*core),
            Slot::Unused | Slot::Closed => None,
        };
        self.slots.iter().filter_map(take).collect()
    }
}

/// An operation's core in the pool.
pub(crate) struct Pooled<'a> {
    shared: &'a Shared,
    index: usize,
}

impl<'a> Pooled<'a> {
    pub(crate) fn new(shared: &'a Shared, key: Key<'_>) -> Self {
        Self { shared, index: shared.pool().home(key) }
    }

    /// For an operation on no key.
    pub(crate) fn any(shared: &'a Shared) -> Self {
        Self { shared, index: 0 }
    }

    /// The first attempt at `task`, in the key's home core or in one that is free.
    pub(crate) fn first_attempt<'t, T: Task<'t>>(
        &mut self,
        task: &mut T,
        deadline: &Deadline,
        outcome: &mut Outcome<T::Answer>,
    ) -> Attempt {
        self.with_home_or_free(|core| core.attempt(task, deadline.first_slice(), outcome))
    }

    /// Lends the key's home core or one that is free, and that same one from then on.
    pub(crate) fn with_home_or_free<R>(&mut self, f: impl FnOnce(&mut Core) -> R) -> R {
        let mut slot = self.lock_home_or_free();
        f(self.lent(&mut slot))
    }

    fn lock_home_or_free(&mut self) -> MutexGuard<'a, Slot> {
        let slots = &self.shared.pool().slots;
        for index in (self.index..slots.len()).chain(0..self.index) {
            if let Some(slot) = slots[index].try_lock() {
                self.index = index;
                return slot;
            }
        }
        slots[self.index].lock()
    }

    fn lent<'s>(&self, slot: &'s mut Slot) -> &'s mut Core {
        if let Slot::Unused = slot {
            *slot = Slot::Used(Box::new(self.shared.pool_core()));
        }
        match slot {
            Slot::Used(core) => core,
            Slot::Unused | Slot::Closed => {
                unreachable!("the pool closes with the client, which is borrowed here")
            }
        }
    }
}

impl Cores for Pooled<'_> {
    fn with<R>(&mut self, f: impl FnOnce(&mut Core) -> R) -> R {
        let mut slot = self.shared.pool().slots[self.index].lock();
        f(self.lent(&mut slot))
    }
}
