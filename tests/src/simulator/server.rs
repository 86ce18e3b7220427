//! The server's side: it hears reports, releases blocks, fences and resolves what ended sessions held, sweeps.

use super::audit::Breach;
use super::setup::QUARANTINE_NS;
use super::shared::{SessionState, Shared, WRAPPER};
use super::waiting::sleep;
use farside_hashtable::duties::Duties;
use farside_hashtable::heap::{Finding, Report, SweepProgress};
use farside_hashtable::plan::upkeep::{Reach, reclaim, tend_line};
use farside_protocol::limits::{LINES_PER_WINDOW, SLOTS_PER_LINE, TAG_PERIOD};
use farside_protocol::{Class, SlotIndex};
use farside_transport::sim::{Conduct, Rng, Sim, SimLane};
use farside_transport::{Counts, Fabric, LaneIo};
use std::mem;
use std::rc::Rc;

/// How long an expired record stays before a sweep deletes it. All clocks of a world show the same.
const GRACE_MS: u64 = 1;

/// How long the server tries to find out about one block before it begins anew.
const RECLAIM_NS_MAX: u64 = QUARANTINE_NS * 50;

/// How often all tags come round in a run.
const WRAPS_MAX: u32 = 3;

/// How often the server sweeps when all clients are gone: what was published during the first is found by the second.
const LAST_SWEEPS: u32 = 3;

pub(super) struct Server {
    shared: Rc<Shared>,
    rng: Rng,
    fabric: Sim,
    lane: SimLane,
    duties: Duties,
}

impl Server {
    pub(super) fn new(shared: &Rc<Shared>, fabric: Sim) -> Self {
        Self {
            shared: Rc::clone(shared),
            rng: Rng::new(!shared.setup.seed),
            lane: fabric.open_lane(),
            fabric,
            duties: Duties::default(),
        }
    }

    /// Serves until every client is gone and what they left is in order.
    pub(super) async fn serve(mut self) {
        let shared = Rc::clone(&self.shared);
        let [mut sweep_at, mut wrap_at] = [shared.setup.sweep_ns_max, shared.setup.wrap_ns_max]
            .map(|ns_max| shared.world.now_ns() + self.rng.below(ns_max));
        let mut wraps = 0;
        while !self.all_are_buried() {
            sleep(&shared.world, self.rng.magnitude(shared.setup.server_ns_max)).await;
            shared.release_due();
            match self.rng.below(3) {
                0 => self.hear_one(),
                1 => self.bury_one().await,
                _ => {
                    if shared.setup.sweep_ns_max != 0 && shared.world.now_ns() >= sweep_at {
                        self.sweep().await;
                        sweep_at = shared.world.now_ns() + self.rng.below(shared.setup.sweep_ns_max);
                    }
                    if wraps < WRAPS_MAX && shared.setup.wrap_ns_max != 0 && shared.world.now_ns() >= wrap_at
                    {
                        self.wrap_tags();
                        wrap_at = shared.world.now_ns() + self.rng.below(shared.setup.wrap_ns_max);
                        wraps += 1;
                    }
                }
            }
        }
        shared.world.set_conduct(Conduct::CALM);
        let lost = shared.tally.borrow().swept_lost;
        for _ in 0..LAST_SWEEPS {
            self.sweep().await;
        }
        // Before, a retirement may have been on its way.
        let lost = shared.tally.borrow().swept_lost - lost;
        if lost != 0 && shared.setup.is_untroubled() && shared.setup.sweep_ns_max == 0 {
            shared.break_off(Breach::LostInPeace(lost));
        }
    }

    fn all_are_buried(&self) -> bool {
        self.shared.sessions.borrow().iter().all(|session| session.state == SessionState::Buried)
    }

    /// Hears the oldest report of some session.
    fn hear_one(&mut self) {
        let session = self.rng.index(self.shared.sessions.borrow().len());
        let mail = self.shared.sessions.borrow_mut()[session].mail.pop_front();
        if let Some(mail) = mail {
            self.shared.world.note(self.fabric.client(), || format!("hears client {session}: {mail:?}"));
            self.shared.hear(session as u64, &mail);
        }
    }

