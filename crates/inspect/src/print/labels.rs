//! Labels and uberblocks.

use std::io::Write;

use format::block_pointer::BlockPointer;
use format::uberblock::{MULTIHOST_MAGIC, MultihostConfig, ReflowInfo, Uberblock};
use vdev::UberblockCandidate;

use crate::error::Result;
use crate::print::{calendar, print_list};
use crate::raw::Found;

const RULE: &str = "------------------------------------";

/// Prints the labels of a device, equal ones once; their uberblocks too when `uberblocks`. Whether
/// there is any label.
pub(crate) fn print_labels(out: &mut dyn Write, found: &Found, uberblocks: bool) -> Result<bool> {
    let labels = &found.labels;
    for (index, _) in &labels.problems {
        writeln!(
            out,
            "{RULE}\nLABEL {index} \n{RULE}\nfailed to unpack label {index}"
        )?;
    }
    let mut done = Vec::new();
    for label in &labels.configs {
        if done.contains(&label.label) {
            continue;
        }
        writeln!(out, "{RULE}\nLABEL {} \n{RULE}", label.label)?;
        print_list(out, &label.config, 4)?;
        let same: Vec<usize> = labels
            .configs
            .iter()
            .filter(|other| other.config == label.config)
            .map(|other| other.label)
            .collect();
        print_label_numbers(out, "    ", &same)?;
        done.extend(same);
    }
    if uberblocks {
        print_rings(out, found)?;
    }
    Ok(!labels.configs.is_empty())
}

fn print_label_numbers(out: &mut dyn Write, indent: &str, labels: &[usize]) -> Result<()> {
    write!(out, "{indent}labels = ")?;
    for label in labels {
        write!(out, "{label} ")?;
    }
    Ok(writeln!(out)?)
}

/// Every valid uberblock by slot, equal ones once.
fn print_rings(out: &mut dyn Write, found: &Found) -> Result<()> {
    let mut slots: Vec<u64> = found
        .labels
        .uberblocks
        .iter()
        .map(|slot| slot.slot)
        .collect();
    slots.sort_unstable();
    slots.dedup();
    for slot in slots {
        let mut rest: Vec<&UberblockCandidate> = found
            .labels
            .uberblocks
            .iter()
            .filter(|other| other.slot == slot)
            .collect();
        rest.sort_by_key(|candidate| candidate.label);
        while let Some(first) = rest.first().copied() {
            let (same, others): (Vec<&UberblockCandidate>, Vec<_>) = rest
                .into_iter()
                .partition(|other| other.uberblock == first.uberblock);
            writeln!(out, "    Uberblock[{slot}]")?;
            print_uberblock(out, &first.uberblock)?;
            let labels: Vec<usize> = same.iter().map(|other| other.label).collect();
            print_label_numbers(out, "        ", &labels)?;
            rest = others;
        }
    }
    Ok(())
}

/// Prints an uberblock's fields.
pub(crate) fn print_uberblock(out: &mut dyn Write, uberblock: &Uberblock) -> Result<()> {
    writeln!(out, "\tmagic = {:016x}", format::uberblock::MAGIC)?;
    writeln!(out, "\tversion = {}", uberblock.version)?;
    writeln!(out, "\ttxg = {}", uberblock.txg)?;
    writeln!(out, "\tguid_sum = {}", uberblock.guid_sum)?;
    let time = calendar(uberblock.timestamp);
    writeln!(out, "\ttimestamp = {} UTC = {time}", uberblock.timestamp)?;
    writeln!(out, "\tbp = {}", uberblock.root)?;
    if uberblock.multihost_magic == MULTIHOST_MAGIC {
        let config = uberblock.multihost_config;
        let at = MultihostConfig::AT;
        writeln!(out, "\tmmp_magic = {MULTIHOST_MAGIC:016x}")?;
        writeln!(out, "\tmmp_delay = {}", uberblock.multihost_delay_ns)?;
        for (name, valid, bits) in [
            ("mmp_write_interval", at.interval_valid, at.interval),
            ("mmp_seq", at.sequence_valid, at.sequence),
            (
                "mmp_fail_intervals",
                at.fail_intervals_valid,
                at.fail_intervals,
            ),
        ] {
            if valid.get(config) == 1 {
                writeln!(out, "\t{name} = {}", bits.get(config))?;
            }
        }
        writeln!(out, "\tmmp_valid = {:x}", config & 7)?;
    }
    writeln!(out, "\tcheckpoint_txg = {}", uberblock.checkpoint_txg)?;
    let (at, info) = (ReflowInfo::AT, uberblock.reflow_info);
    let (state, offset) = (at.state.get(info), at.offset.get(info));
    writeln!(out, "\traidz_reflow state={state} off={}", offset << 9)?;
    Ok(())
}

/// A block pointer in a few words, for the list of an object's blocks, with the addresses of up to
/// `copies` copies.
pub(crate) fn compact(block: &BlockPointer, copies: usize) -> String {
    let (lsize, psize, birth) = (block.lsize(), block.psize(), block.birth());
    if block.is_embedded() {
        let kind = block.embedded_number();
        return format!("EMBEDDED et={kind} {lsize:x}L/{psize:x}P B={birth}");
    }
    if block.is_hole() {
        return format!("{lsize:x}L B={birth}");
    }
    let addresses: String = block
        .dvas()
        .take(copies)
        .map(|dva| format!("{}:{:x}:{:x} ", dva.vdev, dva.offset, dva.asize))
        .collect();
    let [a, b, c, d] = block.checksum_value().0;
    let (physical, fill) = (block.physical_birth(), block.fill());
    format!(
        "{addresses}{lsize:x}L/{psize:x}P F={fill} B={birth}/{physical} \
         cksum={a:016x}:{b:016x}:{c:016x}:{d:016x}"
    )
}
