//! `zfs upgrade`: the versions of file systems.

use admin::changes::Set;
use admin::rows::dataset::VERSION;
use admin::{Change, Failure, FailureKind, Selection, Types, Value};

use super::flags::RECURSIVE;
use super::selection::{Wanted, collect};
use crate::daemons::{change, ended, pool_of};
use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::output::{Outcome, Stop, complain, print, usage};

/// `zfs upgrade`.
pub(super) const COMMAND: Command = Command {
    name: "upgrade",
    aliases: &[],
    summary: "Raise the versions of file systems, or list what could be raised.",
    forms: &["", "-v", "-a | filesystem ..."],
    flags: &[
        RECURSIVE,
        switch("a", "all file systems"),
        switch("v", "list the versions supported"),
        option("V", "version", "to this version"),
    ],
    operands: Operands::ANY,
    run: upgrade,
};

/// The newest version.
const CURRENT: u64 = 5;

const VERSIONS: &str = "\
The following filesystem versions are supported:

VER  DESCRIPTION
---  --------------------------------------------------------
 1   Initial ZFS filesystem version
 2   Enhanced directory entries
 3   Case insensitive and filesystem user identifier (FUID)
 4   userquota, groupquota properties
 5   System attributes

For more information on a particular version, including supported releases,
see the ZFS Administration Guide.

";

const OUTDATED: &str = "\
The following filesystems are out of date, and can be upgraded.  After being
upgraded, these filesystems (and any 'zfs send' streams generated from
subsequent snapshots) will no longer be accessible by older software versions.

VER  FILESYSTEM
---  ------------
";

fn upgrade(call: &Invocation) -> Outcome {
    let names = call.operands();
    if call.has("v") {
        return if names.is_empty() {
            print(VERSIONS)
        } else {
            Err(usage("too many arguments"))
        };
    }
    let version = match call.value("V") {
        None => CURRENT,
        Some(text) => text
            .parse()
            .ok()
            .filter(|version| (1..=CURRENT).contains(version))
            .ok_or_else(|| usage(format!("invalid version {text}")))?,
    };
    match (call.has("a"), names) {
        (true, []) => raise(call, &[], None, version),
        (false, [_, ..]) => raise(call, names, Some(call.has("r")), version),
        (false, []) if call.value("V").is_none() && !call.has("r") => show(),
        _ => Err(usage("either '-a' or file systems")),
    }
}

/// File systems with their versions; `recursive`: those named, or none for all there are.
fn versions(names: &[String], recursive: Option<bool>) -> Result<(Vec<(String, u64)>, bool), Stop> {
    let wanted = Wanted {
        types: Some(Types::FILESYSTEM),
        depth: recursive.map(|below| if below { None } else { Some(0) }),
        properties: Selection::Names(vec![VERSION.name.to_owned()]),
        implied: Types::FILESYSTEM,
    };
    let (mut rows, complete) = collect(names, &wanted)?;
    admin::sort_datasets(&mut rows, &[]);
    let of_row = |row: &admin::DatasetRow| match row.get(VERSION.name).map(|set| &set.value) {
        Some(Value::Number(version)) => Some((row.name.clone(), *version)),
        _ => None,
    };
    Ok((rows.iter().filter_map(of_row).collect(), complete))
}

fn show() -> Outcome {
    let (found, complete) = versions(&[], None)?;
    let mut out = format!("This system is currently running ZFS filesystem version {CURRENT}.\n\n");
    let old: Vec<_> = found
        .iter()
        .filter(|(_, version)| *version < CURRENT)
        .collect();
    if old.is_empty() {
        out += "All filesystems are formatted with the current version.\n";
    } else {
        out += OUTDATED;
    }
    for (name, version) in old {
        out += &format!("{version:2}   {name}\n");
    }
    print(&out)?;
    ended(complete)
}

fn raise(call: &Invocation, names: &[String], recursive: Option<bool>, to: u64) -> Outcome {
    let (found, mut complete) = versions(names, recursive)?;
    let (mut raised, mut same) = (0_u32, 0_u32);
    for (name, version) in found {
        if version > to {
            let text = format!("{name}: can not be downgraded; it is already at version {version}");
            complain(&Failure::new(FailureKind::Invalid, text));
            complete = false;
        } else if version == to {
            same += 1;
        } else {
            let request = Change::Set(Set {
                names: vec![name.clone()],
                properties: vec![(VERSION.name.to_owned(), Value::Number(to))],
                keep_mounts: false,
            });
            match change(&mut pool_of(&name)?, request, &call.line) {
                Ok(()) => raised += 1,
                Err(Stop::Failure(failure)) => {
                    complain(&failure);
                    complete = false;
                }
                Err(other) => return Err(other),
            }
        }
    }
    let mut out = format!("{raised} filesystems upgraded\n");
    if same > 0 {
        out += &format!("{same} filesystems already at this version\n");
    }
    print(&out)?;
    ended(complete)
}
