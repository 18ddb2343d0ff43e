//! The `zfs` command: file systems, volumes, snapshots, bookmarks and their properties.

mod allow;
mod bookmark;
mod clone;
mod create;
mod destroy;
mod diff;
mod flags;
mod get;
mod holds;
mod inherit;
pub(crate) mod keys;
mod list;
mod mount;
pub(crate) mod mount_helper;
mod new_dataset;
mod owner_space;
mod program;
mod project;
mod promote;
mod receive;
mod redact;
mod rename;
mod rewrite;
mod rollback;
mod selection;
mod send;
mod set;
mod snapshot;
mod upgrade;
mod wait;

#[cfg(test)]
mod tests;

use crate::grammar::{Command, Program, PropertyTable};

/// `zfs` and its commands.
pub(crate) static PROGRAM: Program = Program {
    name: "zfs",
    summary: "Manage file systems, volumes, snapshots and bookmarks of Millpond pools.",
    properties: &[PropertyTable {
        title: "PROPERTIES",
        rows: admin::rows::DATASET_PROPERTIES,
    }],
    environment: crate::key_material::ENVIRONMENT,
    commands: COMMANDS,
    others: &[],
    absent: &[
        (
            "share",
            "nothing is shared over the network here; export the mounted directory by the NFS or SMB server itself",
        ),
        (
            "unshare",
            "nothing is shared over the network here; export the mounted directory by the NFS or SMB server itself",
        ),
        ("unzone", "there are no zones here"),
        ("zone", "there are no zones here"),
    ],
};

static COMMANDS: &[Command] = &[
    create::COMMAND,
    destroy::COMMAND,
    snapshot::COMMAND,
    rollback::COMMAND,
    clone::COMMAND,
    promote::COMMAND,
    rename::COMMAND,
    bookmark::COMMAND,
    list::COMMAND,
    get::COMMAND,
    set::COMMAND,
    inherit::COMMAND,
    owner_space::USERSPACE,
    owner_space::GROUPSPACE,
    owner_space::PROJECTSPACE,
    project::COMMAND,
    rewrite::COMMAND,
    send::COMMAND,
    receive::COMMAND,
    redact::COMMAND,
    diff::COMMAND,
    mount::MOUNT,
    mount::UNMOUNT,
    keys::LOAD,
    keys::UNLOAD,
    keys::CHANGE,
    holds::HOLD,
    holds::HOLDS,
    holds::RELEASE,
    allow::ALLOW,
    allow::UNALLOW,
    program::COMMAND,
    upgrade::COMMAND,
    wait::COMMAND,
    crate::version::COMMAND,
];
