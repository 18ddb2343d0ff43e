//! The list of features in words: `docs/feature_flags.md`.

use std::fmt::Write;

use super::{ALL, Feature, Support};

/// Golden pools: made by OpenZFS, with features. Those that are true are changed by tests, which have zdb look at them
/// afterwards.
const POOLS: [(&str, bool); 18] = [
    ("checkpoint", true),
    ("classes", true),
    ("codecs", true),
    ("default", true),
    ("draid", true),
    ("enc", true),
    ("expanded", true),
    ("gang", true),
    ("grub2", true),
    ("many", true),
    ("mirror", true),
    ("raidz1", true),
    ("raidz2", false),
    ("raidz3", true),
    ("removed", true),
    ("streams", true),
    ("vol", true),
    ("zil", true),
];

/// On which golden pools OpenZFS says that a feature is active. A test of the crate `pool` compares with what it
/// printed, and with what is read here.
#[must_use]
pub fn active_on(feature: &Feature) -> Vec<&'static str> {
    let without = |missing: &[&str]| -> Vec<&'static str> {
        let names = POOLS.iter().map(|(pool, _)| *pool);
        names.filter(|pool| !missing.contains(pool)).collect()
    };
    match feature.name {
        "empty_bpobj" | "lz4_compress" | "spacemap_histogram" | "enabled_txg" | "hole_birth"
        | "extensible_dataset" | "embedded_data" | "userobj_accounting" | "project_quota"
        | "spacemap_v2" | "log_spacemap" => without(&[]),
        "head_errlog" | "vdev_zaps_v2" => without(&["grub2"]),
        "zilsaxattr" => without(&["default", "enc", "many", "streams", "vol"]),
        "large_blocks" => vec!["codecs", "gang"],
        "bookmarks" | "bookmark_v2" | "bookmark_written" | "livelist" => vec!["default"],
        "large_dnode" | "sha512" | "skein" | "edonr" | "zstd_compress" | "blake3"
        | "block_cloning" | "fast_dedup" | "longname" => vec!["codecs"],
        "encryption" => vec!["enc"],
        "device_removal" | "obsolete_counts" => vec!["removed"],
        "zpool_checkpoint" => vec!["checkpoint"],
        "allocation_classes" => vec!["classes"],
        "draid" => vec!["draid"],
        "raidz_expansion" => vec!["expanded"],
        _ => Vec::new(),
    }
}

const HEAD: &str = "# Feature flags

Every feature of OpenZFS 2.4, in the order of its lists, and what is done with a pool on which it is active. Written by
`cargo xtask features` from the table in `crates/format`, which also decides; tests compare both with this list, and the
pools with what OpenZFS printed of them.

*Read*: the pool is imported read-only; where it says no, the pool is refused by the name of the feature or of what it
has. *Written*: it is imported for writing, and the feature is maintained, activated and counted down; new pools have it
enabled, unless it is newer than 2.3. *Write-only*: software that does not know it may still read the pool.

The last column names the golden pools, made by OpenZFS 2.3.9, on which it is active: where they can be read, their
files are compared with what OpenZFS saw. Those in bold are also changed by tests, with zdb finding nothing wrong
afterwards. What stands there as *none* was seen on no pool of OpenZFS.

| feature | read | written | write-only | active on |
|---|---|---|---|---|
";

/// The text of `docs/feature_flags.md`.
#[must_use]
pub fn text() -> String {
    let mut text = HEAD.to_owned();
    for feature in ALL {
        let (read, written) = match feature.support {
            Support::Write => ("yes", "yes"),
            Support::ReadOnly => ("yes", "no"),
            Support::None => ("no", "no"),
        };
        let write_only = if feature.read_only_compatible {
            "yes"
        } else {
            "no"
        };
        let _ = writeln!(
            text,
            "| `{}` | {read} | {written} | {write_only} | {} |",
            feature.name,
            pools(&active_on(feature))
        );
    }
    text
}

/// The golden pools in words: those that are not there where nearly all are.
fn pools(active: &[&str]) -> String {
    if active.is_empty() {
        return "*none*".to_owned();
    }
    let is_there = |(pool, _): &(&str, bool)| active.contains(pool);
    let (there, missing): (Vec<_>, Vec<(&str, bool)>) = POOLS.into_iter().partition(is_there);
    if missing.is_empty() {
        return "all with features".to_owned();
    }
    if missing.len() < 6 {
        let missing: Vec<&str> = missing.into_iter().map(|(pool, _)| pool).collect();
        return format!("all with features but {}", missing.join(", "));
    }
    let shown = there
        .into_iter()
        .map(|(pool, is_changed)| match is_changed {
            true => format!("**{pool}**"),
            false => pool.to_owned(),
        });
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
