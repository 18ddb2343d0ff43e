//! The `zpool` command: pools, their devices and their health.

mod change;
mod create;
mod devices;
mod events;
mod history;
mod import;
mod iostat;
mod list;
mod status;
mod upgrade;
mod vdev;
mod wait;

#[cfg(test)]
mod tests;

use crate::grammar::{Command, Flag, Operands, Program, PropertyTable, option, switch};
use crate::zfs::version;

pub(crate) use create::request as create_request;
pub(crate) use import::serve;

const SCRIPTED: Flag = switch("H", "no header, tabs between columns");
const EXACT: Flag = switch("p", "numbers in full");
const JSON: Flag = switch("j", "JSON").or("json");
const JSON_INT: Flag = switch("json-int", "numbers as numbers in JSON");
const JSON_GUID: Flag = switch("json-pool-key-guid", "pools under their guids in JSON");
const BY_GUID: Flag = switch("g", "name vdevs by guid");
const RESOLVE: Flag = switch("L", "name vdevs by the path that links lead to");
const FULL_PATH: Flag = switch("P", "name vdevs by their whole path");
const TIMESTAMP: Flag = option("T", "u|d", "print the time first");
const ALTROOT: Flag = option("R", "root", "mount everything below this directory");
/// Of everything that makes a pool.
pub(crate) const NO_FEATURES: Flag = switch("d", "enable no feature unless named");
/// Likewise.
pub(crate) const POOL_PROPERTY: Flag = option(
    "o",
    "property=value",
    "a pool property or feature@name; may be repeated",
);
/// Likewise.
pub(crate) const ROOT_PROPERTY: Flag = option(
    "O",
    "property=value",
    "a property of the root file system; may be repeated",
);
const POOL: &str = "missing pool argument";

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
    commands: COMMANDS,
};

