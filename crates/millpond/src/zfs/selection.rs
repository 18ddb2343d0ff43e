//! Which datasets the operands of a command mean.

use std::path::Path;

use admin::client::{self, Connection};
use admin::rows::pool::LISTSNAPSHOTS;
use admin::{DatasetQuery, DatasetRow, Failure, Mounted, Selection, Types, Value};

use crate::daemons::{Pools, datasets, mounted, pool_of, report};
use crate::output::complain;

/// What is asked of every pool.
pub(super) struct Wanted {
    /// Kinds of `-t`.
    pub(super) types: Option<Types>,
    /// Depth of `-r` and `-d`.
    pub(super) depth: Option<Option<u32>>,
    /// Properties.
    pub(super) properties: Selection,
    /// The kinds without `-t` when going down.
    pub(super) implied: Types,
}

/// The datasets that operands name, or all; false if something was complained about. Who asks for all is told of pools
/// that do not run.
pub(super) fn collect(
    operands: &[String],
    wanted: &Wanted,
) -> Result<(Vec<DatasetRow>, bool), Failure> {
    let mut rows: Vec<DatasetRow> = Vec::new();
    let mut complete = true;
    if operands.is_empty() {
        let pools = Pools::find()?;
        pools.note_absent();
        complete = pools.complete();
        for mut connection in pools.running {
            let types = wanted
                .types
                .unwrap_or_else(|| implied(&mut connection, wanted.implied));
            let query = DatasetQuery {
                roots: Vec::new(),
                depth: wanted.depth.flatten(),
                types,
                properties: wanted.properties.clone(),
            };
            let (found, whole) = datasets(&mut connection, query)?;
            rows.extend(found);
            complete &= whole;
        }
        return Ok((rows, complete));
    }
    for operand in operands {
        match named(operand, wanted) {
            Ok((found, whole)) => {
                complete &= whole;
                for row in found {
                    if !rows.iter().any(|present| present.name == row.name) {
                        rows.push(row);
                    }
                }
            }
            Err(failure) => {
                complain(&failure);
                complete = false;
            }
        }
    }
    Ok((rows, complete))
}

/// File systems and volumes, and snapshots where the pool lists them.
fn implied(connection: &mut Connection, types: Types) -> Types {
    let asked = Selection::Names(vec![LISTSNAPSHOTS.name.to_owned()]);
    let lists = report(connection, asked).is_ok_and(|report| {
        report
            .get(LISTSNAPSHOTS.name)
            .is_some_and(|set| set.value == Value::Number(1))
    });
    if lists {
        types.union(Types::SNAPSHOT)
    } else {
        types
    }
}

fn named(operand: &str, wanted: &Wanted) -> Result<(Vec<DatasetRow>, bool), Failure> {
    let name = if operand.starts_with(['/', '.']) {
        at_path(operand)?
    } else {
        operand.to_owned()
    };
    if let Err(error) = admin::check_name(&name) {
        return Err(Failure::cannot(
            admin::FailureKind::Invalid,
            "open",
            &name,
            error,
        ));
    }
    let mut connection = pool_of(&name)?;
    let below_only = wanted
        .types
        .is_some_and(|types| !types.intersects(Types::HEADS));
    let head = admin::kind_of(&name) == admin::NameKind::Dataset;
    let depth = match wanted.depth {
        Some(depth) => depth,
        // `zfs list -t snapshot tank` means the snapshots of tank.
        None if below_only && head => Some(1),
        None => Some(0),
    };
    let types = match wanted.types {
        Some(types) => types,
        // What is named is meant, whatever it is.
        None if depth == Some(0) => Types::ALL,
        None => implied(&mut connection, wanted.implied),
    };
    let query = DatasetQuery {
        roots: vec![name],
        depth,
        types,
        properties: wanted.properties.clone(),
    };
    datasets(&mut connection, query)
}

/// The pool of the mount in which a path is: the kernel knows it, so that daemons of other pools need not be asked.
fn pool_at(path: &Path) -> Option<String> {
    let mounts = sys::mounted_entries().ok()?.into_iter();
    let around = mounts.filter(|mount| path.starts_with(&mount.path));
    // Of two at one place, the later one lies upon the other.
    let innermost = around.max_by_key(|mount| mount.path.as_os_str().len())?;
    let dataset = String::from_utf8(innermost.source).ok()?;
    let is_ours = innermost.kind == daemon::MOUNT_KIND;
    is_ours.then(|| admin::pool_of(&dataset).to_owned())
}

/// The file system in which a path is.
pub(super) fn at_path(path: &str) -> Result<String, Failure> {
    let cannot = |reason: &dyn std::fmt::Display| {
        Failure::cannot(admin::FailureKind::Missing, "open", path, reason)
    };
    let real = std::fs::canonicalize(path).map_err(|error| cannot(&error))?;
    let mut best: Option<Mounted> = None;
    let serving = match pool_at(&real) {
        Some(pool) => client::connect(&pool)?,
        None => None,
    };
    let mounts = match serving {
        Some(mut connection) => mounted(&mut connection)?,
        None => Vec::new(),
    };
    for mount in mounts {
        let deeper = best
            .as_ref()
            .is_none_or(|best| mount.path.as_os_str().len() > best.path.as_os_str().len());
        if deeper && real.starts_with(&mount.path) {
            best = Some(mount);
        }
    }
    best.map(|mount| mount.dataset)
        .ok_or_else(|| cannot(&"not a ZFS filesystem"))
}
