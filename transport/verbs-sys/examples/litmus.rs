//! What Farside relies on of a verbs device, tried on this host's own: each address given, of a device's network
//! interface, is connected to itself, or, as `CLIENT,SERVER`, one to the other. Prints a table; exits with 1 if a
//! promise was broken.
//!
//! ```text
//! cargo build -p farside-verbs-sys --example litmus
//! tests/rdma-vm/run -- target/debug/examples/litmus 10.99.0.1 10.98.0.1
//! ```
//! Over a slow link that loses every hundredth packet:
//! ```text
//! tests/rdma-vm/run -- bash -c '. tests/rdma-vm/cross-link; tc qdisc add dev rxen root netem loss 1% delay 1ms
//!     target/debug/examples/litmus 10.99.0.1,10.99.0.2'
//! ```

use farside_verbs_sys::litmus::{Error, Litmus, Outcome};
use std::net::IpAddr;
use std::process::ExitCode;

/// How many promises are broken.
fn run(client: IpAddr, server: IpAddr) -> Result<usize, Error> {
    let litmus = Litmus::new(client, server)?;
    println!("{server}: {}", litmus.device()?);
    let tell = |outcome: Outcome| {
        println!("  {outcome}");
        outcome
    };
    Ok(litmus.outcomes().map(tell).filter(|outcome| outcome.result.is_err()).count())
}

/// `SERVER`, or `CLIENT,SERVER`.
fn ends(argument: &str) -> Option<(IpAddr, IpAddr)> {
    let (client, server) = argument.split_once(',').unwrap_or((argument, argument));
    Some((client.parse().ok()?, server.parse().ok()?))
}

fn main() -> ExitCode {
    let Some(pairs) = std::env::args().skip(1).map(|argument| ends(&argument)).collect::<Option<Vec<_>>>()
    else {
        eprintln!("usage: litmus [CLIENT,]SERVER ..., addresses of RDMA devices' interfaces");
        return ExitCode::from(2);
    };
    let mut broken = 0;
    for (client, server) in pairs {
        broken += run(client, server).unwrap_or_else(|error| {
            println!("{server}: BROKEN  {error}");
            1
        });
    }
    println!("{broken} broken");
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
