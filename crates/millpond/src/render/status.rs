//! `zpool status`.

use admin::date::{moment, span};
use admin::{
    DedupReport, ExpansionReport, LeafWorkState, PoolNote, PoolStatus, RemovalReport, VdevCause,
    VdevClass, VdevNaming, VdevReport, VdevState, human, human_bytes,
};

use super::tree::{GROUPS, lines};

mod scan;
#[cfg(test)]
mod tests;

/// What `zpool status` shows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StatusOptions {
    /// The damaged files too (`-v`).
    pub(crate) verbose: bool,
    /// Numbers in full (`-p`).
    pub(crate) exact: bool,
    /// A column of slow I/Os (`-s`).
    pub(crate) slow: bool,
    /// A column of failed direct writes (`-d`).
    pub(crate) direct: bool,
    /// A column of power (`--power`).
    pub(crate) power: bool,
    /// How leaves were initialized (`-i`).
    pub(crate) initialize: bool,
    /// How leaves were trimmed (`-t`).
    pub(crate) trim: bool,
    /// The dedup tables (`-D`).
    pub(crate) dedup: bool,
    /// How vdevs are named.
    pub(crate) naming: VdevNaming,
    /// Unix seconds now, for estimates of running scans.
    pub(crate) now: u64,
}

/// What is wrong, in the order in which it is looked for.
struct Cause {
    status: &'static str,
    action: &'static str,
    id: Option<&'static str>,
}

/// What is wrong, what to do, and the id of a page about it.
pub(super) fn explained(
    pool: &PoolStatus,
) -> Option<(&'static str, &'static str, Option<&'static str>)> {
    let cause = cause(pool)?;
    Some((cause.status, cause.action, cause.id))
}

fn cause(pool: &PoolStatus) -> Option<Cause> {
    let cause = |status, action, id| Some(Cause { status, action, id });
    if scan::is_resilvering(pool) {
        return cause(RESILVERING, "Wait for the resilver to complete.", None);
    }
    if pool.note == Some(PoolNote::HostMismatch) {
        return cause(HOST_MISMATCH, HOST_MISMATCH_ACTION, Some("EY"));
    }
    if pool.stopped.is_some() {
        return cause(STOPPED, STOPPED_ACTION, None);
    }
    if pool.note == Some(PoolNote::MultihostOverdue) {
        return cause(OVERDUE, OVERDUE_ACTION, Some("HC"));
    }
    if pool.note == Some(PoolNote::HostFull) {
        return cause(HOST_FULL, HOST_FULL_ACTION, Some("HC"));
    }
    if pool.state == VdevState::Suspended {
        let id = if pool.fails_at_once { "JQ" } else { "HC" };
        return cause(SUSPENDED, SUSPENDED_ACTION, Some(id));
    }
    if pool.error_count > 0 {
        return cause(DATA_ERRORS, DATA_ERRORS_ACTION, Some("8A"));
    }
    if pool.any_leaf(|vdev| vdev.state == VdevState::Faulted) {
        return cause(FAULTED, FAULTED_ACTION, None);
    }
    if pool.any_leaf(|vdev| {
        vdev.state == VdevState::Unavailable
            && !matches!(
                vdev.cause,
                Some(VdevCause::InvalidLabel | VdevCause::CorruptData)
            )
    }) {
        return cause(MISSING, MISSING_ACTION, Some("2Q"));
    }
    if pool.any_leaf(|vdev| vdev.state == VdevState::Unavailable) {
        return cause(BAD_LABEL, BAD_LABEL_ACTION, Some("4J"));
    }
    if pool.leaf_errors() {
        return cause(LEAF_ERRORS, LEAF_ERRORS_ACTION, Some("9P"));
    }
    if pool.any_leaf(|vdev| vdev.state == VdevState::Offline) {
        return cause(OFFLINE, OFFLINE_ACTION, None);
    }
    if pool.any_leaf(|vdev| vdev.state == VdevState::Removed) {
        return cause(REMOVED, OFFLINE_ACTION, None);
    }
    if scan::is_unverified(pool) {
        return cause(UNVERIFIED, UNVERIFIED_ACTION, None);
    }
    match pool.note {
        Some(PoolNote::LegacyVersion) => cause(LEGACY, LEGACY_ACTION, None),
        Some(PoolNote::FeaturesDisabled) => cause(FEATURES, FEATURES_ACTION, None),
        _ => None,
    }
}

