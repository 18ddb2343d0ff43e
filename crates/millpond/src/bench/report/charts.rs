//! Charts as SVG: latency by percentile, operations by second. They are as wide as the page.

use std::fmt::Write;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 260.0;
/// Room for the labels at the left and below.
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const BELOW: f64 = 24.0;
/// Points of the curve, in thousandths; the axis has equal steps for each further nine.
pub(crate) const QUANTILES: [(u64, &str); 8] = [
    (0, "0"),
    (250, "25 %"),
    (500, "50 %"),
    (750, "75 %"),
    (900, "90 %"),
    (990, "99 %"),
    (999, "99.9 %"),
    (1000, "100 %"),
];
/// Of one run after another; then from the first again.
pub(crate) const COLOURS: [&str; 6] = [
    "#00aa66", "#3b6ea8", "#b5651d", "#8a3ba8", "#aa0033", "#8a8a8a",
];

pub(crate) fn colour(run: usize) -> &'static str {
    COLOURS
        .get(run % COLOURS.len())
        .copied()
        .unwrap_or("#000000")
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn svg(inside: &str) -> String {
    let (width, height) = (LEFT + WIDTH + RIGHT, HEIGHT + BELOW + 10.0);
    format!("<svg viewBox=\"0 0 {width} {height}\">{inside}</svg>")
}

fn label(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!("<text x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"{anchor}\">{text}</text>")
}

/// Latencies in nanoseconds at each of [`QUANTILES`], of each run, on a scale of powers of ten.
pub(crate) fn curves(runs: &[Vec<f64>]) -> String {
    let logs = || runs.iter().flatten().map(|ns| ns.max(1.0).log10());
    let lowest = logs()
        .fold(f64::INFINITY, f64::min)
        .clamp(0.0, 20.0)
        .floor();
    let highest = logs()
        .fold(0.0, f64::max)
        .clamp(0.0, 20.0)
        .ceil()
        .max(lowest + 1.0);
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
    let x_of = |at: usize| LEFT + WIDTH * at as f64 / (QUANTILES.len() - 1) as f64;
    for (at, (_, name)) in QUANTILES.iter().enumerate() {
        inside += &label(x_of(at), HEIGHT + BELOW, "middle", name);
    }
    for (run, points) in runs.iter().enumerate() {
        let mut line = String::new();
        for (at, ns) in points.iter().enumerate().take(QUANTILES.len()) {
            let _ = write!(line, "{:.1},{:.1} ", x_of(at), y_of(ns.max(1.0).log10()));
        }
        let _ = write!(
            inside,
            "<polyline class=\"line\" stroke=\"{}\" points=\"{}\"/>",
            colour(run),
            line.trim_end()
        );
    }
    svg(&inside)
}

/// Operations that ended in each second.
pub(crate) fn bars(windows: &[u64], run: usize) -> String {
    let most = windows.iter().copied().max().unwrap_or(1).max(1);
    let step = WIDTH / windows.len().max(1) as f64;
    let mut inside = label(LEFT - 6.0, 14.0, "end", &most.to_string());
    inside += &label(LEFT - 6.0, HEIGHT + 10.0, "end", "0");
    inside += &label(LEFT, HEIGHT + BELOW, "start", "0 s");
    let end = format!("{} s", windows.len());
    inside += &label(LEFT + WIDTH, HEIGHT + BELOW, "end", &end);
    for (at, count) in windows.iter().enumerate() {
        let height = HEIGHT * *count as f64 / most as f64;
        let _ = write!(
            inside,
            "<rect fill=\"{}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\"/>",
            colour(run),
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
