//! The report of a check.

use std::io::{self, Write};

use format::object_type::ObjectType;
use serde_json::{Value, json};

use super::damage::Damage;
use crate::print::Numbers;
use crate::raw::RawPool;
use crate::verify::{BadCopy, Miscount, Report, Segment, Statistics, Totals};

/// So many problems of a kind are printed one by one.
pub(super) const LISTED_MAX: usize = 100;

fn ratio(dividend: u64, divisor: u64) -> f64 {
    if divisor == 0 {
        1.0
    } else {
        dividend as f64 / divisor as f64
    }
}

fn average(sum: u64, count: u64) -> u64 {
    sum.checked_div(count).unwrap_or(0)
}

/// Prints a report as `zdb -b` does.
pub(crate) fn print_report(out: &mut dyn Write, pool: &RawPool, report: &Report) -> io::Result<()> {
    print_problems(out, report)?;
    if !report.is_clean() {
        damage(report).print(out, pool)?;
    }
    writeln!(out)?;
    if report.leaks_checked {
        if report.space_matches() {
            writeln!(out, "\tNo leaks (block sum matches space maps exactly)")?;
        } else {
            let (found, allocated) = (report.referenced, report.allocated);
            let (sign, difference) = if allocated >= found {
                ("leaked", allocated.saturating_sub(found))
            } else {
                ("unreachable", found.saturating_sub(allocated))
            };
            writeln!(
                out,
                "block traversal size {found} != alloc {allocated} ({sign} {difference})"
            )?;
        }
        writeln!(out)?;
    }
    print_totals(out, report)
}

fn print_totals(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let statistics = &report.statistics;
    let total = statistics.total();
    let count = total.blocks;
    writeln!(out, "\tbp count:       {count:>15}")?;
    writeln!(out, "\tganged count:   {:>15}", total.gangs)?;
    writeln!(
        out,
        "\tbp logical:     {:>15}      avg: {:>6}",
        total.logical,
        average(total.logical, count)
    )?;
    for (name, sum) in [
        ("physical: ", total.physical),
        ("allocated:", total.allocated),
    ] {
        writeln!(
            out,
            "\tbp {name}   {sum:>15}      avg: {:>6}     compression: {:>6.2}",
            average(sum, count),
            ratio(total.logical, sum)
        )?;
    }
    let dedup = &statistics.dedup_again;
    writeln!(
        out,
        "\tbp deduped:     {:>15}    ref>1: {:>6}   deduplication: {:>6.2}",
        dedup.allocated,
        dedup.blocks,
        ratio(
            total.allocated,
            total.allocated.saturating_sub(dedup.allocated)
        )
    )?;
    let cloned = &statistics.cloned_again;
    writeln!(
        out,
        "\tbp cloned:      {:>15}    count: {:>6}",
        cloned.allocated, cloned.blocks
    )?;
    for class in &report.classes {
        let mut name = class.class.to_owned();
        name[..1].make_ascii_uppercase();
        let used = 100.0 * ratio(class.allocated, class.space.max(1));
        writeln!(
            out,
            "\t{:<17}{:>14}     used: {used:>5.2}%",
            name + " class",
            class.allocated
        )?;
    }
    writeln!(out)?;
    for (kind, count) in embedded(statistics) {
        writeln!(
            out,
            "\tadditional, non-pointer bps of type {kind}: {count:>10}"
        )?;
    }
    if total.close_copies > 0 {
        writeln!(out, "\tDittoed blocks on same vdev: {}", total.close_copies)?;
    }
    print_checked(out, report)
}

/// How much was checked, and how much is not there to be checked.
fn print_checked(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    if report.bytes_checked > 0 {
        writeln!(
            out,
            "\tchecksummed: {} bytes, every copy on every device",
            report.bytes_checked
        )?;
    }
    if report.bytes_missed > 0 {
        writeln!(
            out,
            "\tto be resilvered: {} bytes that devices missed",
            report.bytes_missed
        )?;
    }
    Ok(())
}

/// Embedded blocks by the kind of their payload; only data is ever met.
fn embedded(statistics: &Statistics) -> Vec<(u8, u64)> {
    let counts = statistics.embedded.values();
    let count = counts.fold(0, |sum: u64, count| sum.saturating_add(*count));
    if count == 0 {
        Vec::new()
    } else {
        vec![(0, count)]
    }
}

/// Every kind of problem, with how many there are and the first of them.
fn problems(report: &Report) -> Vec<Problems> {
    let placed = |what: &'static str, segments: &[Segment]| {
        Problems::of(what, segments, |segment| {
            let (vdev, offset, length) = (segment.vdev, segment.offset, segment.length);
            format!("{what}: vdev {vdev}, offset {offset:#x}, size {length}")
        })
    };
    vec![
        Problems::of("missing devices", &report.devices_missing, |path| {
            format!("device missing: {path}")
        }),
        Problems::of("unreadable blocks", &report.unreadable, Clone::clone),
        Problems::of("bad copies", &report.bad_copies, describe_bad_copy),
        Problems::of("faults in space maps", &report.map_faults, Clone::clone),
        Problems::of("misplaced blocks", &report.overlaps, |overlap| {
            format!(
                "{}: vdev {}, offset {:#x}, size {:#x}: {}",
                overlap.bookmark, overlap.vdev, overlap.offset, overlap.length, overlap.problem
            )
        }),
        placed("leaked space", &report.leaked),
        placed("space in use but free in the space maps", &report.missing),
        Problems::of(
            "wrong reference counts",
            &report.miscounts,
            describe_miscount,
        ),
    ]
}

