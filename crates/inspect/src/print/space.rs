//! Metaslabs, their space maps, and the logs of these.

use std::io::Write;

use format::space_map::{Action, SpaceMapPhys};

use crate::error::Result;
use crate::print::Numbers;
use crate::raw::{RawObject, RawPool};
use crate::verify::{TopSpace, for_each_entry, log_maps};

/// At these levels of detail the following comes in.
const LEVEL_HISTOGRAMS: u32 = 2;
const LEVEL_ENTRIES: u32 = 4;
const LOG_SHIFT: u32 = 9;

/// Prints every metaslab; histograms at level 2, entries at level 4.
pub(crate) fn print_space_maps(
    out: &mut dyn Write,
    pool: &RawPool,
    numbers: Numbers,
    level: u32,
) -> Result<()> {
    writeln!(out, "\nMetaslabs:")?;
    for config in pool.tops() {
        let top = TopSpace::new(pool, &config)?;
        print_top(out, pool, &top, numbers, level)?;
    }
    let logs = log_maps(pool)?;
    if !logs.is_empty() {
        writeln!(out, "\nLog Space Maps in Pool:")?;
    }
    for (txg, id) in logs {
        writeln!(out, "Log Spacemap object {id} txg {txg}")?;
        print_map(out, &pool.mos.object(id)?, LOG_SHIFT, level)?;
    }
    Ok(())
}

fn print_top(
    out: &mut dyn Write,
    pool: &RawPool,
    top: &TopSpace,
    numbers: Numbers,
    level: u32,
) -> Result<()> {
    let maps = top.map_objects(pool)?;
    let unflushed = top.unflushed_txgs(pool)?;
    let table = top.unflushed_object(pool)?;
    let table = table.map_or_else(String::new, |id| {
        format!("   ms_unflushed_phys object {id}")
    });
    writeln!(out, "\tvdev {:>10}   {table}", top.id)?;
    writeln!(
        out,
        "\t{:<10}{:>5}   {:<19}   {:<15}   {:<12}",
        "metaslabs",
        maps.len(),
        "offset",
        "spacemap",
        "free"
    )?;
    let rule = |count: usize| "-".repeat(count);
    writeln!(
        out,
        "\t{}   {}   {}   {}",
        rule(15),
        rule(19),
        rule(15),
        rule(12)
    )?;
    for (index, id) in maps.into_iter().enumerate() {
        let place = top.metaslab(index);
        let (start, size) = (place.start, place.end.saturating_sub(place.start));
        let map = id.map(|id| pool.mos.object(id)).transpose()?;
        let allocated = map.as_ref().map_or(0, |map| phys(map).allocated);
        let free = size.saturating_add_signed(allocated.saturating_neg());
        writeln!(
            out,
            "\tmetaslab {index:>6}   offset {start:>12x}   spacemap {:>6}   free    {:>5}",
            id.map_or(0, |id| id.0),
            numbers.show(free)
        )?;
        if let Some(map) = &map {
            print_map(out, map, top.ashift, level)?;
        }
        if let Some(txg) = unflushed.get(index) {
            writeln!(out, "\tFlush data:\n\tunflushed txg={txg}\n")?;
        }
    }
    Ok(())
}

fn phys(map: &RawObject) -> SpaceMapPhys {
    SpaceMapPhys::decode_padded(map.dnode.bonus_bytes(), base::ByteOrder::NATIVE)
}

fn print_map(out: &mut dyn Write, map: &RawObject, shift: u32, level: u32) -> Result<()> {
    let phys = phys(map);
    if level >= LEVEL_HISTOGRAMS && map.dnode.bonus_bytes().len() > SpaceMapPhys::SIZE_PLAIN {
        writeln!(out, "\tOn-disk histogram:")?;
        print_histogram(out, &phys.histogram, shift)?;
    }
    writeln!(out, "space map object {}:", map.id)?;
    writeln!(out, "  smp_length = {:#x}", phys.length)?;
    writeln!(out, "  smp_alloc = {:#x}", phys.allocated)?;
    if level < LEVEL_ENTRIES {
        return Ok(());
    }
    let mut result = Ok(());
    let mut number = 0_u64;
    for_each_entry(map, shift, &mut |entry| {
        let action = match entry.action {
            Action::Allocate => 'A',
            Action::Free => 'F',
        };
        let (start, length, vdev) = (entry.offset, entry.length, entry.vdev);
        let end = start.saturating_add(length);
        if result.is_ok() {
            result = writeln!(
                out,
                "\t    [{number:>6}]    {action}  range: {start:010x}-{end:010x}  \
                 size: {length:06x} vdev: {vdev:06}"
            );
        }
        number = number.saturating_add(1);
    })?;
    Ok(result?)
}

fn print_histogram(out: &mut dyn Write, buckets: &[u64], shift: u32) -> Result<()> {
    const WIDTH: u64 = 40;
    let max = buckets.iter().copied().max().unwrap_or(0).max(WIDTH);
    let used = |count: &u64| *count > 0;
    let (Some(first), Some(last)) = (
        buckets.iter().position(used),
        buckets.iter().rposition(used),
    ) else {
        return Ok(());
    };
    let shown = buckets.get(first..=last).unwrap_or_default();
    for (index, &count) in (first..).zip(shown) {
        let power = shift.saturating_add(index as u32);
        let stars = u128::from(count)
            .saturating_mul(WIDTH.into())
            .div_ceil(max.into());
        let stars = "*".repeat(stars as usize);
        writeln!(out, "\t\t\t{power:>3}: {count:>6} {stars}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
