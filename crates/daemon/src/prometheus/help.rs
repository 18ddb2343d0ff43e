//! One line about each family of instruments; what `docs/internals/instruments.md` says at length.

use admin::MetricFamily as Family;

/// The line of an instrument.
pub(super) fn instrument(name: &str) -> String {
    match Family::of(name) {
        Family::Lock { what, .. } => format!("Locks by class: {}.", words(what)),
        Family::Queue { what, .. } => format!("Bounded queues: {}.", words(what)),
        Family::Device {
            class: Some(_),
            what,
            ..
        } => {
            format!("Devices by class of I/O: {}.", words(what))
        }
        Family::Device { what, .. } => format!("Devices: {}.", words(what)),
        Family::Fuse { .. } => {
            "From a request's arrival from the kernel to its answer, by operation.".to_owned()
        }
        Family::Other => match about(name) {
            Some(about) => format!("{about}: {}.", words(rest(name))),
            None => format!("{}.", words(name)),
        },
    }
}

/// What a group of instruments is about.
fn about(name: &str) -> Option<&'static str> {
    Some(match name.split('.').next()? {
        "bytes" => "Bytes that pass each level",
        "window" => "Bytes in windows of a second, of the last 300 s",
        "dirty" => "Changes that wait in memory for a txg",
        "cache" => "The cache of blocks",
        "pipeline" => "Reading and writing of blocks",
        "txg" => "Transaction groups",
        "dmu" => "Objects",
        "dsl" => "Datasets",
        "space" => "Free space in memory",
        "prefetch" => "Reading ahead",
        "fuse" => "Requests of the kernel",
        _ => return None,
    })
}

/// The name without its group.
fn rest(name: &str) -> &str {
    name.split_once('.').map_or(name, |(_, rest)| rest)
}

fn words(name: &str) -> String {
    name.replace(['.', '_'], " ")
}
