//! What is looked at of a pool, and what of it is printed.

use std::io::Write;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use base::Txg;

use crate::error::Result;
use crate::print::{self, Numbers};
use crate::raw::{DatasetEntry, OpenOptions, RawObjectSet, RawPool, find, tree_datasets};
use crate::verify;
use crate::{Audience, InspectError};

/// Damage was found.
const EXIT_DAMAGE: u8 = 3;
/// A device has no label.
const EXIT_NO_LABEL: u8 = 2;

/// What is to be printed and checked of a pool. What is a number is left out with 0; larger ones print more of it.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Images, disks, or directories that hold them.
    pub paths: Vec<PathBuf>,
    /// The pool's name or guid; may be left out when there is only one.
    pub pool: Option<String>,
    /// The newest uberblock to use.
    pub txg_max: Option<Txg>,
    /// The dataset, with its snapshot; none: all, and the pool's own objects.
    pub dataset: Option<String>,
    /// Objects to print; all when empty.
    pub objects: Vec<RangeInclusive<u64>>,
    /// Labels, and nothing else.
    pub labels: u32,
    /// The uberblock; with labels, those in them.
    pub uberblock: u32,
    /// The configuration in the pool.
    pub config: u32,
    /// Datasets and their objects.
    pub datasets: u32,
    /// All blocks are walked.
    pub blocks: u32,
    /// With checksums of metadata; 2: of data, too.
    pub checksums: u32,
    /// Metaslabs and their space maps.
    pub space_maps: u32,
    /// Intent logs.
    pub intent_logs: u32,
    /// The commands that changed the pool.
    pub history: u32,
    /// A walk is compared with the space maps.
    pub leaks: bool,
    /// Numbers are printed in full.
    pub exact: bool,
    /// The result of a walk is printed as JSON, and nothing beside it.
    pub json: bool,
}

impl Inspection {
    /// Nothing yet, of the pool on these images, disks or directories.
    #[must_use]
    pub const fn of(paths: Vec<PathBuf>) -> Self {
        Self {
            paths,
            pool: None,
            txg_max: None,
            dataset: None,
            objects: Vec::new(),
            labels: 0,
            uberblock: 0,
            config: 0,
            datasets: 0,
            blocks: 0,
            checksums: 0,
            space_maps: 0,
            intent_logs: 0,
            history: 0,
            leaks: true,
            exact: false,
            json: false,
        }
    }

    /// Every block is read and compared with its checksum, and what is allocated with the space maps.
    #[must_use]
    pub fn verifying(self) -> Self {
        Self {
            blocks: 1,
            checksums: 2,
            ..self
        }
    }

    /// Prints it; the exit status: 0 all is well, 2 a device without a label, 3 damage.
    ///
    /// # Errors
    /// There is no such pool or dataset, it cannot be read at all, or `out` takes no more.
    pub fn print(&self, out: &mut dyn Write) -> Result<u8> {
        let mut out = std::io::BufWriter::with_capacity(64 << 10, out);
        let status = inspect(self, &mut out)?;
        out.flush()?;
        Ok(status)
    }

    fn open(&self) -> OpenOptions {
        OpenOptions {
            paths: self.paths.clone(),
            pool: self.pool.clone(),
            txg_limit: self.txg_max,
        }
    }

    const fn numbers(&self) -> Numbers {
        Numbers { exact: self.exact }
    }
}

fn inspect(options: &Inspection, out: &mut dyn Write) -> Result<u8> {
    if options.labels > 0 {
        return labels(options, out);
    }
    let pool = RawPool::open(&options.open())?;
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
        print::print_space_maps(out, &pool, options.numbers(), options.space_maps)?;
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
fn labels(options: &Inspection, out: &mut dyn Write) -> Result<u8> {
    let mut status = 0;
    for found in find(&options.paths)? {
        if options.paths.len() > 1 || options.paths.iter().any(|path| path.is_dir()) {
            writeln!(out, "{}:", found.path.display())?;
        }
        if !print::print_labels(out, &found, options.uberblock > 0)? {
            status = EXIT_NO_LABEL;
        }
    }
    Ok(status)
}

fn datasets(options: &Inspection, pool: &RawPool, out: &mut dyn Write) -> Result<u8> {
    let objects = print::ObjectOptions {
        level: options.datasets.max(1),
        numbers: options.numbers(),
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
    options: &Inspection,
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

fn check(options: &Inspection, pool: &RawPool, out: &mut dyn Write) -> Result<u8> {
    let checks = verify::VerifyOptions {
        metadata: options.checksums > 0,
        data: options.checksums > 1,
        leaks: options.leaks,
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
    let wanted = if options.leaks { "nothing leaked " } else { "" };
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
        print::print_kinds(out, &report.statistics, options.numbers(), levels)?;
    }
    Ok(if report.is_clean() { 0 } else { EXIT_DAMAGE })
}
