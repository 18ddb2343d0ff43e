//! `zfs mount` and `zfs unmount`.

use admin::changes::{Mount, Unmount};
use admin::{Change, Failure, FailureKind, client};

use crate::render::{Json, JsonOptions};

use super::list::at_path;
use crate::Outcome;
use crate::daemons::{change, ended, mounted, pool_of};
use crate::grammar::Invocation;
use crate::output::{Stop, complain, print, usage};

pub(crate) fn mount(call: &Invocation) -> Outcome {
    let options: Vec<String> = call
        .values("o")
        .flat_map(|text| text.split(','))
        .map(str::to_owned)
        .collect();
    let make = |name: Option<String>| {
        Change::Mount(Mount {
            name,
            at: None,
            options: options.clone(),
            overlay: call.has("O"),
            force: call.has("f"),
            recursive: call.has("R"),
        })
    };
    match (call.has("a"), call.operands().first()) {
        (true, Some(_)) => Err(usage("too many arguments")),
        (true, None) => everywhere(&|| make(None), &call.line),
        (false, Some(name)) => change(&mut pool_of(name)?, make(Some(name.clone())), &call.line),
        (false, None) => list(call.has("j")),
    }
}

fn list(json: bool) -> Outcome {
    let mut lines = String::new();
    let mut datasets = serde_json::Map::new();
    for mut connection in client::running()? {
        for mount in mounted(&mut connection)? {
            let path = mount.path.to_string_lossy();
            lines += &format!("{:<30}  {path}\n", mount.dataset);
            let entry = serde_json::json!({"filesystem": mount.dataset, "mountpoint": path});
            datasets.insert(mount.dataset, entry);
        }
    }
    if json {
        let mut document = Json::new("zfs mount", JsonOptions::default());
        document.member("datasets", datasets.into());
        lines = document.text();
    }
    print(&lines)
}

fn everywhere(make: &dyn Fn() -> Change, line: &str) -> Outcome {
    let mut complete = true;
    for mut connection in client::running()? {
        match change(&mut connection, make(), line) {
            Err(Stop::Failure(failure)) => {
                complain(&failure);
                complete = false;
            }
            Err(_) => complete = false,
            Ok(()) => {}
        }
    }
    ended(complete)
}

pub(crate) fn unmount(call: &Invocation) -> Outcome {
    let make = |name: Option<String>| {
        Change::Unmount(Unmount {
            name,
            force: call.has("f"),
        })
    };
    match (call.has("a"), call.operands().first()) {
        (true, Some(_)) => Err(usage("too many arguments")),
        (true, None) => everywhere(&|| make(None), &call.line),
        (false, None) => Err(usage("missing filesystem argument")),
        (false, Some(name)) if name.starts_with('/') => {
            let dataset = at_path(name).map_err(|_| {
                Failure::cannot(
                    FailureKind::Missing,
                    "unmount",
                    name,
                    "not a ZFS filesystem",
                )
            })?;
            let mut connection = pool_of(&dataset)?;
            let real = std::fs::canonicalize(name).unwrap_or_else(|_| name.into());
            let root = mounted(&mut connection)?
                .iter()
                .any(|mount| mount.path == real);
            if !root {
                let reason = "not a mountpoint";
                return Err(Failure::cannot(FailureKind::Invalid, "unmount", name, reason).into());
            }
            change(&mut connection, make(Some(dataset)), &call.line)
        }
        (false, Some(name)) => change(&mut pool_of(name)?, make(Some(name.clone())), &call.line),
    }
}
