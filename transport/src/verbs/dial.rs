//! Connecting a queue pair to a listener.

use super::error::SetupError;
use super::introduction::{Introduction, Purpose};
use super::pipe::{Pipe, Prepared, Side};
use super::queue::{Queue, SEND_REQUESTS};
use super::settings::Rdma;
use farside_protocol::wire::Welcome;
use farside_verbs_sys::{
    CmId, CompletionQueue, ConnectionParameters, Depths, Event, EventChannel, EventKind, ProtectionDomain,
    QueuePair, QueuePairLimits, Transport, Verbs,
};
use std::borrow::Borrow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that work requests are to carry inline: the first of these that the device can.
pub(super) const INLINE_LENS: [u32; 3] = [256, 64, 0];

/// Where queue pairs are connected to, and how.
#[derive(Debug)]
pub(crate) struct Dial {
    pub(super) verbs: &'static Verbs,
    /// The listener.
    pub(super) peer: SocketAddr,
    /// Names the session.
    pub(super) ticket: u128,
    /// How long each connection may take.
    pub(super) limit: Duration,
    pub(super) rdma: Rdma,
}

impl Dial {
    /// To the server of a session that has queue pairs. Blocks if `rdma` names a device.
    pub(crate) fn to(welcome: &Welcome, limit: Duration, mut rdma: Rdma) -> Result<Self, SetupError> {
        let address = || SetupError::Address(welcome.rdma.clone());
        let peer = welcome.rdma.parse().map_err(|_| address())?;
        let ticket = welcome.queue_pairs.as_ref().ok_or_else(address)?.ticket;
        if let Some(device) = &mut rdma.device {
            // Once, for all its queue pairs.
            *device = device.address()?.into();
        }
        Ok(Self { verbs: Verbs::load()?, peer, ticket, limit, rdma })
    }

    /// Connects a queue pair for one thread's READs, WRITEs and compare-and-swaps. Blocks.
    pub(super) fn queue(&self) -> Result<Queue, SetupError> {
        let way = self.find_way()?;
        let context = way.id.context()?;
        let domain = ProtectionDomain::new(&context)?;
        let completions = CompletionQueue::with_events(&context, SEND_REQUESTS + 1)?;
        let pair = with_most_inline(|inline_len| {
            let limits = QueuePairLimits { send_requests: SEND_REQUESTS, receive_requests: 1, inline_len };
            way.id.create_queue_pair(&domain, &completions, &completions, limits)
        })?;
        let (pair, id) = self.connect(way, pair, Purpose::OneSided)?;
        Ok(Queue::new(pair, id))
    }

    /// Connects the queue pair of the session's messages. Blocks.
    pub(crate) fn pipe(&self) -> Result<Arc<Pipe>, SetupError> {
        let way = self.find_way()?;
        let domain = ProtectionDomain::new(&way.id.context()?)?;
        let prepared = Prepared::new(&way.id, &domain, Side::Client)?;
        let (prepared, id) = self.connect(way, prepared, Purpose::Messages)?;
        Ok(prepared.connected(id))
    }

    /// Finds this host's device and the route to the peer.
    pub(super) fn find_way(&self) -> Result<Way, SetupError> {
        let &Self { verbs, peer, limit, ref rdma, .. } = self;
        let channel = EventChannel::new(verbs)?;
        let id = CmId::new(&channel)?;
        let way = Way { peer, limit, until: Instant::now() + limit, channel, id };
        if let Some(type_of_service) = rdma.type_of_service {
            way.id.set_type_of_service(type_of_service)?;
        }
        resolve(&way.id, rdma, peer, limit)?;
        way.expect(EventKind::AddressResolved)?;
        // An iWARP device leaves this to TCP.
        let _ = way.id.set_ack_timeout(rdma.ack_timeout);
        way.id.resolve_route(limit)?;
        way.expect(EventKind::RouteResolved)?;
        Ok(way)
    }

    /// Connects `end`, whose queue pair is on the identifier of `way`.
    pub(super) fn connect<E: Borrow<QueuePair> + Send + 'static>(
        &self,
        way: Way,
        end: E,
        purpose: Purpose,
    ) -> Result<(E, CmId), SetupError> {
        let context = way.id.context()?;
        let parameters = ConnectionParameters {
            retry_count: self.rdma.retry_count,
            ..ConnectionParameters::new(Depths::of_device(&context.attributes()?))
        };
        let introduction = Introduction { ticket: self.ticket, purpose }.encode();
        let connecting = way.id.connect(parameters, &introduction).map_err(SetupError::from);
        if let Err(error) = connecting.and_then(|()| way.expect(EventKind::Established)) {
            let_go((end, way));
            return Err(error);
        }
        let found = end.borrow().settings()?;
        tracing::debug!("queue pair to {}: {found:?}", self.peer);
        // iWARP has none of these.
        let missed =
            if context.transport() == Transport::Iwarp { Vec::new() } else { self.rdma.not_taken(&found) };
        if !missed.is_empty() {
            tracing::warn!("{} did not take all settings: {}", context.name(), missed.join("; "));
        }
        Ok((end, way.id))
    }
}

/// What `make` makes with the first of [`INLINE_LENS`] with which it can.
pub(super) fn with_most_inline<T, E>(make: impl Fn(u32) -> Result<T, E>) -> Result<T, E> {
    let (first, rest) = INLINE_LENS.split_first().expect("there are some");
    rest.iter().fold(make(*first), |made, inline_len| made.or_else(|_| make(*inline_len)))
}

/// Lets go of a connection that did not come about, aside: over iWARP the kernel keeps whoever does it until the peer
/// has answered, or ten seconds have passed.
fn let_go(connection: impl Send + 'static) {
    // Where there is no thread to be had it is done here.
    let _ = thread::Builder::new().name("farside-rdma".into()).spawn(move || drop(connection));
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

/// A connection that is being made.
pub(super) struct Way {
    peer: SocketAddr,
    limit: Duration,
    until: Instant,
    channel: Arc<EventChannel>,
    pub(super) id: CmId,
}

impl Way {
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
