//! Rule T1: a block retired at time u is not leased again before u + Q.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use farside_protocol::{Class, Life};

#[derive(Clone, Copy, Debug)]
pub(super) struct Resting {
    pub(super) until_ns: u64,
    pub(super) life: Life,
}

/// Retired lives, a queue for each class: all rest equally long and the heap's clock never goes back, so the one
/// that came first is ready first.
#[derive(Debug)]
pub(super) struct Quarantine {
    rest_ns: u64,
    queues: Vec<VecDeque<Resting>>,
    /// The class with which [`Quarantine::pop_due`] goes on, so that it need not pass the empty ones each time.
    turn: usize,
}

impl Quarantine {
    pub(super) fn new(rest_ns: u64) -> Self {
        Self { rest_ns, queues: (0..Class::COUNT).map(|_| VecDeque::new()).collect(), turn: 0 }
    }

    /// How long a life rests.
    pub(super) fn rest_ns(&self) -> u64 {
        self.rest_ns
    }

    pub(super) fn push(&mut self, class: Class, life: Life, now_ns: u64) {
        let until_ns = now_ns.saturating_add(self.rest_ns);
        self.queues[class.index()].push_back(Resting { until_ns, life });
    }

    /// Takes out a life whose rest is over.
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<Life> {
        for _ in 0..self.queues.len() {
            if let Some(resting) = self.queues[self.turn].pop_front_if(|resting| resting.until_ns <= now_ns) {
                return Some(resting.life);
            }
            self.turn = (self.turn + 1) % self.queues.len();
        }
        None
    }

    /// The resting lives of a class, the one that is ready first in front.
    pub(super) fn of(&self, class: Class) -> &VecDeque<Resting> {
        &self.queues[class.index()]
    }

    /// When the next life of any class is ready.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        self.queues.iter().filter_map(|queue| Some(queue.front()?.until_ns)).min()
    }
}
