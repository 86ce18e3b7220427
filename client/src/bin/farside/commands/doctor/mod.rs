//! `farside doctor`: what this host can do, and what to do about the rest.

mod devices;
mod litmus;
mod memlock;
mod rdma;
mod shared_memory;

use super::{CommandError, connect};
use crate::cli::{Cli, Doctor};
use crate::output;
use serde::Serialize;
use std::process::ExitCode;

/// How a check came out.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// As it should be.
    Ok,
    /// Works without, or not needed by this build.
    Note,
    /// Something is here and would not work, or not well; other transports do.
    Warn,
    /// This build needs it.
    Fail,
}

#[derive(Serialize, Debug)]
struct Check {
    name: &'static str,
    verdict: Verdict,
    found: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Check {
    fn new(name: &'static str, verdict: Verdict, found: impl Into<String>, remedy: Option<String>) -> Self {
        Self { name, verdict, found: found.into(), details: Vec::new(), remedy }
    }

    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self::new(name, Verdict::Ok, found, None)
    }

    fn note(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(name, Verdict::Note, found, Some(remedy.into()))
    }

    fn warn(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(name, Verdict::Warn, found, Some(remedy.into()))
    }

    fn fail(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(name, Verdict::Fail, found, Some(remedy.into()))
    }

    fn with_details(self, details: Vec<String>) -> Self {
        Self { details, ..self }
    }

    fn is_ok(&self) -> bool {
        self.verdict == Verdict::Ok
    }
}

#[derive(Serialize)]
struct Report {
    ok: bool,
    checks: Vec<Check>,
    rdma: rdma::Facts,
}

pub(crate) fn run(cli: &Cli, doctor: &Doctor) -> Result<ExitCode, CommandError> {
    match doctor.litmus {
        Some(address) => litmus::run(address, cli.json),
        None => examine(cli),
    }
}

fn examine(cli: &Cli) -> Result<ExitCode, CommandError> {
    let mut checks = vec![
        Check::ok("build", concat!("farside ", env!("CARGO_PKG_VERSION"), ", transports shm, verbs and tcp")),
        host(),
    ];
    checks.extend(shared_memory::checks());
    let (of_rdma, rdma) = rdma::checks();
    checks.extend(of_rdma);
    checks.push(server(cli));
    let ok = checks.iter().all(|check| check.verdict != Verdict::Fail);
    let report = Report { ok, checks, rdma };
    if cli.json {
        output::json(&report)?;
    } else {
        output::line(text(&report))?;
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn text(report: &Report) -> String {
    let width = report.checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for Check { name, verdict, found, details, remedy } in &report.checks {
        let verdict = match verdict {
            Verdict::Ok => "ok  ",
            Verdict::Note => "note",
            Verdict::Warn => "warn",
            Verdict::Fail => "FAIL",
        };
        lines.push(format!("{verdict}  {name:width$}  {found}"));
        lines.extend(details.iter().map(|detail| format!("      {:width$}  {detail}", "")));
        lines.extend(remedy.iter().map(|remedy| format!("      {:width$}  -> {remedy}", "")));
    }
    lines.push(match (report.ok, report.rdma.choice()) {
        (true, None) => "This host can run Farside over shm and tcp.".into(),
        (true, Some(choice)) => format!("This host can run Farside over shm, verbs ({choice}) and tcp."),
        (false, _) => "This host cannot run all that this build has; see the lines marked FAIL.".to_owned(),
    });
    lines.join("\n")
}

fn host() -> Check {
    let system = rustix::system::uname();
    let (name, release) = (system.sysname().to_string_lossy(), system.release().to_string_lossy());
    let machine = system.machine().to_string_lossy();
    Check::ok("host", format!("{name} {release} {machine}"))
}

fn server(cli: &Cli) -> Check {
    match connect(cli) {
        Ok(client) => Check::ok("server", client.active().to_string()),
        Err(error) => Check::note("server", error.to_string(), "to have one here, run `farside-server`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_fails_only_by_what_this_build_needs() {
        let line = |ok, check| text(&Report { ok, checks: vec![check], rdma: rdma::Facts::default() });
        let noted = line(true, Check::note("huge pages", "none reserved", "sysctl vm.nr_hugepages=512"));
        assert_eq!(
            noted,
            "note  huge pages  none reserved\n                  -> sysctl vm.nr_hugepages=512\n\
             This host can run Farside over shm and tcp."
        );
        let detailed = Check::ok("a", "b").with_details(vec!["c".into()]);
        assert!(line(true, detailed).starts_with("ok    a  b\n         c\n"));
        assert!(line(false, Check::fail("memfd", "refused", "ask")).starts_with("FAIL  memfd  refused"));
    }
}