fn damage(report: &Report) -> Damage {
    let counts = problems(report).into_iter().map(|kind| kind.count);
    let listed = counts.fold(0, usize::saturating_add);
    Damage::of(report, listed)
}

/// Problems of one kind.
struct Problems {
    what: &'static str,
    count: usize,
    listed: Vec<String>,
}

impl Problems {
    fn of<T>(what: &'static str, items: &[T], describe: impl Fn(&T) -> String) -> Self {
        Self {
            what,
            count: items.len(),
            listed: items.iter().take(LISTED_MAX).map(describe).collect(),
        }
    }
}

fn print_problems(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    for kind in problems(report) {
        for line in &kind.listed {
            writeln!(out, "{line}")?;
        }
        let more = kind.count.saturating_sub(kind.listed.len());
        if more > 0 {
            writeln!(out, "... and {more} more {}", kind.what)?;
        }
    }
    Ok(())
}

/// Prints a report as one JSON object.
pub(crate) fn print_report_json(
    out: &mut dyn Write,
    pool: &RawPool,
    report: &Report,
) -> io::Result<()> {
    let total = report.statistics.total();
    let kinds = problems(report).into_iter().filter(|kind| kind.count > 0);
    let kinds: Vec<Value> = kinds
        .map(|kind| json!({"kind": kind.what, "count": kind.count, "first": kind.listed}))
        .collect();
    let damage = damage(report);
    let document = json!({
        "output_version": {"command": "inspect", "vers_major": 0, "vers_minor": 1},
        "pool": pool.name,
        // As text: readers of JSON may keep 53 bits of a number only.
        "pool_guid": pool.guid.to_string(),
        "txg": pool.uberblock.txg.0,
        "newer_uberblocks_skipped": pool.uberblocks_skipped,
        "clean": report.is_clean(),
        "space_checked": report.leaks_checked,
        "space_matches": report.leaks_checked.then(|| report.space_matches()),
        "blocks": total.blocks,
        "logical_bytes": total.logical,
        "physical_bytes": total.physical,
        "allocated_bytes": total.allocated,
        "checksummed_bytes": report.bytes_checked,
        "blocks_lost": damage.all.lost,
        "blocks_repairable": damage.all.repairable,
        "objects_damaged": damage.objects.len(),
        "damaged": damage.json(pool),
        "problems": kinds,
    });
    writeln!(out, "{document:#}")
}

/// A wrong count in one line.
pub(crate) fn describe_miscount(miscount: &Miscount) -> String {
    format!(
        "{} table: vdev {}, offset {:#x}: {} references recorded, {} found",
        miscount.table, miscount.vdev, miscount.offset, miscount.expected, miscount.seen
    )
}

/// A bad copy in one line.
pub(crate) fn describe_bad_copy(copy: &BadCopy) -> String {
    let kind = copy.block.checksum().map_or("?", |kind| kind.name());
    let problem = copy
        .error
        .clone()
        .unwrap_or_else(|| format!("{kind} checksum mismatch"));
    let rest = if copy.repairable {
        "another copy is good"
    } else {
        "no copy is good"
    };
    let (place, device, offset) = (copy.bookmark, &copy.device, copy.offset);
    format!(
        "{place}: {device} (vdev {}) offset {offset:#x}: {problem}; {rest}",
        copy.vdev
    )
}

/// Prints counts and sizes by type, and by level when `levels`.
pub(crate) fn print_kinds(
    out: &mut dyn Write,
    statistics: &Statistics,
    numbers: Numbers,
    levels: bool,
) -> io::Result<()> {
    let all = statistics.total();
    writeln!(
        out,
        "\nBlocks\tLSIZE\tPSIZE\tASIZE\t  avg\t comp\t%Total\tType"
    )?;
    let mut types: Vec<u8> = statistics.by_kind.keys().map(|(kind, _)| *kind).collect();
    types.dedup();
    for kind in types {
        let name = ObjectType(kind).name();
        let rows: Vec<(u8, Totals)> = statistics
            .by_kind
            .range((kind, 0)..=(kind, u8::MAX))
            .map(|((_, level), totals)| (*level, *totals))
            .collect();
        if levels && rows.len() > 1 {
            for (level, totals) in rows.iter().rev() {
                row(out, totals, &all, numbers, &format!("    L{level} {name}"))?;
            }
        }
        row(
            out,
            &Statistics::sum(rows.iter().map(|(_, totals)| totals)),
            &all,
            numbers,
            name,
        )?;
    }
    if statistics.pending.blocks > 0 {
        row(out, &statistics.pending, &all, numbers, "deferred free")?;
    }
    row(out, &all, &all, numbers, "Total")?;
    let metadata = statistics
        .by_kind
        .iter()
        .filter(|((kind, level), _)| *level > 0 || ObjectType(*kind).is_metadata())
        .map(|(_, totals)| totals);
    row(
        out,
        &Statistics::sum(metadata),
        &all,
        numbers,
        "Metadata Total",
    )
}

fn row(
    out: &mut dyn Write,
    totals: &Totals,
    all: &Totals,
    numbers: Numbers,
    name: &str,
) -> io::Result<()> {
    writeln!(
        out,
        "{:>6}\t{:>5}\t{:>5}\t{:>5}\t{:>5}\t{:>5.2}\t{:>6.2}\t{name}",
        numbers.show(totals.blocks),
        numbers.show(totals.logical),
        numbers.show(totals.physical),
        numbers.show(totals.allocated),
        numbers.show(average(totals.allocated, totals.blocks)),
        ratio(totals.logical, totals.physical),
        100.0 * ratio(totals.allocated, all.allocated.max(1)),
    )
}
