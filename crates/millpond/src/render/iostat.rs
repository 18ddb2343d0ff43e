//! `zpool iostat`.

use admin::{ClassIo, Distribution, IoReport, LeafIo, VdevClass, VdevNaming, VdevReport, human};

use super::Style;
use super::tree::{GROUPS, lines};

#[cfg(test)]
mod tests;

/// What `zpool iostat` shows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IoLayout {
    /// Tabs, exact numbers.
    pub(crate) style: Style,
    /// The vdevs too (`-v`).
    pub(crate) vdevs: bool,
    /// Average latencies (`-l`).
    pub(crate) latency: bool,
    /// Queues (`-q`).
    pub(crate) queues: bool,
    /// Histograms instead.
    pub(crate) histogram: Option<IoHistogram>,
    /// How vdevs are named.
    pub(crate) naming: VdevNaming,
}

/// Which histograms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IoHistogram {
    /// Of latencies (`-w`).
    Latency,
    /// Of request sizes (`-r`).
    Size,
}

/// The text in two parts, for a header need not be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IoTable {
    /// Three lines; empty for scripts and for histograms, which have one each.
    pub(crate) header: String,
    /// The figures.
    pub(crate) body: String,
}

/// A title over some columns.
struct Group {
    title: &'static str,
    columns: &'static [&'static str],
}

