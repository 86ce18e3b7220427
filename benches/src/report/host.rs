//! The machine that the load generator runs on.

use serde::{Deserialize, Serialize};

/// What a report says of the machine; "unknown" where `/proc` does not tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its processor.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Its kernel.
    pub kernel: String,
}

impl Host {
    /// This machine.
    #[must_use]
    pub fn this() -> Self {
        let line = |path| {
            let text = std::fs::read_to_string(path).ok()?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        let unknown = || "unknown".to_owned();
        Self {
            name: line("/proc/sys/kernel/hostname").unwrap_or_else(unknown),
            cpu: line("/proc/cpuinfo").as_deref().and_then(model).unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: line("/proc/sys/kernel/osrelease")
                .map_or_else(unknown, |release| format!("Linux {release}")),
        }
    }
}

/// The processor's name in `/proc/cpuinfo`: x86 says "model name", others differ.
fn model(cpuinfo: &str) -> Option<String> {
    ["model name", "Model", "cpu model", "Hardware"].into_iter().find_map(|wanted| {
        cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == wanted).then(|| value.trim().to_owned())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_named() {
        let cpuinfo = "processor\t: 0\nmodel\t\t: 1\nmodel name\t: AMD EPYC 9654\nflags\t: fpu\n";
        assert_eq!(model(cpuinfo).as_deref(), Some("AMD EPYC 9654"));
        assert_eq!(model("processor : 0\n"), None);
    }

    #[test]
    fn this_machine_has_a_name_and_cores() {
        let host = Host::this();
        assert!(!host.name.is_empty() && host.cores > 0);
    }
}
