//! Facts and figures as text that Prometheus reads.

use farside_protocol::wire::Statistic;
use std::fmt::Write as _;

/// The content type of [`text`].
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the figures are, by the names they have without labels.
const HELP: &[(&str, &str)] = &[
    ("farside_uptime_seconds", "How long the server runs."),
    ("farside_shards", "Shards that the memory is divided into."),
    ("farside_quarantine_milliseconds", "How long a freed block rests before it is used again."),
    ("farside_generation", "How often the table was taken over by a server, and its making."),
    ("farside_recovered_keys", "Keys that this server found when it took the table over."),
    ("farside_recovered_damaged_total", "Keys that were lost by then because their record was damaged."),
    ("farside_keys", "Keys in the index."),
    ("farside_bytes_capacity", "Bytes for records."),
    ("farside_bytes_used", "Bytes of them that are not free."),
    ("farside_bytes_leased", "Bytes that clients hold to write records into."),
    ("farside_quarantined_bytes", "Bytes that were freed and still rest."),
    ("farside_slots", "Slots of the index; when six of ten hold a key it is as full as it was made for."),
    ("farside_sessions", "Clients by transport."),
    ("farside_sessions_silent", "Clients on this host that are silent for longer than their lease."),
    ("farside_connections", "Connections to the server."),
    ("farside_memory_windows", "Leased blocks that a client may WRITE into over RDMA."),
    (
        "farside_ops_total",
        "Requests that the server carried out; what clients do one-sidedly they count themselves.",
    ),
    ("farside_faults_total", "What went wrong, by kind."),
    (
        "farside_reports_ignored_total",
        "Blocks that clients reported and the server had no reason to believe.",
    ),
    ("farside_sweep_passes_total", "Walks over the index that upkeep made."),
    ("farside_sweep_expired_total", "Keys deleted because they had expired."),
    ("farside_sweep_forwarded_total", "Slots that upkeep brought forward."),
    ("farside_sweep_damaged_total", "Keys lost because their record was damaged."),
    ("farside_sweep_lost_blocks_total", "Blocks that nothing led to, found and freed."),
    (
        "farside_sweep_unsettled_slots_total",
        "Slots that changed too often for upkeep, left to its next walk.",
    ),
    ("farside_orphan_blocks_total", "Blocks of clients that ended, looked for and cleared away."),
    ("farside_cpu_microseconds_total", "Processor time of the server's threads."),
    ("farside_upkeep_cpu_microseconds_total", "Processor time of those of them that keep the table tidy."),
    (
        "farside_process_cpu_microseconds_total",
        "Processor time of the process, with all else that runs in it.",
    ),
];

/// The exposition of `statistics`. Figures keep their names; facts, which are words, become labels of `farside_info`.
pub(crate) fn text(statistics: &[Statistic]) -> String {
    let (figures, facts): (Vec<_>, Vec<_>) =
        statistics.iter().partition(|statistic| statistic.value.parse::<f64>().is_ok());
    let mut text = String::new();
    head(&mut text, "farside_info", "Facts about the server.");
    let label = |fact: &&Statistic| {
        let name = fact.name.strip_prefix("farside_").unwrap_or(&fact.name);
        format!("{name}=\"{}\"", escaped(&fact.value))
    };
    let labels: Vec<_> = facts.iter().map(label).collect();
    put(&mut text, format_args!("farside_info{{{}}} 1", labels.join(",")));
    let mut last = "";
    for Statistic { name, value } in figures {
        let family = name.split_once('{').map_or(&**name, |(family, _)| family);
        if family != last {
            let help =
                HELP.iter().find(|(of, _)| *of == family).map_or("A figure of the server.", |(_, help)| help);
            head(&mut text, family, help);
            last = family;
        }
        put(&mut text, format_args!("{name} {value}"));
    }
    text
}

fn head(text: &mut String, family: &str, help: &str) {
    let kind = if family.ends_with("_total") { "counter" } else { "gauge" };
    put(text, format_args!("# HELP {family} {help}\n# TYPE {family} {kind}"));
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("a string takes all");
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Socket};
    use crate::server::Server;
    use std::collections::BTreeSet;

    fn statistic(name: &str, value: &str) -> Statistic {
        Statistic { name: name.into(), value: value.into() }
    }

    #[test]
    fn figures_keep_their_names_and_facts_become_labels() {
        let text = text(&[
            statistic("farside_version", "0.1\"\\"),
            statistic("farside_keys", "7"),
            statistic("farside_faults_total{kind=\"a\"}", "1"),
            statistic("farside_faults_total{kind=\"b\"}", "2"),
        ]);
        assert_eq!(
            text,
            "# HELP farside_info Facts about the server.\n# TYPE farside_info gauge\n\
             farside_info{version=\"0.1\\\"\\\\\"} 1\n\
             # HELP farside_keys Keys in the index.\n# TYPE farside_keys gauge\nfarside_keys 7\n\
             # HELP farside_faults_total What went wrong, by kind.\n# TYPE farside_faults_total counter\n\
             farside_faults_total{kind=\"a\"} 1\nfarside_faults_total{kind=\"b\"} 2\n"
        );
    }

    /// No family is begun twice, and each is explained: the list above is as long as that of the figures.
    #[test]
    fn each_family_comes_once_and_is_explained() {
        let config = Config {
            listen: "127.0.0.1:0".parse().unwrap(),
            socket: Socket::Off,
            memory: Some(1 << 20),
            ..Config::default()
        };
        let running = Server::start(config).unwrap();
        let text = text(&running.stats());
        let helps: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# HELP ")).collect();
        let families: BTreeSet<_> = helps.iter().map(|help| help.split(' ').next()).collect();
        assert_eq!(families.len(), helps.len(), "{text}");
        assert!(!text.contains("A figure of the server."), "{text}");
    }
}
