//! `zpool import` without a pool: what could be imported.

use admin::{
    ImportCandidate, ImportState, VdevCause, VdevClass, VdevNaming, VdevReport, VdevState,
};

use super::tree::{GROUPS, Line, lines};

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
    if found.destroyed && asks_for_no_force(&found.import) {
        out += "\tThe pool was destroyed, but can be imported using the '-Df' flags.\n";
    }
    if let Some(comment) = &found.comment {
        out += &format!("comment: {comment}\n");
    }
    if let Some(id) = message_id(found) {
        out +=
            &format!("{blank}   see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-{id}\n");
    }
    out += &format!("{blank}config:\n\n");
    out += &config(found, naming);
    if lacks_unknown(found) {
        out += "\n\tAdditional devices are known to be part of this pool, though their\n\texact \
                configuration cannot be determined.\n";
    }
    out
}

/// Whether the action says that the pool can be imported, and nothing of flags.
const fn asks_for_no_force(import: &ImportState) -> bool {
    matches!(
        import,
        ImportState::LegacyVersion | ImportState::FeaturesDisabled | ImportState::Degraded
    )
}

/// Whether top-level vdevs are missing of which nothing is known.
fn lacks_unknown(found: &ImportCandidate) -> bool {
    found.import == ImportState::MissingDevices && found.vdevs.iter().any(is_unknown)
}

/// Whether nothing is known of a top-level vdev but its number.
fn is_unknown(vdev: &VdevReport) -> bool {
    vdev.cause == Some(VdevCause::MissingDevice)
}

/// What is known of a class. A label may claim any number of others.
fn known_lines(vdevs: &[VdevReport], class: VdevClass) -> Vec<Line<'_>> {
    let mut found = lines(vdevs, class);
    found.retain(|line| !is_unknown(line.vdev));
    found
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
        ImportState::Unknown => pair(
            "The pool's devices were not read in time to tell whether it can be imported.",
            "The pool may be imported using its name or numeric identifier.",
        ),
        ImportState::MissingDevices
        | ImportState::MissingLogs
        | ImportState::CorruptData(_)
        | ImportState::UnsupportedVersion
        | ImportState::UnsupportedVdev(_)
        | ImportState::UnsupportedFeatures(_)
        | ImportState::ReadOnlyFeatures(_)
        | ImportState::ReadOnly(_)
        | ImportState::Refused(_) => texts_of_refusal(found),
    }
}

const ATTACH: &str = "The pool cannot be imported. Attach the missing\n\tdevices and try again.";
const UNSUPPORTED: &str = "The pool cannot be imported. Access the pool on a system that supports\n\tthe required \
                           feature(s), or recreate the pool from backup.";
const READ_ONLY: &str = "The pool cannot be imported in read-write mode. Import the pool with\n\t'-o readonly=on', \
                         access the pool on a system that supports the\n\trequired feature(s), or recreate the pool \
                         from backup.";

/// Of pools that cannot be imported as they are.
fn texts_of_refusal(found: &ImportCandidate) -> (Option<String>, String) {
    const MISSING: &str = "One or more devices are missing from the system.";
    let pair = |status: String, action: &str| (Some(status), action.to_owned());
    match &found.import {
        ImportState::MissingDevices => pair(MISSING.to_owned(), ATTACH),
        ImportState::MissingLogs => pair(
            MISSING.to_owned(),
            &format!(
                "{ATTACH}\n\tIt can be imported without its log devices, using the '-m' flag."
            ),
        ),
        ImportState::CorruptData(reason) => pair(
            format!("The pool metadata is corrupted.\n\t({reason})"),
            "The pool cannot be imported due to damaged devices or data.",
        ),
        ImportState::UnsupportedVersion => pair(
            "The pool is formatted using an incompatible version.".to_owned(),
            "The pool cannot be imported.  Access the pool on a system running newer\n\tsoftware, \
             or recreate the pool from backup.",
        ),
        ImportState::UnsupportedVdev(kind) => pair(
            format!(
                "The pool has a vdev of a kind that is not supported on this system:\n\t{kind}"
            ),
            UNSUPPORTED,
        ),
        ImportState::UnsupportedFeatures(features) => pair(
            with_features(
                "The pool uses the following feature(s) not supported on this system:",
                features,
            ),
            UNSUPPORTED,
        ),
        ImportState::ReadOnlyFeatures(features) => pair(
            with_features(
                "The pool can only be accessed in read-only mode on this system. It\n\tcannot be \
                 accessed in read-write mode because it uses the following\n\tfeature(s) not \
                 supported on this system:",
                features,
            ),
            READ_ONLY,
        ),
        ImportState::ReadOnly(reason) => pair(
            format!("The pool can only be accessed in read-only mode on this system:\n\t{reason}."),
            "The pool cannot be imported in read-write mode. Import the pool with\n\t'-o readonly=on'.",
        ),
        ImportState::Refused(reason) => pair(
            format!("The pool is not as it must be to be imported:\n\t{reason}."),
            "The pool cannot be imported.",
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
        | ImportState::Degraded
        | ImportState::Unknown => (None, String::new()),
    }
}

fn with_features(text: &str, features: &[String]) -> String {
    features
        .iter()
        .fold(text.to_owned(), |text, feature| text + "\n\t" + feature)
}

fn message_id(found: &ImportCandidate) -> Option<&'static str> {
    match found.import {
        ImportState::UsedElsewhere | ImportState::Active { .. } => Some("EY"),
        ImportState::Degraded => Some("2Q"),
        ImportState::MissingDevices if lacks_unknown(found) => Some("6X"),
        ImportState::MissingDevices => Some("3C"),
        ImportState::MissingLogs => Some("6X"),
        ImportState::CorruptData(_) => Some("72"),
        ImportState::UnsupportedVersion => Some("A5"),
        ImportState::Ready
        | ImportState::LegacyVersion
        | ImportState::FeaturesDisabled
        | ImportState::PerhapsInKernel
        | ImportState::InUse { .. }
        | ImportState::UnsupportedVdev(_)
        | ImportState::UnsupportedFeatures(_)
        | ImportState::NoHostId
        | ImportState::ReadOnlyFeatures(_)
        | ImportState::ReadOnly(_)
        | ImportState::Refused(_)
        | ImportState::Unknown => None,
    }
}

fn config(found: &ImportCandidate, naming: VdevNaming) -> String {
    let classes = || std::iter::once((VdevClass::Normal, "")).chain(GROUPS);
    let mut width = 10.max(found.name.chars().count());
    for (class, _) in classes() {
        for line in known_lines(&found.vdevs, class) {
            width = width.max(2 * line.depth + naming.name(line.vdev).chars().count());
        }
    }
    let mut out = row(&found.name, width, found.state, found.cause.as_ref());
    for (class, head) in classes() {
        let group = known_lines(&found.vdevs, class);
        if !head.is_empty() && !group.is_empty() {
            out += &format!("\t{head}\n");
        }
        for line in group {
            let name = format!("{}{}", "  ".repeat(line.depth), naming.name(line.vdev));
            if matches!(class, VdevClass::Cache | VdevClass::Spare) {
                out += &format!("\t{name}\n");
                continue;
            }
            out += &row(&name, width, line.vdev.state, line.vdev.cause.as_ref());
        }
    }
    out
}

fn row(name: &str, width: usize, state: VdevState, cause: Option<&VdevCause>) -> String {
    let cause = cause.map_or(String::new(), |cause| format!("  {}", cause.text()));
    format!("\t{name:width$}  {}{cause}\n", state.word())
}
