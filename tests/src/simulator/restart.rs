//! Everybody ends at once, and another server goes on with the memory.

use super::audit::Breach;
use super::shared::{CROWD, Shared};
use farside_hashtable::heap::{Heap, Report};
use farside_hashtable::plan::{Repaired, repair};
use farside_protocol::Class;
use farside_transport::sim::{Conduct, Sim};
use farside_transport::{Counts, Fabric, LaneIo, drive};

/// Repairs the table over `fabric`, which is the new server's, and makes its heap anew. Nothing of the former run may be
/// under way.
pub(super) fn recover(shared: &Shared, fabric: &Sim) -> Repaired {
    shared.world.set_conduct(Conduct::CALM);
    let geometry = shared.table.geometry;
    let recovery = Heap::recover(geometry, shared.setup.rest_ns(), |unit| shared.ledger.word(unit));
    let mut recovery = recovery.expect("the ledger is whole at every moment");
    let (mut lane, mut counts) = (fabric.open_lane(), Counts::default());
    let io = &mut LaneIo::new(fabric, &mut lane, &mut counts, 0, u64::MAX);
    let keep = |life, class| recovery.keep(life, class);
    let repaired = drive(repair(io, &shared.table, keep)).expect("the new server's connection holds");
    if repaired.damaged != 0 {
        shared.break_off(Breach::Dropped);
    }
    *shared.heap.borrow_mut() = recovery.finish(Box::new(shared.ledger.clone()));
    lease_all(shared);
    repaired
}

/// Leases every block that is free, to see that no life comes twice, and gives them back.
fn lease_all(shared: &Shared) {
    shared.heap.borrow_mut().open_session(CROWD).expect("nobody has the number now");
    let mut returned = Vec::new();
    for class in Class::all() {
        let before = returned.len();
        while shared.lease(CROWD, class, 64, &mut returned).is_ok() {}
        let report = Report { returned: &returned[before..], ..Report::default() };
        shared.heap.borrow_mut().report(CROWD, &report, shared.world.now_ns());
    }
}