    /// Fences a session whose client is gone and finds out about each block that it held.
    async fn bury_one(&mut self) {
        let shared = Rc::clone(&self.shared);
        let number = self.rng.index(shared.sessions.borrow().len());
        let (client, mail) = match &mut shared.sessions.borrow_mut()[number] {
            session if matches!(session.state, SessionState::Gone { noticed_at } if noticed_at <= shared.world.steps()) => {
                (session.client, mem::take(&mut session.mail))
            }
            _ => return,
        };
        for mail in mail {
            shared.hear(number as u64, &mail);
        }
        if !shared.setup.no_fence {
            shared.world.sever(client);
        }
        let orphans = shared.heap.borrow_mut().end_session(number as u64);
        for orphan in orphans {
            let until_ns = self.fabric.now() + RECLAIM_NS_MAX;
            let mut counts = Counts::default();
            let io = &mut LaneIo::new(&self.fabric, &mut self.lane, &mut counts, 0, until_ns);
            let finding = match reclaim(io, &shared.table, orphan.life, orphan.class, until_ns).await {
                Ok(Reach::Reachable) => Finding::Reachable,
                Ok(Reach::Unreachable) => Finding::Unreachable,
                // By its deadline, for others kept changing what it looked at. The rest is for another time.
                Err(_) => return,
            };
            shared.world.note(self.fabric.client(), || format!("finds {:?} {finding:?}", orphan.life));
            shared.heap.borrow_mut().resolve(orphan.life, finding, shared.world.now_ns());
            let tally = &mut *shared.tally.borrow_mut();
            match finding {
                Finding::Reachable => tally.reclaimed_reachable += 1,
                Finding::Unreachable => tally.reclaimed_unreachable += 1,
            }
        }
        shared.sessions.borrow_mut()[number].state = SessionState::Buried;
    }

    /// Tends every line and retires what nothing leads to. A sweep that does not see everything is given up.
    async fn sweep(&mut self) {
        let shared = Rc::clone(&self.shared);
        shared.heap.borrow_mut().begin_mark();
        let lines = shared.setup.lines as u32 + LINES_PER_WINDOW as u32 - 1;
        for line in 0..lines {
            let mut counts = Counts::default();
            let until_ns = self.fabric.now() + RECLAIM_NS_MAX;
            let io = &mut LaneIo::new(&self.fabric, &mut self.lane, &mut counts, 0, until_ns);
            let first = SlotIndex(line * SLOTS_PER_LINE as u32);
            let mark = |life| shared.heap.borrow_mut().mark(life);
            let tended = tend_line(io, &shared.table, first, GRACE_MS, &mut self.duties, mark).await;
            let retired = mem::take(&mut self.duties.retired);
            let report = Report { retired: &retired, ..Report::default() };
            shared.heap.borrow_mut().report(u64::MAX, &report, shared.world.now_ns());
            let Ok(tended) = tended else { return };
            if tended.damaged != 0 {
                shared.break_off(Breach::Dropped);
            }
            let tally = &mut *shared.tally.borrow_mut();
            tally.swept_forward += u64::from(tended.forwarded);
            tally.swept_expired += u64::from(tended.expired);
            if tended.unsettled != 0 {
                return;
            }
        }
        let lost = loop {
            let progress = shared.heap.borrow_mut().finish_mark(shared.world.now_ns(), 8);
            if let SweepProgress::Done { retired } = progress {
                break retired;
            }
        };
        shared.world.note(self.fabric.client(), || format!("has swept and found {lost} blocks lost"));
        let tally = &mut *shared.tally.borrow_mut();
        tally.swept += 1;
        tally.swept_lost += lost;
    }

    /// Leases every free block so often that its next life has the tag of its last one, in the time that takes.
    fn wrap_tags(&mut self) {
        let shared = &self.shared;
        shared.world.note(self.fabric.client(), || "makes all tags come round".into());
        for _ in 1..TAG_PERIOD {
            let mut lives = Vec::new();
            for class in Class::all() {
                let free = shared.heap.borrow().blocks(class).free as usize;
                if free != 0 {
                    let now_ns = shared.world.coarse_ns();
                    let leased = shared.heap.borrow_mut().lease(WRAPPER, class, free, now_ns, &mut lives);
                    leased.expect("blocks that are free can be leased");
                }
            }
            let report = Report { returned: &lives, ..Report::default() };
            shared.heap.borrow_mut().report(WRAPPER, &report, shared.world.now_ns());
            shared.world.leap(shared.setup.rest_ns() + shared.setup.conduct.tick_ns);
            shared.release_due();
        }
        if !shared.setup.no_quarantine {
            // In a thousand quarantines every transport has ended its retries.
            shared.world.break_connections();
        }
        shared.tally.borrow_mut().wrapped += 1;
    }
}