/// The whole text about one pool.
#[must_use]
pub(crate) fn status(pool: &PoolStatus, options: StatusOptions) -> String {
    let mut out = format!("  pool: {}\n state: {}\n", pool.name, pool.state.word());
    if let Some(cause) = cause(pool) {
        out += &format!("status: {}\n", cause.status);
        if let Some(stopped) = &pool.stopped {
            out += &format!("\tThe reason: {}\n", stopped.reason);
            let when = moment(stopped.time);
            out += &format!("\tOn disk is the state of txg {}, {when}.\n", stopped.txg);
        }
        out += &format!("action: {}\n", cause.action);
        if let Some(id) = cause.id {
            out += &format!("   see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-{id}\n");
        }
    }
    out += &scan::lines(pool, options.now);
    out += &other_lines(pool, options.now);
    out += "config:\n\n";
    out += &config(pool, options);
    out += "\n";
    out += &errors(pool, options.verbose);
    if options.dedup {
        out += &dedup(&pool.dedup);
    }
    out
}

/// The dedup tables, with their histogram as zdb prints it.
fn dedup(report: &DedupReport) -> String {
    let entries: u64 = report.buckets.iter().map(|bucket| bucket[0]).sum();
    if entries == 0 {
        return "\n dedup: no DDT entries\n".to_owned();
    }
    let mut out = format!(
        "\n dedup: DDT entries {entries}, size {} on disk, {} in core\n\n",
        human_bytes(report.disk_bytes),
        human_bytes(report.core_bytes)
    );
    out += DEDUP_HEADER;
    let mut row = |name: &str, bucket: &[u64; 8]| {
        out += &format!("{name:>6}");
        for (at, number) in bucket.iter().enumerate() {
            out += &match at % 4 {
                0 => format!("   {:>6}", human(*number)),
                _ => format!("   {:>5}", human_bytes(*number)),
            };
        }
        out.push('\n');
    };
    let mut total = [0_u64; 8];
    for (at, bucket) in report.buckets.iter().enumerate() {
        if bucket[0] == 0 {
            continue;
        }
        row(&human(1 << at.min(63)), bucket);
        for (sum, number) in total.iter_mut().zip(bucket) {
            *sum = sum.saturating_add(*number);
        }
    }
    row("Total", &total);
    out
}

const DEDUP_HEADER: &str = "\
bucket              allocated                       referenced          
______   ______________________________   ______________________________
refcnt   blocks   LSIZE   PSIZE   DSIZE   blocks   LSIZE   PSIZE   DSIZE
------   ------   -----   -----   -----   ------   -----   -----   -----
";

/// How the last removal of a vdev stands.
fn removal_lines(pool: &PoolStatus, removal: &RemovalReport, now: u64) -> String {
    let named = || {
        let mut tops = pool.vdevs.iter();
        let top = tops.find(|top| top.id == removal.vdev);
        let named = |top| VdevNaming::default().name(top);
        top.map_or_else(|| format!("vdev {}", removal.vdev), named)
    };
    let memory = match removal.mapping_memory {
        0 => String::new(),
        bytes => format!(
            "\t{} memory used for removed device mappings\n",
            human(bytes)
        ),
    };
    match removal.ended {
        Some(ended) if removal.cancelled => {
            format!(
                "remove: Removal of {} canceled on {}\n{memory}",
                named(),
                moment(ended)
            )
        }
        Some(ended) => {
            let took = ended.saturating_sub(removal.started);
            format!(
                "remove: Removal of vdev {} copied {} in {}h{}m, completed on {}\n{memory}",
                removal.vdev,
                human(removal.copied),
                took / 3600,
                took / 60 % 60,
                moment(ended),
            )
        }
        None => {
            let since = moment(removal.started);
            format!(
                "remove: Evacuation of {} in progress since {since}\n{}{memory}",
                named(),
                removal_course(removal, now)
            )
        }
    }
}

