//! The report as one HTML file without anything from elsewhere: the table, and for each phase its latency by
//! percentile and its operations by second.

use std::fmt::Write;

use super::{Outcome, table};
use crate::bench::measure::Phase;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 180.0;
/// Room for the labels at the left and below.
const LEFT: f64 = 60.0;
const BELOW: f64 = 24.0;
/// Points of the curve, in thousandths; the axis has equal steps for each further nine.
const QUANTILES: [(u64, &str); 8] = [
    (0, "0"),
    (250, "25 %"),
    (500, "50 %"),
    (750, "75 %"),
    (900, "90 %"),
    (990, "99 %"),
    (999, "99.9 %"),
    (1000, "100 %"),
];

const STYLE: &str = "body{font:14px sans-serif;margin:2em;max-width:72em}pre{background:#f4f4f4;padding:1em;\
overflow-x:auto}figure{display:inline-block;margin:.5em 1em .5em 0}figcaption{font-weight:bold}\
svg{background:#fafafa}.line{fill:none;stroke:#0a6;stroke-width:2}.bar{fill:#58a}.axis{stroke:#ccc}\
text{font:11px sans-serif;fill:#444}";

/// The whole file.
pub(crate) fn html(outcome: &Outcome) -> String {
    let title = escape(outcome.scenario);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>millpond bench \
         {title}</title><style>{STYLE}</style></head><body>\n<h1>millpond bench {title}</h1>\n\
         <pre>{}</pre>\n",
        escape(&table(outcome))
    );
    for phase in &outcome.phases {
        let name = escape(phase.name);
        let _ = writeln!(
            out,
            "<figure><figcaption>{name}: latency by percentile</figcaption>{}</figure>",
            curve(phase)
        );
        if phase.windows().len() > 2 {
            let _ = writeln!(
                out,
                "<figure><figcaption>{name}: operations by second</figcaption>{}</figure>",
                bars(phase)
            );
        }
    }
    out + "</body></html>\n"
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn svg(inside: &str) -> String {
    let (width, height) = (LEFT + WIDTH + 20.0, HEIGHT + BELOW + 10.0);
    format!("<svg width=\"{width}\" height=\"{height}\">{inside}</svg>")
}

fn label(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!("<text x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"{anchor}\">{text}</text>")
}

/// Latency, by powers of ten, over the percentiles.
fn curve(phase: &Phase) -> String {
    let times = &phase.tally.times;
    let points: Vec<(f64, &str)> = QUANTILES
        .iter()
        .map(|(per_mille, name)| (times.quantile_ns(*per_mille).max(1) as f64, *name))
        .collect();
    let lowest = points
        .iter()
        .map(|(ns, _)| ns.log10())
        .fold(f64::INFINITY, f64::min);
    let highest = points.iter().map(|(ns, _)| ns.log10()).fold(0.0, f64::max);
    let (lowest, highest) = (lowest.floor(), highest.ceil().max(lowest.floor() + 1.0));
    let y_of = |log: f64| 10.0 + HEIGHT * (highest - log) / (highest - lowest);
    let mut inside = String::new();
    let mut power = lowest;
    while power <= highest {
        let y = y_of(power);
        let _ = write!(
            inside,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>{}",
            LEFT + WIDTH,
            label(LEFT - 6.0, y + 4.0, "end", &time_text(10f64.powf(power)))
        );
        power += 1.0;
    }
    let mut line = String::new();
    for (at, (ns, name)) in points.iter().enumerate() {
        let x = LEFT + WIDTH * at as f64 / (points.len() - 1) as f64;
        let _ = write!(line, "{x:.1},{:.1} ", y_of(ns.log10()));
        inside += &label(x, HEIGHT + BELOW, "middle", name);
    }
    svg(&format!(
        "{inside}<polyline class=\"line\" points=\"{}\"/>",
        line.trim_end()
    ))
}

fn bars(phase: &Phase) -> String {
    let windows = phase.windows();
    let most = windows.iter().copied().max().unwrap_or(1).max(1);
    let step = WIDTH / windows.len() as f64;
    let mut inside = label(LEFT - 6.0, 14.0, "end", &most.to_string());
    inside += &label(LEFT - 6.0, HEIGHT + 10.0, "end", "0");
    inside += &label(LEFT, HEIGHT + BELOW, "start", "0 s");
    inside += &label(
        LEFT + WIDTH,
        HEIGHT + BELOW,
        "end",
        &format!("{} s", windows.len()),
    );
    for (at, count) in windows.iter().enumerate() {
        let height = HEIGHT * *count as f64 / most as f64;
        let _ = write!(
            inside,
            "<rect class=\"bar\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\"/>",
            LEFT + step * at as f64,
            10.0 + HEIGHT - height,
            (step - 1.0).max(0.5)
        );
    }
    svg(&inside)
}

/// A power of ten of nanoseconds.
fn time_text(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.0} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.0} ms", ns / 1e6),
        ns => format!("{:.0} s", ns / 1e9),
    }
}
