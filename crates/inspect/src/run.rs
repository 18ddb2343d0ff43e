//! `millpond inspect`, also under the name zdb: the command line, and what each option does.

mod options;

use std::ffi::OsString;
use std::io::Write;

use base::notice;

use crate::error::Result;
use crate::print;
use crate::raw::{DatasetEntry, RawObjectSet, RawPool, find, tree_datasets};
use crate::verify;
use crate::{Audience, InspectError};
use options::Options;

/// Damage was found.
const EXIT_DAMAGE: u8 = 3;
/// A device has no label.
const EXIT_NO_LABEL: u8 = 2;

/// Runs the whole command (arguments without the program's name) and answers the exit status:
/// 0 fine, 1 failed, 2 wrong command line, 3 damage found. What went wrong is a notice.
pub fn run(arguments: &[OsString], out: &mut dyn Write) -> u8 {
    match try_run(arguments, out) {
        Ok(status) => status,
        // Whoever read the output has seen enough.
        Err(error) if error.is_broken_pipe() => 0,
        Err(error) => {
            notice::say(&format_args!("inspect: {error}"));
            error.exit_status()
        }
    }
}

fn try_run(arguments: &[OsString], out: &mut dyn Write) -> Result<u8> {
    let options = Options::parse(arguments)?;
    let mut out = std::io::BufWriter::with_capacity(64 << 10, out);
    let status = inspect(&options, &mut out)?;
    out.flush()?;
    Ok(status)
}

fn inspect(options: &Options, out: &mut dyn Write) -> Result<u8> {
    if options.labels > 0 {
        return labels(options, out);
    }
    let pool = RawPool::open(&options.open)?;
    let mut status = 0;
    if pool.uberblocks_skipped > 0 {
        status = EXIT_DAMAGE;
        // As JSON the report says so.
        if !options.json {
            let (count, txg) = (pool.uberblocks_skipped, pool.uberblock.txg);
            writeln!(
                out,
                "{count} newer uberblocks lead nowhere; this is txg {txg}"
            )?;
        }
    }
    if options.config > 0 {
        writeln!(out, "\nMOS Configuration:")?;
        print::print_list(out, &pool.config()?, 8)?;
    }
    if options.uberblock > 0 {
        writeln!(out, "\nUberblock:")?;
        print::print_uberblock(out, &pool.uberblock)?;
        writeln!(out)?;
    }
    if options.space_maps > 0 {
        print::print_space_maps(out, &pool, options.numbers, options.space_maps)?;
    }
    if options.datasets > 0 || options.intent_logs > 0 {
        status = status.max(datasets(options, &pool, out)?);
    }
    if options.blocks > 0 {
        status = status.max(check(options, &pool, out)?);
    }
    if options.history > 0 {
        print::print_history(out, &pool)?;
    }
    Ok(status)
}

/// Labels of devices, whatever pool they belong to.
fn labels(options: &Options, out: &mut dyn Write) -> Result<u8> {
    let mut status = 0;
    for found in find(&options.open.paths)? {
        if options.open.paths.len() > 1 || options.open.paths.iter().any(|path| path.is_dir()) {
            writeln!(out, "{}:", found.path.display())?;
        }
        if !print::print_labels(out, &found, options.uberblock > 0)? {
            status = EXIT_NO_LABEL;
        }
    }
    Ok(status)
}

fn datasets(options: &Options, pool: &RawPool, out: &mut dyn Write) -> Result<u8> {
    let objects = print::ObjectOptions {
        level: options.datasets.max(1),
        numbers: options.numbers,
        chosen: &options.objects,
    };
    let mut damage = Vec::new();
    let all = tree_datasets(pool, &mut |error| damage.push(error))?;
    let mut whole = true;
    match &options.dataset {
        None => {
            whole &= print::print_mos(out, pool, &objects)?;
            // Objects by number are the meta object set's, as long as no dataset is named.
            for dataset in all.iter().filter(|_| options.objects.is_empty()) {
                whole &= dataset_with_log(options, pool, dataset, &objects, out)?;
            }
        }
        Some(name) => {
            let missing = || InspectError::NoDataset(name.clone());
            let dataset = all
                .iter()
                .find(|entry| entry.name == *name)
                .ok_or_else(missing)?;
            whole &= dataset_with_log(options, pool, dataset, &objects, out)?;
        }
    }
    for error in &damage {
        writeln!(out, "{error}")?;
    }
    if options.dataset.is_none() && options.objects.is_empty() {
        whole &= print::print_features(out, pool)?;
    }
    Ok(if whole && damage.is_empty() {
        0
    } else {
        EXIT_DAMAGE
    })
}

fn dataset_with_log(
    options: &Options,
    pool: &RawPool,
    dataset: &DatasetEntry,
    objects: &print::ObjectOptions<'_>,
    out: &mut dyn Write,
) -> Result<bool> {
    let whole = print::print_dataset(out, pool, dataset, objects)?;
    if options.intent_logs > 0 {
        let set = base::ObjectSetId(dataset.id.0);
        if let Ok(set) = RawObjectSet::open(&pool.pipeline, set, dataset.phys.block_pointer) {
            print::print_log(out, &set, options.intent_logs)?;
        }
    }
    Ok(whole)
}

fn check(options: &Options, pool: &RawPool, out: &mut dyn Write) -> Result<u8> {
    let checks = verify::VerifyOptions {
        metadata: options.checksums > 0,
        data: options.checksums > 1,
        leaks: !options.no_leaks,
    };
    if options.json {
        let watcher = verify::Watcher::Audience(Audience::Program);
        let report = verify::verify(pool, checks, watcher)?;
        print::print_report_json(out, pool, &report)?;
        return Ok(if report.is_clean() { 0 } else { EXIT_DAMAGE });
    }
    let checked = match options.checksums {
        0 => "",
        1 => "metadata checksums and verify ",
        _ => "checksums and verify ",
    };
    let wanted = if options.no_leaks {
        ""
    } else {
        "nothing leaked "
    };
    let verb = if checked.is_empty() && wanted.is_empty() {
        ""
    } else {
        "to verify "
    };
    writeln!(out, "\nTraversing all blocks {verb}{checked}{wanted}...\n")?;
    let report = verify::verify(pool, checks, verify::Watcher::Audience(Audience::of(false)))?;
    print::print_report(out, pool, &report)?;
    if options.blocks > 1 {
        let levels = options.blocks > 2;
        print::print_kinds(out, &report.statistics, options.numbers, levels)?;
    }
    Ok(if report.is_clean() { 0 } else { EXIT_DAMAGE })
}