static COMMANDS: &[Command] = &[
    Command {
        name: "create",
        aliases: &[],
        summary: "Make a pool.",
        forms: &["pool vdev ..."],
        flags: &[
            switch("f", "use devices that look used"),
            switch("n", "only say what would be made"),
            NO_FEATURES,
            POOL_PROPERTY,
            ROOT_PROPERTY,
            option("m", "mountpoint", "where the root file system is mounted"),
            ALTROOT,
            option("t", "tempname", "the pool's name for now"),
            option(
                "size",
                "SIZE",
                "make files of this size where there are none",
            ),
        ],
        operands: Operands::at_least(1, "missing pool name argument"),
        run: create::create,
    },
    Command {
        name: "add",
        aliases: &[],
        summary: "Add devices to a pool.",
        forms: &["pool vdev ..."],
        flags: &[
            switch("f", "use devices that look used, and mixed redundancy"),
            switch("n", "only say what would be added"),
            option("o", "ashift=number", "the sector size as a power of two"),
            option(
                "size",
                "SIZE",
                "make files of this size where there are none",
            ),
        ],
        operands: Operands::at_least(1, "missing pool name argument"),
        run: devices::add,
    },
    Command {
        name: "remove",
        aliases: &[],
        summary: "Remove log devices from a pool.",
        forms: &["pool device ..."],
        flags: &[switch("w", "wait until it is done, as it does anyway")],
        operands: Operands::at_least(2, "missing pool or device argument"),
        run: devices::remove,
    },
    Command {
        name: "destroy",
        aliases: &[],
        summary: "Destroy a pool.",
        forms: &["pool"],
        flags: &[switch("f", "unmount by force")],
        operands: Operands::exactly(1, POOL),
        run: change::destroy,
    },
    Command {
        name: "export",
        aliases: &[],
        summary: "Unmount everything and let pools go.",
        forms: &["pool ...", "-a"],
        flags: &[switch("a", "all pools"), switch("f", "unmount by force")],
        operands: Operands::ANY,
        run: change::export,
    },
    Command {
        name: "import",
        aliases: &[],
        summary: "Import pools, or list those that could be.",
        forms: &["", "-a", "pool|id [newpool]"],
        flags: &[
            switch("a", "all pools found"),
            option("d", "dir|device", "where to look; may be repeated"),
            option("c", "cachefile", "look in a cache file"),
            switch("D", "destroyed pools"),
            switch("f", "even if it was in use elsewhere"),
            switch("F", "go back a few transactions if need be"),
            switch("n", "only try what -F would do"),
            switch("X", "go back as far as it takes"),
            option("T", "txg", "not beyond this transaction group"),
            switch("m", "even without its log devices"),
            switch("N", "mount nothing"),
            switch("l", "load keys"),
            option(
                "o",
                "property=value|mntopts",
                "a pool property or mount options",
            ),
            ALTROOT,
            switch("s", "look in the default places, too"),
            switch("t", "the new name is for now only"),
        ],
        operands: Operands::between(0, 2, ""),
        run: import::import,
    },
    Command {
        name: "list",
        aliases: &[],
        summary: "List pools with their space and health.",
        forms: &["[pool] ... [interval [count]]"],
        flags: &[
            BY_GUID,
            SCRIPTED,
            RESOLVE,
            EXACT,
            FULL_PATH,
            switch("v", "the vdevs, too"),
            option("o", "property[,...]", "the columns"),
            JSON,
            JSON_INT,
            JSON_GUID,
            TIMESTAMP,
        ],
        operands: Operands::ANY,
        run: list::list,
    },
    Command {
        name: "iostat",
        aliases: &[],
        summary: "Show what pools and their devices read and write.",
        forms: &["[pool] ... [interval [count]]"],
        flags: &[
            switch("v", "the vdevs, too"),
            switch("l", "average latencies, too"),
            switch("q", "what waits and what is under way, too"),
            switch("w", "histograms of latencies instead"),
            switch("r", "histograms of request sizes instead"),
            switch("y", "without the figures since the import"),
            switch("n", "print the header only once"),
            SCRIPTED,
            EXACT,
            BY_GUID,
            RESOLVE,
            FULL_PATH,
            TIMESTAMP,
        ],
        operands: Operands::ANY,
        run: iostat::iostat,
    },
    Command {
        name: "status",
        aliases: &[],
        summary: "Show the health of pools.",
        forms: &["[pool] ... [interval [count]]"],
        flags: &[
            switch("e", "only vdevs that are not healthy"),
            BY_GUID,
            RESOLVE,
            FULL_PATH,
            EXACT,
            switch("s", "a column of slow I/Os"),
            switch("d", "a column of direct writes that failed verification"),
            switch(
                "power",
                "a column of the power of slots, which nothing here knows",
            ),
            switch("i", "how devices were initialized, too"),
            switch("t", "how devices were trimmed, too"),
            switch("D", "the dedup tables, too"),
            switch("v", "damaged files, too"),
            switch("x", "only pools with problems"),
            JSON,
            JSON_INT,
            switch("json-flat-vdevs", "all vdevs in one list in JSON"),
            JSON_GUID,
            TIMESTAMP,
        ],
        operands: Operands::ANY,
        run: status::status,
    },
    Command {
        name: "get",
        aliases: &[],
        summary: "Show properties of pools or of their vdevs.",
        forms: &[
            "all|property[,...] [pool] ...",
            "all|property[,...] pool all-vdevs|vdev ...",
        ],
        flags: &[
            SCRIPTED,
            EXACT,
            JSON,
            JSON_INT,
            JSON_GUID,
            option(
                "o",
                "all|field[,...]",
                "the columns: name, property, value, source",
            ),
        ],
        operands: Operands::at_least(1, "missing property argument"),
        run: list::get,
    },
    Command {
        name: "set",
        aliases: &[],
        summary: "Set a property of a pool or of one of its vdevs.",
        forms: &["property=value pool", "property=value pool vdev"],
        flags: &[],
        operands: Operands::between(2, 3, "missing property=value or pool argument"),
        run: change::set,
    },
    Command {
        name: "scrub",
        aliases: &[],
        summary: "Read every block and verify its checksum, in the background.",
        forms: &["pool ...", "-a"],
        flags: &[
            switch("a", "all pools"),
            switch("s", "stop it"),
            switch("p", "pause it"),
            switch("w", "wait until it has ended"),
            switch(
                "j",
                "JSON, with -w: how far it is, a line a second on standard error; then the pools, as by 'status -j'",
            )
            .or("json"),
        ],
        operands: Operands::ANY,
        run: change::scrub,
    },
    Command {
        name: "trim",
        aliases: &[],
        summary: "Give free space back to devices, in the background.",
        forms: &["pool [device] ...", "-a"],
        flags: &[
            switch("a", "all pools"),
            switch(
                "d",
                "so that what was there is gone for good; no device can",
            ),
            option("r", "rate", "bytes a second at most, for each device"),
            switch("c", "give it up"),
            switch("s", "suspend it"),
            switch("w", "wait until it has ended"),
        ],
        operands: Operands::ANY,
        run: change::trim,
    },
    Command {
        name: "sync",
        aliases: &[],
        summary: "Write out everything that was written so far.",
        forms: &["[pool] ..."],
        flags: &[switch("f", "even if there is nothing to write")],
        operands: Operands::ANY,
        run: change::sync,
    },
    Command {
        name: "clear",
        aliases: &[],
        summary: "Forget errors and resume a suspended pool.",
        forms: &["pool [device]"],
        flags: &[],
        operands: Operands::between(1, 2, "missing pool name"),
        run: change::clear,
    },
    Command {
        name: "history",
        aliases: &[],
        summary: "Show the commands that changed pools.",
        forms: &["[pool] ..."],
        flags: &[
            switch("i", "internal events, too"),
            switch("l", "who and where"),
        ],
        operands: Operands::ANY,
        run: history::history,
    },
    Command {
        name: "events",
        aliases: &[],
        summary: "Show what happened to pools since they were imported.",
        forms: &["[pool]", "-c"],
        flags: &[
            switch("v", "all particulars, too"),
            SCRIPTED,
            switch("f", "go on with what happens from now on"),
            switch("c", "forget all events"),
        ],
        operands: Operands::between(0, 1, ""),
        run: events::events,
    },
    Command {
        name: "labelclear",
        aliases: &[],
        summary: "Wipe the labels of a device that is not in use.",
        forms: &["device"],
        flags: &[switch(
            "f",
            "even if it belongs to a pool that could be imported",
        )],
        operands: Operands::exactly(1, "missing vdev name"),
        run: change::labelclear,
    },
    Command {
        name: "upgrade",
        aliases: &[],
        summary: "Enable features, or list what could be.",
        forms: &["", "-v", "-a | pool ..."],
        flags: &[
            switch("a", "all pools"),
            switch("v", "list the features supported"),
            option("V", "version", "not beyond this version"),
        ],
        operands: Operands::ANY,
        run: upgrade::upgrade,
    },
    Command {
        name: "wait",
        aliases: &[],
        summary: "Wait until background work in a pool has ended.",
        forms: &["pool [interval]"],
        flags: &[
            SCRIPTED,
            EXACT,
            TIMESTAMP,
            option(
                "t",
                "activity[,...]",
                "only these: free, resilver, scrub, trim; others of OpenZFS never run here",
            ),
        ],
        operands: Operands::between(1, 2, "missing 'pool' argument"),
        run: wait::wait,
    },
    Command {
        name: "version",
        aliases: &[],
        summary: "Print the version.",
        forms: &[""],
        flags: &[JSON],
        operands: Operands::NONE,
        run: version,
    },
];
