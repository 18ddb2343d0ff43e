//! `zpool import` without a pool: what could be imported.

use admin::{ImportCandidate, ImportState, VdevClass, VdevNaming};

use super::tree::{GROUPS, lines};

/// The whole list, entries separated by empty lines.
#[must_use]
pub(crate) fn import_list(candidates: &[ImportCandidate], naming: VdevNaming) -> String {
    candidates
        .iter()
        .map(|found| entry(found, naming))
        .collect::<Vec<_>>()
        .join("\n")
}

fn entry(found: &ImportCandidate, naming: VdevNaming) -> String {
    let blank = if found.comment.is_some() { " " } else { "" };
    let destroyed = if found.destroyed { " (DESTROYED)" } else { "" };
    let mut out = format!(
        "{blank}  pool: {}\n{blank}    id: {}\n{blank} state: {}{destroyed}\n",
        found.name,
        found.guid,
        found.state.word()
    );
    let (status, action) = texts(found);
    if let Some(status) = status {
        out += &format!("{blank}status: {status}\n");
    }
    out += &format!("{blank}action: {action}\n");
    if let Some(comment) = &found.comment {
        out += &format!("comment: {comment}\n");
    }
    if let Some(id) = message_id(found) {
        out +=
            &format!("{blank}   see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-{id}\n");
    }
    out += &format!("{blank}config:\n\n");
    out += &config(found, naming);
    out
}

fn texts(found: &ImportCandidate) -> (Option<String>, String) {
    const READY: &str = "The pool can be imported using its name or numeric identifier.";
    let pair = |status: &str, action: &str| (Some(status.to_owned()), action.to_owned());
    match &found.import {
        ImportState::Ready if found.destroyed => (
            None,
            "The pool can be imported using its name or numeric identifier and\n\tthe '-Df' flags."
                .to_owned(),
        ),
        ImportState::Ready => (None, READY.to_owned()),
        ImportState::LegacyVersion => pair(
            "The pool is formatted using a legacy on-disk version.",
            "The pool can be imported using its name or numeric identifier, though\n\tsome features \
             will not be available without an explicit 'zpool upgrade'.",
        ),
        ImportState::FeaturesDisabled => pair(
            "Some supported features are not enabled on the pool.\n\t(Note that they may be \
             intentionally disabled if the\n\t'compatibility' property is set.)",
            "The pool can be imported using its name or numeric identifier, though\n\tsome features \
             will not be available without an explicit 'zpool upgrade'.",
        ),
        ImportState::UsedElsewhere => pair(
            "The pool was last accessed by another system.",
            "The pool can be imported using its name or numeric identifier and\n\tthe '-f' flag.",
        ),
        ImportState::PerhapsInKernel => pair(
            "The pool was not exported, and the kernel's ZFS module is here (/dev/zfs), which\n\tmay have \
             it open.",
            "The pool can be imported using its name or numeric identifier and\n\tthe '-f' flag, if \
             OpenZFS's 'zpool list' does not know it.",
        ),
        ImportState::Active { host, host_id } => (
            Some("The pool is currently imported by another system.".to_owned()),
            format!(
                "The pool must be exported from {host} (hostid={host_id:x})\n\tbefore it can be \
                 safely imported."
            ),
        ),
        ImportState::InUse { by } => (
            Some(format!(
                "The pool is in use by {} on this system.",
                by.as_deref().unwrap_or("another process")
            )),
            "The pool must be exported there before it can be imported.".to_owned(),
        ),
        ImportState::NoHostId => pair(
            "The pool has the multihost property on.  It cannot\n\tbe safely imported when the system \
             hostid is not set.",
            "Set a unique system hostid with the zgenhostid(8) command.",
        ),
        ImportState::Degraded => pair(
            "One or more devices are missing from the system.",
            "The pool can be imported despite missing or damaged devices.  The\n\tfault tolerance \
             of the pool may be compromised if imported.",
        ),
        ImportState::MissingDevices
        | ImportState::CorruptData
        | ImportState::UnsupportedVersion
        | ImportState::UnsupportedFeatures(_)
        | ImportState::ReadOnlyFeatures(_) => texts_of_refusal(found),
    }
}

