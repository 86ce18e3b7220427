//! `farside doctor --litmus`: what the table relies on, tried on a device.

use super::super::CommandError;
use crate::output;
use farside_transport::verbs::sys::litmus::Litmus;
use farside_transport::verbs::{Found, inventory};
use serde::Serialize;
use std::net::IpAddr;
use std::process::ExitCode;

#[derive(Serialize)]
struct Tried {
    address: IpAddr,
    device: String,
    promises: Vec<Promise>,
}

#[derive(Serialize)]
struct Promise {
    promise: &'static str,
    holds: bool,
    seen: String,
    milliseconds: u128,
}

/// Connects the device of `address`, or each that can be used, to itself. Exit code 1: a promise is broken.
pub(super) fn run(address: Option<IpAddr>, json: bool) -> Result<ExitCode, CommandError> {
    let failed = |error: &dyn std::fmt::Display| CommandError::Litmus(error.to_string());
    let addresses = match address {
        Some(address) => vec![address],
        None => usable(&inventory().map_err(|error| failed(&error))?),
    };
    if addresses.is_empty() {
        return Err(failed(
            &"no RDMA device has an active port with an IP address; `farside doctor` says why",
        ));
    }
    let mut broken = 0;
    for address in addresses {
        let litmus = Litmus::new(address, address).map_err(|error| failed(&format!("{address}: {error}")))?;
        let mut tried =
            Tried { address, device: litmus.device().map_err(|error| failed(&error))?, promises: Vec::new() };
        if !json {
            output::line(format!("{address}: {}", tried.device))?;
        }
        for outcome in litmus.outcomes() {
            if !json {
                output::line(format!("  {outcome}"))?;
            }
            broken += usize::from(outcome.result.is_err());
            tried.promises.push(Promise {
                promise: outcome.promise,
                holds: outcome.result.is_ok(),
                milliseconds: outcome.took.as_millis(),
                seen: outcome.result.unwrap_or_else(|broken| broken),
            });
        }
        if json {
            output::json(&tried)?;
        }
    }
    if !json {
        output::line(match broken {
            0 => "Every promise holds.".into(),
            broken => format!("{broken} BROKEN: do not use this device for Farside, and please report it."),
        })?;
    }
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The address of each port that can be used.
fn usable(found: &[Found]) -> Vec<IpAddr> {
    let ports = found.iter().filter_map(|found| found.facts.as_ref().ok()).flat_map(|device| &device.ports);
    ports.filter(|port| port.is_active()).filter_map(|port| Some(port.way()?.address)).collect()
}
