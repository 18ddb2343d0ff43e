//! Pools that were served here and are not.

use admin::{KnownPool, LastSeen, moment};
use std::path::PathBuf;

/// More files of a pool are counted, not named.
const NAMED_MAX: usize = 2;

/// The line about a known pool that does not run: since when, where it is, and how it comes back.
pub(crate) fn not_running(pool: &KnownPool, is_gone: bool) -> String {
    let (name, images) = (&pool.name, images(&pool.devices));
    let since = match pool.last_seen() {
        LastSeen::Ended(then) => format!(" since {}", moment(then)),
        LastSeen::Written(then) => format!(" (last written {})", moment(then)),
        LastSeen::Began(then) => format!(" (last started {})", moment(then)),
    };
    let begin = format!("{name}: not running{since}, {images}");
    if !is_gone {
        return format!("{begin}: millpond zpool import {name}");
    }
    let verb = if pool.devices.len() == 1 { "is" } else { "are" };
    format!(
        "{begin} {verb} gone: millpond zpool import -d DIRECTORY {name}, or millpond zpool export {name} to forget it"
    )
}

fn images(paths: &[PathBuf]) -> String {
    let named = paths
        .iter()
        .take(NAMED_MAX)
        .map(|path| path.display().to_string());
    let named: Vec<String> = named.collect();
    let word = if paths.len() == 1 { "image" } else { "images" };
    let named = named.join(", ");
    match paths.len().saturating_sub(NAMED_MAX) {
        0 => format!("{word} {named}"),
        more => format!("{word} {named} and {more} more"),
    }
}