const fn group(title: &'static str, columns: &'static [&'static str]) -> Group {
    Group { title, columns }
}

const READ_WRITE: &[&str] = &["read", "write"];
const PENDING: &[&str] = &["pend", "activ"];
const SIZES: &[&str] = &["ind", "agg"];
const WAIT: &[&str] = &["wait"];

const ALWAYS: [Group; 3] = [
    group("capacity", &["alloc", "free"]),
    group("operations", READ_WRITE),
    group("bandwidth", READ_WRITE),
];
const LATENCY: [Group; 7] = [
    group("total_wait", READ_WRITE),
    group("disk_wait", READ_WRITE),
    group("syncq_wait", READ_WRITE),
    group("asyncq_wait", READ_WRITE),
    group("scrub", WAIT),
    group("trim", WAIT),
    group("rebuild", WAIT),
];
const QUEUES: [Group; 7] = [
    group("syncq_read", PENDING),
    group("syncq_write", PENDING),
    group("asyncq_read", PENDING),
    group("asyncq_write", PENDING),
    group("scrubq_read", PENDING),
    group("trimq_write", PENDING),
    group("rebuildq_write", PENDING),
];
const LATENCY_HISTOGRAM: [Group; 7] = [
    group("total_wait", READ_WRITE),
    group("disk_wait", READ_WRITE),
    group("syncq_wait", READ_WRITE),
    group("asyncq_wait", READ_WRITE),
    group("", &["scrub"]),
    group("", &["trim"]),
    group("", &["rebuild"]),
];
const SIZE_HISTOGRAM: [Group; 7] = [
    group("sync_read", SIZES),
    group("sync_write", SIZES),
    group("async_read", SIZES),
    group("async_write", SIZES),
    group("scrub", SIZES),
    group("trim", SIZES),
    group("rebuild", SIZES),
];

/// Rows of the latency histogram: 1 ns to 137 s.
const LATENCY_ROWS: usize = 37;
/// Rows of the size histogram: 512 bytes to 16 MiB.
const SIZE_ROWS: usize = 16;
/// The bucket of 512 bytes.
const SIZE_FIRST: usize = 10;
const NAME_WIDTH_MIN: usize = 10;
const WIDTH_MIN: usize = 5;

enum Row {
    Cells(String, Vec<String>),
    Rule,
}

/// The table of some pools. Every report is about the time its `uptime_ns` says.
#[must_use]
pub(crate) fn iostat(reports: &[IoReport], layout: IoLayout) -> IoTable {
    if let Some(kind) = layout.histogram {
        let texts = reports
            .iter()
            .map(|report| histograms(report, kind, layout));
        return IoTable {
            header: String::new(),
            body: texts.collect(),
        };
    }
    let mut groups: Vec<&Group> = ALWAYS.iter().collect();
    if layout.latency {
        groups.extend(&LATENCY);
    }
    if layout.queues {
        groups.extend(&QUEUES);
    }
    let mut rows = Vec::new();
    for report in reports {
        pool_rows(report, layout, &mut rows);
        if layout.vdevs {
            rows.push(Row::Rule);
        }
    }
    if reports.len() > 1 && !layout.vdevs {
        rows.push(Row::Rule);
    }
    let grid = Grid::new(&groups, &rows);
    IoTable {
        header: if layout.style.scripted {
            String::new()
        } else {
            grid.header(&groups, ["", "pool"])
        },
        body: grid.body(&rows, layout.style),
    }
}

/// Where columns stand.
struct Grid {
    name: usize,
    columns: Vec<usize>,
}

impl Grid {
    fn new(groups: &[&Group], rows: &[Row]) -> Self {
        let count = groups.iter().map(|group| group.columns.len()).sum();
        let mut grid = Self {
            name: NAME_WIDTH_MIN,
            columns: vec![WIDTH_MIN; count],
        };
        for row in rows {
            if let Row::Cells(name, cells) = row {
                grid.name = grid.name.max(name.chars().count());
                for (width, cell) in grid.columns.iter_mut().zip(cells) {
                    *width = (*width).max(cell.len());
                }
            }
        }
        grid
    }

    fn rule(&self) -> String {
        let dashes = self.columns.iter().map(|width| "-".repeat(*width));
        let all: Vec<String> = std::iter::once("-".repeat(self.name))
            .chain(dashes)
            .collect();
        all.join("  ") + "\n"
    }

    fn header(&self, groups: &[&Group], names: [&str; 2]) -> String {
        let mut first = format!("{:<1$}", names[0], self.name);
        let mut second = format!("{:<1$}", names[1], self.name);
        let mut widths = self.columns.iter();
        for group in groups {
            let mut room = 0;
            for title in group.columns {
                let width = *widths.next().unwrap_or(&WIDTH_MIN);
                room += width + 2;
                second += &format!("  {title:>width$}");
            }
            let room = room - 2;
            let space = room.saturating_sub(group.title.len());
            let left = space.div_ceil(2);
            first += &format!(
                "  {}{}{}",
                " ".repeat(left),
                group.title,
                " ".repeat(space - left)
            );
        }
        format!("{first}\n{second}\n{}", self.rule())
    }

    fn body(&self, rows: &[Row], style: Style) -> String {
        let mut out = String::new();
        for row in rows {
            match row {
                Row::Rule if style.scripted => {}
                Row::Rule => out += &self.rule(),
                Row::Cells(name, cells) if style.scripted => {
                    out += &format!("{}\t{}\n", name.trim_start(), cells.join("\t"));
                }
                Row::Cells(name, cells) => {
                    out += &format!("{name:<width$}", width = self.name);
                    for (cell, width) in cells.iter().zip(&self.columns) {
                        out += &format!("  {cell:>width$}");
                    }
                    out.push('\n');
                }
            }
        }
        out
    }
}

fn pool_rows(report: &IoReport, layout: IoLayout, rows: &mut Vec<Row>) {
    let space = Some((
        report.allocated,
        report.size.saturating_sub(report.allocated),
    ));
    let io = whole(&report.vdevs, report);
    let pool = cells(&io, space, report.uptime_ns, layout);
    let columns = pool.len();
    rows.push(Row::Cells(report.name.clone(), pool));
    if !layout.vdevs {
        return;
    }
    let heads = std::iter::once((VdevClass::Normal, "")).chain(GROUPS);
    for (class, head) in heads {
        let group = lines(&report.vdevs, class);
        if group.is_empty() {
            continue;
        }
        if !head.is_empty() && !layout.style.scripted {
            let dashes = vec!["-".to_owned(); columns];
            rows.push(Row::Cells(head.trim_end().to_owned(), dashes));
        }
        for line in group {
            let vdev = line.vdev;
            let space = vdev
                .allocated
                .filter(|_| line.depth == 1)
                .map(|used| (used, vdev.size.saturating_sub(used)));
            let name = "  ".repeat(line.depth) + &layout.naming.name(vdev);
            let io = of_vdev(vdev, report);
            rows.push(Row::Cells(
                name,
                cells(&io, space, report.uptime_ns, layout),
            ));
        }
    }
}

/// What some vdevs did together.
fn whole(vdevs: &[VdevReport], report: &IoReport) -> LeafIo {
    let mut sum = LeafIo::default();
    for vdev in vdevs {
        sum.add(&of_vdev(vdev, report));
    }
    sum
}

/// What a vdev did: what its devices did together, as OpenZFS counts.
fn of_vdev(vdev: &VdevReport, report: &IoReport) -> LeafIo {
    if vdev.children.is_empty() {
        let leaf = report.leaves.iter().find(|(guid, _)| *guid == vdev.guid);
        return leaf.map_or_else(LeafIo::default, |(_, io)| io.clone());
    }
    whole(&vdev.children, report)
}

fn cells(io: &LeafIo, space: Option<(u64, u64)>, time_ns: u64, layout: IoLayout) -> Vec<String> {
    let exact = layout.style.exact;
    let number = |value: u64| {
        if exact {
            value.to_string()
        } else {
            human(value)
        }
    };
    let dash = || "-".to_owned();
    let rate = |amount: u64| number(per_second(amount, time_ns));
    let mut out = vec![
        space.map_or_else(dash, |(used, _)| number(used)),
        space.map_or_else(dash, |(_, free)| number(free)),
    ];
    let reads = [&io.sync_read, &io.async_read, &io.scan];
    let writes = [&io.sync_write, &io.async_write];
    let operations = |classes: &[&ClassIo]| classes.iter().map(|class| class.operations()).sum();
    let bytes = |classes: &[&ClassIo]| classes.iter().map(|class| class.bytes).sum();
    out.extend([operations(&reads), operations(&writes)].map(rate));
    out.extend([bytes(&reads), bytes(&writes)].map(rate));
    if layout.latency {
        let waits = wait_distributions(io);
        out.extend(waits.iter().map(|wait| average(wait, exact)));
    }
    if layout.queues {
        for class in classes(io) {
            out.extend([class.pending, class.active].map(number));
        }
        // Rebuilding is done by class `scan`.
        out.extend([number(0), number(0)]);
    }
    out
}

/// The columns of `-l` and `-w`.
fn wait_distributions(io: &LeafIo) -> [Distribution; 11] {
    let joined = |classes: &[&ClassIo], which: fn(&ClassIo) -> &Distribution| {
        let mut sum = Distribution::default().whole();
        for class in classes {
            sum.merge(&which(class).whole());
        }
        Distribution::from(&sum)
    };
    let reads = [&io.sync_read, &io.async_read, &io.scan];
    let writes = [&io.sync_write, &io.async_write];
    [
        joined(&reads, |class| &class.total_ns),
        joined(&writes, |class| &class.total_ns),
        joined(&reads, |class| &class.disk_ns),
        joined(&writes, |class| &class.disk_ns),
        io.sync_read.queue_ns.clone(),
        io.sync_write.queue_ns.clone(),
        io.async_read.queue_ns.clone(),
        io.async_write.queue_ns.clone(),
        io.scan.queue_ns.clone(),
        io.trim.queue_ns.clone(),
        Distribution::default(),
    ]
}

fn per_second(amount: u64, time_ns: u64) -> u64 {
    let scaled = u128::from(amount) * 1_000_000_000 / u128::from(time_ns.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

fn average(wait: &Distribution, exact: bool) -> String {
    let mean = wait.whole().mean();
    match mean {
        _ if exact => mean.to_string(),
        0 => "-".to_owned(),
        _ => time_text(mean),
    }
}

/// A time in its largest unit, cut off: `999ns`, `16us`, `137s`.
fn time_text(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns}ns"),
        1_000..1_000_000 => format!("{}us", ns / 1_000),
        1_000_000..1_000_000_000 => format!("{}ms", ns / 1_000_000),
        _ => format!("{}s", ns / 1_000_000_000),
    }
}

fn histograms(report: &IoReport, kind: IoHistogram, layout: IoLayout) -> String {
    let mut out = histogram(&report.name, &whole(&report.vdevs, report), kind, layout);
    if layout.vdevs {
        let heads = std::iter::once((VdevClass::Normal, "")).chain(GROUPS);
        for line in heads.flat_map(|(class, _)| lines(&report.vdevs, class)) {
            let name = layout.naming.name(line.vdev);
            out += &histogram(&name, &of_vdev(line.vdev, report), kind, layout);
        }
    }
    out
}

fn histogram(name: &str, io: &LeafIo, kind: IoHistogram, layout: IoLayout) -> String {
    let (groups, what, columns, first, count): (_, _, Vec<Distribution>, _, _) = match kind {
        IoHistogram::Latency => (
            &LATENCY_HISTOGRAM,
            "latency",
            wait_distributions(io).to_vec(),
            1,
            LATENCY_ROWS,
        ),
        IoHistogram::Size => (
            &SIZE_HISTOGRAM,
            "req_size",
            size_distributions(io),
            SIZE_FIRST,
            SIZE_ROWS,
        ),
    };
    let columns: Vec<_> = columns.iter().map(Distribution::whole).collect();
    let rows: Vec<Row> = (0..count)
        .map(|row| {
            let bucket = first + row;
            let label = match kind {
                _ if layout.style.exact && kind == IoHistogram::Size => {
                    (1u64 << (bucket - 1)).to_string()
                }
                IoHistogram::Size => human(1 << (bucket - 1)),
                IoHistogram::Latency if layout.style.exact => ((1u64 << bucket) - 1).to_string(),
                IoHistogram::Latency => time_text((1 << bucket) - 1),
            };
            let cells = columns.iter().map(|found| {
                // What is beyond the table belongs to its ends.
                let from = if row == 0 { 0 } else { bucket };
                let to = if row + 1 == count {
                    found.buckets.len()
                } else {
                    bucket + 1
                };
                let buckets = found.buckets.get(from..to).unwrap_or_default();
                let sum: u64 = buckets.iter().sum();
                if layout.style.exact {
                    sum.to_string()
                } else {
                    human(sum)
                }
            });
            Row::Cells(label, cells.collect())
        })
        .collect();
    let groups: Vec<&Group> = groups.iter().collect();
    let mut grid = Grid::new(&groups, &rows);
    grid.name = grid.name.max(name.chars().count());
    let body = grid.body(&rows, layout.style);
    if layout.style.scripted {
        return format!("{name}\n{body}\n");
    }
    let width = grid.rule().trim_end().len();
    format!(
        "{}{body}{}\n",
        grid.header(&groups, [name, what]),
        "-".repeat(width)
    )
}

/// The columns of `-r`.
fn size_distributions(io: &LeafIo) -> Vec<Distribution> {
    let mut out = Vec::new();
    // Rebuilding is done by class `scan`.
    for class in classes(io).into_iter().chain([&ClassIo::default()]) {
        out.extend([class.single_bytes.clone(), class.merged_bytes.clone()]);
    }
    out
}

/// The classes in the order of the columns.
fn classes(io: &LeafIo) -> [&ClassIo; 6] {
    [
        &io.sync_read,
        &io.sync_write,
        &io.async_read,
        &io.async_write,
        &io.scan,
        &io.trim,
    ]
}
