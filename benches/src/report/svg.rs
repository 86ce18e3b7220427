//! Line charts as SVG: just what the report's page needs.

use std::fmt::Write;

/// Size of a chart in its own units, and the room around the plot for axis labels.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 30.0;

/// One line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its colour, as CSS has it.
    pub color: &'static str,
    /// Whether it is dashed.
    pub dashed: bool,
    /// Its points, ordered by x.
    pub points: Vec<(f64, f64)>,
}

/// How an axis maps values to places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from 0.
    Linear,
    /// By powers of ten.
    Logarithmic,
}

/// An axis: the values at its ends, and its marks with their labels.
#[derive(Debug, Clone, PartialEq)]
struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
    marks: Vec<(f64, String)>,
}

impl Axis {
    /// For y: from 0 or a power of ten, up to the next round value above `highest`.
    fn over(scale: Scale, lowest: f64, highest: f64, label: impl Fn(f64) -> String) -> Self {
        match scale {
            Scale::Linear => {
                let step = round_step(highest.max(1.0) / 4.0);
                let count = (highest.max(1.0) / step).ceil() as u32;
                let marks = (0..=count).map(|i| (f64::from(i) * step, label(f64::from(i) * step))).collect();
                Self { scale, from: 0.0, to: f64::from(count) * step, marks }
            }
            Scale::Logarithmic => {
                let first = lowest.max(1.0).log10().floor() as i32;
                let last = (highest.max(1.0).log10().ceil() as i32).max(first + 1);
                let marks =
                    (first..=last).map(|power| (10_f64.powi(power), label(10_f64.powi(power)))).collect();
                Self { scale, from: 10_f64.powi(first), to: 10_f64.powi(last), marks }
            }
        }
    }

    /// Where `value` lies between the ends, 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let at = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.max(self.from).log10(),
        };
        ((at(value) - at(self.from)) / (at(self.to) - at(self.from))).clamp(0.0, 1.0)
    }
}

/// 1, 2 or 5 times a power of ten, the next at or above `least`.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|&step| step >= least)
        .unwrap_or(power)
}

/// A chart of `lines` over marks `x` (value and label, ordered); empty text if there is nothing to draw.
#[must_use]
pub fn chart(lines: &[Line], x: &[(f64, String)], y: Scale, y_label: impl Fn(f64) -> String) -> String {
    let heights = || lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let ([(left, _), ..], [.., (right, _)]) = (x, x) else { return String::new() };
    if heights().next().is_none() {
        return String::new();
    }
    let x_axis =
        Axis { scale: Scale::Linear, from: *left, to: right.max(left + f64::EPSILON), marks: x.to_vec() };
    let y_axis =
        Axis::over(y, heights().fold(f64::INFINITY, f64::min), heights().fold(0.0, f64::max), y_label);
    let x_at = |value: f64| LEFT + x_axis.place(value) * (WIDTH - LEFT - RIGHT);
    let y_at = |value: f64| HEIGHT - BOTTOM - y_axis.place(value) * (HEIGHT - TOP - BOTTOM);

    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n");
    for (value, label) in &y_axis.marks {
        let (y, text) = (y_at(*value), y_at(*value) + 4.0);
        let _ = writeln!(svg, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{}\"/>", WIDTH - RIGHT);
        let _ =
            writeln!(svg, "<text x=\"{}\" y=\"{text:.1}\" text-anchor=\"end\">{label}</text>", LEFT - 8.0);
    }
    for (value, label) in &x_axis.marks {
        let x = x_at(*value);
        let _ =
            writeln!(svg, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>", HEIGHT - 8.0);
    }
    for line in lines {
        let dash = if line.dashed { " stroke-dasharray=\"5 4\"" } else { "" };
        let places: Vec<String> =
            line.points.iter().map(|&(x, y)| format!("{:.1} {:.1}", x_at(x), y_at(y))).collect();
        let path = match &places[..] {
            [] => continue,
            // A line of one point would not be seen.
            [only] => format!("M{only}h0"),
            all => format!("M{}", all.join("L")),
        };
        let _ = writeln!(svg, "<path class=\"line\" stroke=\"{}\"{dash} d=\"{path}\"/>", line.color);
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(points: Vec<(f64, f64)>) -> Line {
        Line { name: "l".to_owned(), color: "red", dashed: false, points }
    }

    #[test]
    fn axes_end_on_round_values() {
        let linear = Axis::over(Scale::Linear, 3.0, 173_000.0, |value| value.to_string());
        assert_eq!((linear.to, linear.marks.len()), (200_000.0, 5));
        let logarithmic = Axis::over(Scale::Logarithmic, 312.0, 4_000_000.0, |value| value.to_string());
        assert_eq!((logarithmic.from, logarithmic.to, logarithmic.marks.len()), (100.0, 1e7, 6));
        assert_eq!(logarithmic.place(1e7), 1.0);
        assert!((logarithmic.place(1e4) - 0.4).abs() < 1e-9);
    }

    #[test]
    fn nothing_to_draw_is_no_chart() {
        let marks = [(0.0, "0".to_owned()), (1.0, "1".to_owned())];
        assert_eq!(chart(&[], &marks, Scale::Linear, |_| String::new()), "");
        assert_eq!(chart(&[line(Vec::new())], &marks, Scale::Linear, |_| String::new()), "");
    }

    proptest! {
        #[test]
        fn everything_lies_within_the_chart(
            points in prop::collection::vec((0.0..100.0_f64, 0.0..1e12_f64), 1..20),
            logarithmic in any::<bool>(),
        ) {
            let scale = if logarithmic { Scale::Logarithmic } else { Scale::Linear };
            let marks = [(0.0, "0".to_owned()), (100.0, "100".to_owned())];
            let svg = chart(&[line(points)], &marks, scale, |value| value.to_string());
            let path = svg.lines().find(|line| line.contains("class=\"line\"")).expect("a line");
            let data = path.split(" d=\"M").nth(1).and_then(|rest| rest.split('"').next()).expect("its points");
            for place in data.trim_end_matches("h0").split('L') {
                let (x, y) = place.split_once(' ').expect("two numbers");
                let (x, y): (f64, f64) = (x.parse().expect("a number"), y.parse().expect("a number"));
                prop_assert!((LEFT - 0.1..=WIDTH - RIGHT + 0.1).contains(&x));
                prop_assert!((TOP - 0.1..=HEIGHT - BOTTOM + 0.1).contains(&y));
            }
        }
    }
}