/// How far a removal has come, and how long it will take at its present pace.
fn removal_course(removal: &RemovalReport, now: u64) -> String {
    let (copied, total) = (removal.copied.max(1), removal.to_copy.max(1));
    let elapsed = now.saturating_sub(removal.started).max(1);
    let rate = (copied / elapsed).max(1);
    let minutes = total.saturating_sub(copied) / rate / 60;
    let permyriad = u128::from(copied) * 10_000 / u128::from(total);
    let rest = if minutes / 60 < 30 * 24 {
        format!("{}h{}m to go", minutes / 60, minutes % 60)
    } else {
        "(copy is slow, no estimated time)".to_owned()
    };
    format!(
        "\t{} copied out of {} at {}/s, {}.{:02}% done, {rest}\n",
        human(copied),
        human(total),
        human(rate),
        permyriad / 100,
        permyriad % 100,
    )
}

fn other_lines(pool: &PoolStatus, now: u64) -> String {
    let mut out = String::new();
    if let Some(removal) = &pool.removal {
        out += &removal_lines(pool, removal, now);
    }
    if let Some(checkpoint) = &pool.checkpoint {
        let bytes = human(checkpoint.consumes);
        out += &match checkpoint.created {
            Some(created) => {
                format!(
                    "checkpoint: created {}, consumes {bytes}\n",
                    moment(created)
                )
            }
            None => format!("checkpoint: discarding, {bytes} remaining.\n"),
        };
    }
    if let Some(expansion) = &pool.expansion {
        out += &match expansion.ended {
            Some(ended) => format!(
                "expand: expanded {} copied {} in {}, on {}\n",
                expansion.vdev,
                human(expansion.copied),
                span(ended.saturating_sub(expansion.started)),
                moment(ended)
            ),
            None => format!(
                "expand: expansion of {} in progress since {}\n{}",
                expansion.vdev,
                moment(expansion.started),
                expansion_progress(expansion, now.saturating_sub(expansion.started).max(1))
            ),
        };
    }
    out
}

/// How far an expansion is that has run for so many seconds.
fn expansion_progress(expansion: &ExpansionReport, elapsed: u64) -> String {
    /// Nobody is told that something takes longer.
    const LONGEST: u64 = 30 * 24 * 3600;
    let (copied, total) = (expansion.copied, expansion.to_copy);
    let rate = (copied / elapsed).max(1);
    let share = u128::from(copied) * 10_000 / u128::from(total.max(1));
    let end = match total.checked_sub(copied).map(|left| left / rate) {
        _ if expansion.waits => "paused for resilver or clear".to_owned(),
        Some(left) if left < LONGEST => format!("{} to go", span(left)),
        Some(_) | None => "(copy is slow, no estimated time)".to_owned(),
    };
    format!(
        "\t{} / {} copied at {}/s, {}.{:02}% done, {end}\n",
        human(copied),
        human(total),
        human(rate),
        share / 100,
        share % 100,
    )
}

fn config(pool: &PoolStatus, options: StatusOptions) -> String {
    let mut width = 10.max(pool.name.chars().count());
    let groups = || {
        std::iter::once((VdevClass::Normal, ""))
            .chain(GROUPS)
            .map(|(class, head)| (class, head, lines(&pool.vdevs, class)))
    };
    for (_, _, group) in groups() {
        for line in group {
            let name = options.naming.name(line.vdev);
            width = width.max(2 * line.depth + name.chars().count());
        }
    }
    let mut out = format!("\t{:width$}  STATE     READ WRITE CKSUM", "NAME");
    for (shown, head) in options.more_columns().into_iter().zip(MORE_COLUMNS) {
        if shown {
            out += &format!(" {head:>5}");
        }
    }
    out.push('\n');
    let root = Counters {
        name: pool.name.clone(),
        state: pool.root_state,
        errors: Some([0; 3]),
        more: [const { None }; 3],
        text: root_cause(pool),
    };
    out += &root.line(width, options);
    for (class, head, group) in groups() {
        if !head.is_empty() && !group.is_empty() {
            out += &format!("\t{head}\n");
        }
        for line in group {
            let spare = class == VdevClass::Spare;
            let vdev = line.vdev;
            let errors = [vdev.read_errors, vdev.write_errors, vdev.checksum_errors];
            let counters = Counters {
                name: format!("{}{}", "  ".repeat(line.depth), options.naming.name(vdev)),
                state: vdev.state,
                errors: (!spare).then_some(errors),
                more: [
                    vdev.is_leaf().then_some(vdev.leaf.slow),
                    // Nothing here verifies what a program writes directly.
                    (line.depth == 1).then_some(0),
                    None,
                ],
                text: remarks(vdev) + &leaf_work(vdev, options),
            };
            out += &counters.line(width, options);
        }
    }
    out
}

