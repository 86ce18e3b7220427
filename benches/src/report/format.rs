//! Numbers for people.

/// A latency with three digits and its unit: `812ns`, `1.23µs`, `45.6ms`.
#[must_use]
pub fn latency(nanoseconds: f64) -> String {
    let (mut value, mut unit) = (nanoseconds, "ns");
    for larger in ["µs", "ms", "s"] {
        // 999.5 would be rounded to the four digits of 1000.
        if value < 999.5 {
            break;
        }
        (value, unit) = (value / 1000.0, larger);
    }
    let digits = match value {
        _ if unit == "ns" => 0,
        99.95.. => 0,
        9.995.. => 1,
        _ => 2,
    };
    format!("{value:.digits$}{unit}")
}

/// A count: in full with separators below a million, then `1.235M`, `12.35M` and so on: seven characters at most.
#[must_use]
pub fn count(number: u64) -> String {
    let (mut value, mut unit) = (number as f64, "");
    for larger in ["k", "M", "G", "T"] {
        // 9995 would be rounded to the five digits of 10.000.
        if number < 1_000_000 || value < 999.95 {
            break;
        }
        (value, unit) = (value / 1000.0, larger);
    }
    let digits = match value {
        _ if unit.is_empty() => return grouped(number),
        99.995.. => 1,
        9.9995.. => 2,
        _ => 3,
    };
    format!("{value:.digits$}{unit}")
}

/// A whole number with separators: `1,234,567`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A figure per operation: four decimals where that is not noise.
#[must_use]
pub fn per_operation(total: u64, operations: u64) -> String {
    match (total, operations) {
        (0, _) | (_, 0) => "0".to_owned(),
        _ => {
            let each = total as f64 / operations as f64;
            let decimals = if each >= 100.0 { 1 } else { 4 };
            format!("{each:.decimals$}")
        }
    }
}

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Lines of cells, each column as wide as its widest cell, two blanks between columns.
#[must_use]
pub fn aligned(rows: &[Vec<String>], aligns: &[Align]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..aligns.len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(aligns)
            .zip(&widths)
            .map(|((cell, align), width)| match align {
                Align::Left => format!("{cell:<width$}"),
                Align::Right => format!("{cell:>width$}"),
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_have_three_digits() {
        for (nanoseconds, text) in [
            (0.0, "0ns"),
            (812.4, "812ns"),
            (999.6, "1.00µs"),
            (1234.0, "1.23µs"),
            (9_996.0, "10.0µs"),
            (45_600.0, "45.6µs"),
            (99_960.0, "100µs"),
            (999_600.0, "1.00ms"),
            (2.5e9, "2.50s"),
            (1.2e12, "1200s"),
        ] {
            assert_eq!(latency(nanoseconds), text);
        }
    }

    #[test]
    fn counts_are_grouped_and_then_shortened() {
        assert_eq!([count(0), count(999), count(1000), count(999_999)], ["0", "999", "1,000", "999,999"]);
        assert_eq!([count(1_000_000), count(1_234_567), count(9_999_999)], ["1.000M", "1.235M", "10.00M"]);
        assert_eq!([count(123_456_789), count(999_960_000)], ["123.5M", "1.000G"]);
        assert_eq!(grouped(1_234_567_890), "1,234,567,890");
    }

    #[test]
    fn figures_per_operation_show_small_shares() {
        assert_eq!([per_operation(0, 5), per_operation(1, 0), per_operation(3, 3)], ["0", "0", "1.0000"]);
        assert_eq!([per_operation(10_023, 10_000), per_operation(1_234_560, 1000)], ["1.0023", "1234.6"]);
    }

    #[test]
    fn columns_line_up() {
        let rows = [vec!["a".to_owned(), "1".to_owned()], vec!["bcd".to_owned(), "12µ".to_owned()]];
        assert_eq!(aligned(&rows, &[Align::Left, Align::Right]), "a      1\nbcd  12µ\n");
    }
}
