//! Connecting a queue pair to a listener.

use super::error::SetupError;
use super::queue::{Queue, SEND_REQUESTS};
use super::settings::Rdma;
use farside_verbs_sys::{
    CmId, CompletionQueue, ConnectionParameters, Depths, Event, EventChannel, EventKind, ProtectionDomain,
    QueuePair, QueuePairLimits, Transport, Verbs,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that WRITEs are to carry inline: the first of these that the device can.
const INLINE_LENS: [u32; 3] = [256, 64, 0];

/// Connects a queue pair to the listener at `peer`, in the session that `ticket` names, as `rdma` says.
pub(super) fn dial(
    verbs: &'static Verbs,
    peer: SocketAddr,
    ticket: u128,
    limit: Duration,
    rdma: &Rdma,
) -> Result<Queue, SetupError> {
    let channel = EventChannel::new(verbs)?;
    let dialing = Dialing { peer, limit, until: Instant::now() + limit, channel: &channel };
    let id = CmId::new(&channel)?;
    if let Some(type_of_service) = rdma.type_of_service {
        id.set_type_of_service(type_of_service)?;
    }
    resolve(&id, rdma, peer, limit)?;
    dialing.expect(EventKind::AddressResolved)?;
    // An iWARP device leaves this to TCP.
    let _ = id.set_ack_timeout(rdma.ack_timeout);
    id.resolve_route(limit)?;
    dialing.expect(EventKind::RouteResolved)?;
    let context = id.context()?;
    let domain = ProtectionDomain::new(&context)?;
    let completions = CompletionQueue::with_events(&context, SEND_REQUESTS + 1)?;
    let make = |inline_len| {
        let limits = QueuePairLimits { send_requests: SEND_REQUESTS, receive_requests: 1, inline_len };
        id.create_queue_pair(&domain, &completions, &completions, limits)
    };
    let (first, rest) = INLINE_LENS.split_first().expect("there are some");
    let pair = rest.iter().fold(make(*first), |made, inline_len| made.or_else(|_| make(*inline_len)))?;
    let depths = Depths::of_device(&context.attributes()?);
    let parameters =
        ConnectionParameters { retry_count: rdma.retry_count, ..ConnectionParameters::new(depths) };
    let connecting = id.connect(parameters, &ticket.to_le_bytes()).map_err(SetupError::from);
    if let Err(error) = connecting.and_then(|()| dialing.expect(EventKind::Established)) {
        let_go(pair, id);
        return Err(error);
    }
    let found = pair.settings()?;
    tracing::debug!("queue pair to {peer}: {found:?}");
    // iWARP has none of these.
    let missed = if context.transport() == Transport::Iwarp { Vec::new() } else { rdma.not_taken(&found) };
    if !missed.is_empty() {
        tracing::warn!("{} did not take all settings: {}", context.name(), missed.join("; "));
    }
    Ok(Queue::new(pair, id))
}

/// Lets go of a connection that did not come about, aside: over iWARP the kernel keeps whoever does it until the peer
/// has answered, or ten seconds have passed.
fn let_go(pair: QueuePair, id: CmId) {
    // Where there is no thread to be had it is done here.
    let _ = thread::Builder::new().name("farside-rdma".into()).spawn(move || drop((pair, id)));
}

/// Asks for the way to `peer`, from this host's device that `rdma` names, if it does.
fn resolve(id: &CmId, rdma: &Rdma, peer: SocketAddr, limit: Duration) -> Result<(), SetupError> {
    let Some(device) = &rdma.device else { return Ok(id.resolve_address(None, peer, limit)?) };
    let address = SocketAddr::new(device.address()?, 0);
    if address.is_ipv4() != peer.is_ipv4() {
        return Err(SetupError::Families { local: address.ip(), peer: peer.ip() });
    }
    id.resolve_address(Some(address), peer, limit)
        .map_err(|source| SetupError::NoDevice { address: address.ip(), source })
}

struct Dialing<'a> {
    peer: SocketAddr,
    limit: Duration,
    until: Instant,
    channel: &'a Arc<EventChannel>,
}

impl Dialing<'_> {
    /// Waits for the event that ends a step well.
    fn expect(&self, wanted: EventKind) -> Result<(), SetupError> {
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(SetupError::Silent { peer: self.peer, limit: self.limit });
            }
            match self.channel.wait(left)? {
                Some(Event { kind, .. }) if kind == wanted => return Ok(()),
                Some(Event { kind: EventKind::Rejected, .. }) => {
                    return Err(SetupError::Rejected { peer: self.peer });
                }
                Some(Event { kind, status, .. }) => {
                    return Err(SetupError::Unreachable { peer: self.peer, kind, status });
                }
                None => {}
            }
        }
    }
}
