//! `farside stats`: the server's figures.

use super::{CommandError, session};
use crate::cli::Cli;
use crate::output;
use std::process::ExitCode;

pub(crate) fn run(cli: &Cli) -> Result<ExitCode, CommandError> {
    let mut session = session(cli)?;
    let mut statistics = session.server_stats()?;
    statistics.sort_by(|a, b| a.name.cmp(&b.name));
    let active = session.active().to_string();
    let rows = statistics.iter().map(|statistic| (statistic.name.as_str(), statistic.value.as_str()));
    if cli.json {
        let figures = rows.map(|(name, value)| (name.to_owned(), figure(value)));
        output::json(&figures.collect::<serde_json::Map<_, _>>())?;
    } else {
        output::line(output::table(std::iter::once(("transport", active.as_str())).chain(rows)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A number if it is one, else the text.
fn figure(value: &str) -> serde_json::Value {
    value.parse::<serde_json::Number>().map_or_else(|_| value.into(), serde_json::Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_numbers_in_json() {
        assert_eq!(figure("12"), serde_json::json!(12));
        assert_eq!(figure("0.5"), serde_json::json!(0.5));
        assert_eq!(figure("coherent"), serde_json::json!("coherent"));
        assert_eq!(figure("1.2.3"), serde_json::json!("1.2.3"));
    }
}
