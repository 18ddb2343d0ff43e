//! `zfs mount` and `zfs unmount`.

use admin::changes::{Mount, Unmount};
use admin::client::{self, Connection};
use admin::{Change, Failure, FailureKind};

use super::keys::{forget, load_missing, roots};
use super::selection::at_path;
use crate::daemons::{change, each, ended, mounted, pool_of, running};
use crate::flags::JSON;
use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::output::{Outcome, cannot, print, usage};
use crate::render::{Json, JsonOptions};

/// `zfs mount`.
pub(super) const MOUNT: Command = Command {
    name: "mount",
    aliases: &[],
    summary: "Mount file systems, or list what is mounted.",
    forms: &["", "-a", "filesystem"],
    flags: &[
        JSON,
        switch("a", "all that may be mounted"),
        switch("f", "even if redacted"),
        switch("l", "load keys first"),
        switch("O", "mount over a directory that is not empty"),
        switch("R", "include descendants"),
        switch("v", "show what is mounted"),
        option("o", "options", "temporary mount options"),
    ],
    operands: Operands::between(0, 1, ""),
    run: mount,
};

/// `zfs unmount`.
pub(super) const UNMOUNT: Command = Command {
    name: "unmount",
    aliases: &["umount"],
    summary: "Unmount file systems.",
    forms: &["-a", "filesystem|mountpoint"],
    flags: &[
        switch("a", "all"),
        switch("f", "even if other mount namespaces have copies"),
        switch("u", "unload keys too"),
    ],
    operands: Operands::between(0, 1, ""),
    run: unmount,
};

fn mount(call: &Invocation) -> Outcome {
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
        (true, None) => {
            let mut loaded = Ok(());
            if call.has("l") {
                for mut connection in client::running_own()?.connections {
                    // What has its key is mounted all the same.
                    loaded = load_missing(&mut connection, None, true).and(loaded);
                }
            }
            everywhere(&|| make(None), &call.line).and(loaded)
        }
        (false, Some(name)) => {
            admin::check_dataset(name).map_err(|error| cannot("open", name, error))?;
            let mut connection = pool_of(name)?;
            if call.has("l") {
                load_missing(&mut connection, Some(name), call.has("R"))?;
            }
            change(&mut connection, make(Some(name.clone())), &call.line)
        }
        (false, None) => list(call.has("j")),
    }
}

fn list(json: bool) -> Outcome {
    let mut lines = String::new();
    let mut datasets = serde_json::Map::new();
    let (connections, complete) = running()?;
    for mut connection in connections {
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
    print(&lines)?;
    ended(complete)
}

fn everywhere(make: &dyn Fn() -> Change, line: &str) -> Outcome {
    each(&[], &mut |mut connection| {
        change(&mut connection, make(), line)
    })
}

fn unmount(call: &Invocation) -> Outcome {
    let make = |name: Option<String>| {
        Change::Unmount(Unmount {
            name,
            force: call.has("f"),
        })
    };
    let away = |mut connection: Connection, name: String| {
        change(&mut connection, make(Some(name.clone())), &call.line)?;
        if call.has("u") {
            unload(&mut connection, &name)?;
        }
        Ok(())
    };
    match (call.has("a"), call.operands().first()) {
        (true, Some(_)) => Err(usage("too many arguments")),
        (true, None) => everywhere(&|| make(None), &call.line),
        (false, None) => Err(usage("missing filesystem argument")),
        (false, Some(name)) if name.starts_with('/') => {
            let dataset = at_path(name).map_err(|failure| {
                if failure.kind != FailureKind::Missing {
                    return failure;
                }
                let reason = "not a ZFS filesystem";
                Failure::cannot(FailureKind::Missing, "unmount", name, reason)
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
            away(connection, dataset)
        }
        (false, Some(name)) => away(pool_of(name)?, name.clone()),
    }
}

/// Forgets the key that an unmounted file system had, if it has one of its own.
fn unload(connection: &mut Connection, name: &str) -> Outcome {
    let found = roots(connection, name, false).unwrap_or_default();
    match found.iter().find(|root| root.name == name && root.loaded) {
        Some(root) => forget(connection, &root.name),
        None => Ok(()),
    }
}