fn root_cause(pool: &PoolStatus) -> String {
    if pool.root_state == VdevState::Unavailable {
        "  insufficient replicas".to_owned()
    } else {
        String::new()
    }
}

fn remarks(vdev: &VdevReport) -> String {
    let mut out = String::new();
    match (&vdev.path, vdev.absent, &vdev.cause) {
        (Some(path), true, _) => out += &format!("  was {path}"),
        (_, _, Some(cause)) => out += &format!("  {}", cause.text()),
        _ => {}
    }
    if let Some(activity) = &vdev.activity {
        out += &format!("  ({activity})");
    }
    out
}

/// What was done with the free space of a leaf, as far as it is asked for.
fn leaf_work(vdev: &VdevReport, options: StatusOptions) -> String {
    let mut out = String::new();
    if !vdev.is_leaf() || matches!(vdev.class, VdevClass::Cache | VdevClass::Spare) {
        return out;
    }
    let kinds = [
        (options.initialize, vdev.leaf.initialize, "initialized"),
        (options.trim, vdev.leaf.trim, "trimmed"),
    ];
    for (_, work, word) in kinds.into_iter().filter(|(shown, ..)| *shown) {
        let (percent, time) = (work.percent, moment(work.time));
        out += &match work.state {
            LeafWorkState::None => format!("  (un{word})"),
            LeafWorkState::Active => format!("  ({percent}% {word}, started at {time})"),
            LeafWorkState::Suspended => {
                format!("  ({percent}% {word}, suspended, started at {time})")
            }
            LeafWorkState::Complete => format!("  ({percent}% {word}, completed at {time})"),
        };
    }
    out
}

struct Counters {
    name: String,
    state: VdevState,
    errors: Option<[u64; 3]>,
    /// Those of [`MORE_COLUMNS`].
    more: [Option<u64>; 3],
    text: String,
}

/// Columns that are there only when asked for.
const MORE_COLUMNS: [&str; 3] = ["SLOW", "DIO", "POWER"];

impl StatusOptions {
    const fn more_columns(&self) -> [bool; 3] {
        [self.slow, self.direct, self.power]
    }
}

impl Counters {
    fn line(&self, width: usize, options: StatusOptions) -> String {
        let padding = width.saturating_sub(self.name.chars().count());
        let mut out = format!(
            "\t{}{}  {:<8}",
            self.name,
            " ".repeat(padding),
            self.state.word()
        );
        if let Some(errors) = self.errors {
            let more = options.more_columns().into_iter().zip(self.more);
            let more = more.filter(|(shown, _)| *shown).map(|(_, count)| count);
            for count in errors.into_iter().map(Some).chain(more) {
                let text = match count {
                    None => "-".to_owned(),
                    Some(count) if options.exact => count.to_string(),
                    Some(count) => human(count),
                };
                out += &format!(" {text:>5}");
            }
        }
        out += &self.text;
        out.push('\n');
        out
    }
}

fn errors(pool: &PoolStatus, verbose: bool) -> String {
    if pool.error_count == 0 {
        return "errors: No known data errors\n".to_owned();
    }
    if !verbose {
        let count = pool.error_count;
        return format!("errors: {count} data errors, use '-v' for a list\n");
    }
    if pool.error_files.is_empty() {
        let count = pool.error_count;
        return format!("errors: {count} data errors, whose files only the administrator sees\n");
    }
    let mut out =
        "errors: Permanent errors have been detected in the following files:\n\n".to_owned();
    for file in &pool.error_files {
        out += &format!("        {file}\n");
    }
    out
}

