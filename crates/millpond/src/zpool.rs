//! The `zpool` command: pools, their devices and their health.

mod add;
mod attach;
mod checkpoint;
mod clear;
pub(crate) mod create;
mod destroy;
mod detach;
mod events;
mod export;
mod flags;
mod get;
mod history;
pub(crate) mod import;
mod initialize;
mod iostat;
mod labelclear;
mod list;
mod offline;
mod remove;
mod reopen;
mod reports;
mod scrub;
mod set;
mod split;
mod status;
mod sync;
mod tables;
mod trim;
mod upgrade;
mod vdev;
pub(crate) mod vdev_specs;
mod wait;

#[cfg(test)]
mod tests;

use crate::grammar::{Command, Program, PropertyTable};

/// `zpool` and its commands.
pub(crate) static PROGRAM: Program = Program {
    name: "zpool",
    summary: "Manage Millpond pools: OpenZFS's format, without its kernel module.",
    properties: &[
        PropertyTable {
            title: "PROPERTIES OF POOLS",
            rows: admin::rows::POOL_PROPERTIES,
        },
        PropertyTable {
            title: "PROPERTIES OF VDEVS",
            rows: admin::rows::VDEV_PROPERTIES,
        },
    ],
    environment: crate::key_material::ENVIRONMENT,
    commands: COMMANDS,
    others: &[],
    absent: &[],
};

static COMMANDS: &[Command] = &[
    create::COMMAND,
    add::COMMAND,
    remove::COMMAND,
    attach::ATTACH,
    detach::COMMAND,
    attach::REPLACE,
    split::COMMAND,
    offline::OFFLINE,
    offline::ONLINE,
    reopen::REOPEN,
    reopen::REGUID,
    checkpoint::COMMAND,
    destroy::COMMAND,
    export::COMMAND,
    import::COMMAND,
    list::COMMAND,
    iostat::COMMAND,
    status::COMMAND,
    get::COMMAND,
    set::COMMAND,
    scrub::COMMAND,
    reopen::RESILVER,
    trim::COMMAND,
    initialize::COMMAND,
    sync::COMMAND,
    clear::COMMAND,
    history::COMMAND,
    events::COMMAND,
    labelclear::COMMAND,
    tables::PRUNE,
    tables::PREFETCH,
    upgrade::COMMAND,
    wait::COMMAND,
    crate::version::COMMAND,
];
