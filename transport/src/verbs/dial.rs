//! Connecting a queue pair to a listener.

use super::error::SetupError;
use super::queue::{Queue, SEND_REQUESTS};
use farside_verbs_sys::{
    CmId, CompletionQueue, ConnectionParameters, Depths, Event, EventChannel, EventKind, ProtectionDomain,
    QueuePairLimits, Verbs,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A lost packet is sent again after 4.096 us x 2^this, times up to four: a dead peer is noticed within half a second.
/// librdmacm's own choice would stall for seconds on each lost packet.
pub(super) const ACK_TIMEOUT: u8 = 12;

/// Bytes that WRITEs are to carry inline: the first of these that the device can.
const INLINE_LENS: [u32; 3] = [256, 64, 0];

/// Connects a queue pair to the listener at `peer`, in the session that `ticket` names.
pub(super) fn dial(
    verbs: &'static Verbs,
    peer: SocketAddr,
    ticket: u128,
    limit: Duration,
) -> Result<Queue, SetupError> {
    let channel = EventChannel::new(verbs)?;
    let dialing = Dialing { peer, limit, until: Instant::now() + limit, channel: &channel };
    let id = CmId::new(&channel)?;
    id.resolve_address(None, peer, limit)?;
    dialing.expect(EventKind::AddressResolved)?;
    // An iWARP device leaves this to TCP.
    let _ = id.set_ack_timeout(ACK_TIMEOUT);
    id.resolve_route(limit)?;
    dialing.expect(EventKind::RouteResolved)?;
    let context = id.context()?;
    let domain = ProtectionDomain::new(&context)?;
    let completions = CompletionQueue::new(&context, SEND_REQUESTS + 1)?;
    let make = |inline_len| {
        let limits = QueuePairLimits { send_requests: SEND_REQUESTS, receive_requests: 1, inline_len };
        id.create_queue_pair(&domain, &completions, &completions, limits)
    };
    let (first, rest) = INLINE_LENS.split_first().expect("there are some");
    let pair = rest.iter().fold(make(*first), |made, inline_len| made.or_else(|_| make(*inline_len)))?;
    let depths = Depths::of_device(&context.attributes()?);
    id.connect(ConnectionParameters::new(depths), &ticket.to_le_bytes())?;
    dialing.expect(EventKind::Established)?;
    Ok(Queue::new(pair, id))
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