const RESILVERING: &str = "One or more devices is currently being resilvered.  The pool will\n\
\tcontinue to function, possibly in a degraded state.";
const UNVERIFIED: &str = "One or more devices have been sequentially resilvered, scrubbing\n\
\tthe pool is recommended.";
const UNVERIFIED_ACTION: &str = "Use 'zpool scrub' to verify all data checksums.";
const HOST_MISMATCH: &str = "Mismatch between pool hostid and system hostid on imported pool.\n\
\tThis pool was previously imported into a system with a different hostid,\n\
\tand then was verbatim imported into this system.";
const HOST_MISMATCH_ACTION: &str = "Export this pool on all systems on which it is imported.\n\
\tThen import it to correct the mismatch.";
const OVERDUE: &str = "The pool is suspended because multihost writes failed or were delayed;\n\
\tanother system could import the pool undetected.";
const OVERDUE_ACTION: &str = "Make sure the pool's devices are connected, then reboot your system and\n\
\timport the pool or run 'zpool clear' to resume the pool.";
const HOST_FULL: &str = "The file system that holds a device of the pool is full.";
const HOST_FULL_ACTION: &str = "Make room there, then run 'zpool clear'.";
const SUSPENDED: &str = "One or more devices are faulted in response to IO failures.";
const SUSPENDED_ACTION: &str =
    "Make sure the affected devices are connected, then run 'zpool clear'.";
const STOPPED: &str = "A transaction group could not be written.  The pool takes no changes any\n\
\tmore; what it has accepted can be read until it is exported.";
const STOPPED_ACTION: &str = "Copy files that are newer than what is on disk, and were not\n\
\tsynchronized (fsync), to another place.  Then run 'zpool export -f' and\n\
\t'zpool import': what is on disk and what was synchronized will be there,\n\
\tall other changes will be lost.";
const DATA_ERRORS: &str = "One or more devices has experienced an error resulting in data\n\
\tcorruption.  Applications may be affected.";
const DATA_ERRORS_ACTION: &str = "Restore the file in question if possible.  Otherwise restore the\n\
\tentire pool from backup.";
const FAULTED: &str = "One or more devices are faulted in response to persistent errors.\n\
\tSufficient replicas exist for the pool to continue functioning in a\n\
\tdegraded state.";
const FAULTED_ACTION: &str = "Replace the faulted device, or use 'zpool clear' to mark the device\n\
\trepaired.";
const MISSING: &str = "One or more devices could not be opened.  Sufficient replicas exist for\n\
\tthe pool to continue functioning in a degraded state.";
const MISSING_ACTION: &str = "Attach the missing device and online it using 'zpool online'.";
const BAD_LABEL: &str = "One or more devices could not be used because the label is missing or\n\
\tinvalid.  Sufficient replicas exist for the pool to continue\n\
\tfunctioning in a degraded state.";
const BAD_LABEL_ACTION: &str = "Replace the device using 'zpool replace'.";
const LEAF_ERRORS: &str = "One or more devices has experienced an unrecoverable error.  An\n\
\tattempt was made to correct the error.  Applications are unaffected.";
const LEAF_ERRORS_ACTION: &str = "Determine if the device needs to be replaced, and clear the errors\n\
\tusing 'zpool clear' or replace the device with 'zpool replace'.";
const OFFLINE: &str = "One or more devices has been taken offline by the administrator.\n\
\tSufficient replicas exist for the pool to continue functioning in a\n\
\tdegraded state.";
const REMOVED: &str = "One or more devices have been removed.\n\
\tSufficient replicas exist for the pool to continue functioning in a\n\
\tdegraded state.";
const OFFLINE_ACTION: &str = "Online the device using 'zpool online' or replace the device with\n\
\t'zpool replace'.";
const LEGACY: &str = "The pool is formatted using a legacy on-disk format.  The pool can\n\
\tstill be used, but some features are unavailable.";
const LEGACY_ACTION: &str = "Upgrade the pool using 'zpool upgrade'.  Once this is done, the\n\
\tpool will no longer be accessible on software that does not support\n\
\tfeature flags.";
const FEATURES: &str = "Some supported and requested features are not enabled on the pool.\n\
\tThe pool can still be used, but some features are unavailable.";
const FEATURES_ACTION: &str = "Enable all features using 'zpool upgrade'. Once this is done,\n\
\tthe pool may no longer be accessible by software that does not support\n\
\tthe features. See zpool-features(7) for details.";
