//! Flags that several commands of `zpool` have, and what they mean.

use std::path::PathBuf;

use admin::rows::pool::ALTROOT;
use admin::{Assignments, VdevNaming};
use base::clock::{Clock, SystemClock};

use crate::grammar::{Flag, Invocation, option, switch};
use crate::output::{Stop, usage};
use crate::render::JsonOptions;

pub(super) const JSON_GUID: Flag = switch("json-pool-key-guid", "pools under their guids in JSON");
pub(super) const BY_GUID: Flag = switch("g", "name vdevs by guid");
pub(super) const RESOLVE: Flag = switch("L", "name vdevs by the path that links lead to");
pub(super) const FULL_PATH: Flag = switch("P", "name vdevs by their whole path");
pub(super) const TIMESTAMP: Flag = option("T", "u|d", "print the time first");
pub(super) const ALTERNATE_ROOT: Flag =
    option("R", "root", "mount everything below this directory");
pub(super) const POOL: &str = "missing pool argument";

/// How `-g`, `-L` and `-P` name vdevs.
pub(super) fn naming(call: &Invocation) -> VdevNaming {
    VdevNaming {
        guid: call.has("g"),
        resolve: call.has("L"),
        full: call.has("P"),
    }
}

pub(super) fn json_options(call: &Invocation) -> JsonOptions {
    JsonOptions {
        exact: call.has("p") || call.has("json-int"),
        integers: call.has("json-int"),
        guid_keys: call.has("json-pool-key-guid"),
        flat_vdevs: call.has("json-flat-vdevs"),
        ..JsonOptions::default()
    }
}

/// The time that `-T` asks for.
pub(super) fn timestamp(call: &Invocation) -> Result<String, Stop> {
    let now = SystemClock.now_s();
    match call.value("T") {
        None => Ok(String::new()),
        Some("u") => Ok(format!("{now}\n")),
        Some("d") => Ok(format!("{}\n", admin::moment(now))),
        Some(_) => Err(usage("invalid -T argument: must be 'u' or 'd'")),
    }
}

/// `-R`, or the property of this name, which is of this import only.
pub(super) fn altroot(call: &Invocation, properties: &mut Assignments) -> Option<PathBuf> {
    let named = properties.iter().position(|(name, _)| ALTROOT.is(name));
    let named = match named.map(|at| properties.remove(at).1) {
        Some(admin::Value::Text(text)) => Some(PathBuf::from(text)),
        _ => None,
    };
    call.value("R").map(PathBuf::from).or(named)
}

/// The pools named, or none for `-a`, which means all.
pub(super) fn all_or_named(call: &Invocation) -> Result<Vec<String>, Stop> {
    match (call.has("a"), call.operands().is_empty()) {
        (true, false) => Err(usage("too many arguments")),
        (false, true) => Err(usage("missing pool argument")),
        _ => Ok(call.operands().to_vec()),
    }
}