/// Of pools that cannot be imported as they are.
fn texts_of_refusal(found: &ImportCandidate) -> (Option<String>, String) {
    let pair = |status: &str, action: &str| (Some(status.to_owned()), action.to_owned());
    match &found.import {
        ImportState::MissingDevices => pair(
            "One or more devices are missing from the system.",
            "The pool cannot be imported. Attach the missing\n\tdevices and try again.",
        ),
        ImportState::CorruptData => pair(
            "One or more devices contains corrupted data.",
            "The pool cannot be imported due to damaged devices or data.",
        ),
        ImportState::UnsupportedVersion => pair(
            "The pool is formatted using an incompatible version.",
            "The pool cannot be imported.  Access the pool on a system running newer\n\tsoftware, \
             or recreate the pool from backup.",
        ),
        ImportState::UnsupportedFeatures(features) => (
            Some(with_features(
                "The pool uses the following feature(s) not supported on this system:",
                features,
            )),
            "The pool cannot be imported. Access the pool on a system that supports\n\tthe required \
             feature(s), or recreate the pool from backup."
                .to_owned(),
        ),
        ImportState::ReadOnlyFeatures(features) => (
            Some(with_features(
                "The pool can only be accessed in read-only mode on this system. It\n\tcannot be \
                 accessed in read-write mode because it uses the following\n\tfeature(s) not \
                 supported on this system:",
                features,
            )),
            "The pool cannot be imported in read-write mode. Import the pool with\n\t'-o \
             readonly=on', access the pool on a system that supports the\n\trequired feature(s), or \
             recreate the pool from backup."
                .to_owned(),
        ),
        // Said above.
        ImportState::Ready
        | ImportState::LegacyVersion
        | ImportState::FeaturesDisabled
        | ImportState::UsedElsewhere
        | ImportState::PerhapsInKernel
        | ImportState::Active { .. }
        | ImportState::InUse { .. }
        | ImportState::NoHostId
        | ImportState::Degraded => (None, String::new()),
    }
}

fn with_features(text: &str, features: &[String]) -> String {
    features
        .iter()
        .fold(text.to_owned(), |text, feature| text + "\n\t" + feature)
}

const fn message_id(found: &ImportCandidate) -> Option<&'static str> {
    match found.import {
        ImportState::UsedElsewhere | ImportState::Active { .. } => Some("EY"),
        ImportState::Degraded => Some("2Q"),
        ImportState::MissingDevices => Some("3C"),
        ImportState::CorruptData => Some("5E"),
        ImportState::UnsupportedVersion => Some("A5"),
        ImportState::Ready
        | ImportState::LegacyVersion
        | ImportState::FeaturesDisabled
        | ImportState::PerhapsInKernel
        | ImportState::InUse { .. }
        | ImportState::UnsupportedFeatures(_)
        | ImportState::NoHostId
        | ImportState::ReadOnlyFeatures(_) => None,
    }
}

fn config(found: &ImportCandidate, naming: VdevNaming) -> String {
    let classes = || std::iter::once((VdevClass::Normal, "")).chain(GROUPS);
    let mut width = 10.max(found.name.chars().count());
    for (class, _) in classes() {
        for line in lines(&found.vdevs, class) {
            width = width.max(2 * line.depth + naming.name(line.vdev).chars().count());
        }
    }
    let mut out = format!("\t{:width$}  {}\n", found.name, found.state.word());
    for (class, head) in classes() {
        let group = lines(&found.vdevs, class);
        if !head.is_empty() && !group.is_empty() {
            out += &format!("\t{head}\n");
        }
        for line in group {
            let name = format!("{}{}", "  ".repeat(line.depth), naming.name(line.vdev));
            if matches!(class, VdevClass::Cache | VdevClass::Spare) {
                out += &format!("\t{name}\n");
                continue;
            }
            let cause = line
                .vdev
                .cause
                .as_ref()
                .map_or(String::new(), |c| format!("  {}", c.text()));
            out += &format!("\t{name:width$}  {}{cause}\n", line.vdev.state.word());
        }
    }
    out
}
