//! What a client may set of its queue pairs. Both ends take these from it: a server answers with the traffic class that
//! it was asked in, and never sends first.

use super::choice::DeviceChoice;
use farside_verbs_sys::{QueuePairSettings, ack_deadline};
use std::time::Duration;

/// The longest that it may take until a dead peer ends an operation.
const DEADLINE_MAX: Duration = Duration::from_secs(10);

/// How a client's queue pairs are made.
///
/// The path MTU cannot be set: librdmacm takes it from the interface, or from the subnet manager. Nor can any GID: it
/// follows from the address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rdma {
    /// This host's device. `None`: the one by which the system reaches the server.
    pub device: Option<DeviceChoice>,
    /// The byte of DSCP and ECN bits on RoCE's packets, and on InfiniBand what the subnet manager makes a service
    /// level of; perftest's `-T`. `None`: the system's.
    pub type_of_service: Option<u8>,
    /// A lost packet is sent again after 4.096 us x 2^this, times up to four, 1 to 31; perftest's `-u`. Default: 14,
    /// perftest's. iWARP leaves this to TCP.
    pub ack_timeout: u8,
    /// How often a lost packet is sent again, at most 6. Default: 6. iWARP leaves this to TCP.
    pub retry_count: u8,
}

impl Default for Rdma {
    /// A dead peer is noticed within two seconds. librdmacm's own choice would stall for seconds on each lost packet; with
    /// less, a peer that is merely busy is asked twice, which a software device can take amiss.
    fn default() -> Self {
        Self { device: None, type_of_service: None, ack_timeout: 14, retry_count: 6 }
    }
}

/// Settings with which queue pairs would hang, or could not be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RdmaError {
    /// Not a timeout.
    #[error("an ack timeout of {0}: it must be 1 to 31, for 4.096 us x 2^it")]
    AckTimeout(u8),
    /// Too many retries.
    #[error("a retry count of {0}: it must be at most 6, for 7 may mean for ever")]
    RetryCount(u8),
    /// Both together take too long.
    #[error(
        "an ack timeout of {ack_timeout} with {retry_count} retries: a dead server would be noticed only after \
         {deadline:?}, and it must be within {DEADLINE_MAX:?}; lower one of them"
    )]
    Slow {
        /// The timeout.
        ack_timeout: u8,
        /// The retries.
        retry_count: u8,
        /// The longest it could take.
        deadline: Duration,
    },
}

impl Rdma {
    /// Fails unless queue pairs with these settings notice within ten seconds that a peer is gone.
    pub fn check(&self) -> Result<(), RdmaError> {
        let Self { ack_timeout, retry_count, .. } = *self;
        if !(1..=31).contains(&ack_timeout) {
            return Err(RdmaError::AckTimeout(ack_timeout));
        }
        let deadline = ack_deadline(ack_timeout, retry_count).ok_or(RdmaError::RetryCount(retry_count))?;
        if deadline > DEADLINE_MAX {
            return Err(RdmaError::Slow { ack_timeout, retry_count, deadline });
        }
        Ok(())
    }

    /// What of these a device has not taken over, as a list for people.
    pub(super) fn not_taken(&self, found: &QueuePairSettings) -> Vec<String> {
        let asked = [
            ("ack timeout", Some(self.ack_timeout), found.ack_timeout),
            ("retry count", Some(self.retry_count), found.retry_count),
            ("type of service", self.type_of_service, found.traffic_class),
        ];
        let missed = asked.into_iter().filter_map(|(name, asked, found)| {
            let asked = asked.filter(|&asked| asked != found)?;
            Some(format!("{name} {found}, not {asked}"))
        });
        missed.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farside_verbs_sys::QueuePairState;

    #[test]
    fn settings_that_would_hang_are_refused() {
        let with = |ack_timeout, retry_count| Rdma { ack_timeout, retry_count, ..Rdma::default() }.check();
        assert_eq!(Rdma::default().check(), Ok(()));
        assert_eq!(with(16, 6), Ok(()));
        assert_eq!(with(18, 0), Ok(()));
        assert_eq!(with(0, 6), Err(RdmaError::AckTimeout(0)));
        assert_eq!(with(32, 0), Err(RdmaError::AckTimeout(32)));
        assert_eq!(with(12, 7), Err(RdmaError::RetryCount(7)));
        assert!(matches!(with(18, 6), Err(RdmaError::Slow { .. })));
        assert!(matches!(with(31, 0), Err(RdmaError::Slow { .. })));
    }

    #[test]
    fn what_a_device_does_otherwise_is_told() {
        let asked = Rdma { type_of_service: Some(104), ..Rdma::default() };
        let mut found = QueuePairSettings {
            state: QueuePairState::ReadyToSend,
            peer: 17,
            ack_timeout: 14,
            retry_count: 6,
            rnr_retry_count: 6,
            initiator_depth: 16,
            responder_resources: 16,
            mtu: 1024,
            gid_index: 1,
            traffic_class: 104,
        };
        assert!(asked.not_taken(&found).is_empty());
        (found.ack_timeout, found.traffic_class) = (19, 0);
        assert_eq!(asked.not_taken(&found), ["ack timeout 19, not 14", "type of service 0, not 104"]);
        assert_eq!(Rdma::default().not_taken(&found).len(), 1);
    }
}
