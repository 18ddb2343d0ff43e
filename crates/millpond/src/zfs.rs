//! The `zfs` command: file systems, volumes, snapshots, bookmarks and their properties.

mod allow;
mod change;
mod diff;
mod get;
mod holds;
mod list;
mod mount;
pub(crate) mod mount_helper;
mod project;
mod set;
mod space;
mod upgrade;
mod wait;

#[cfg(test)]
mod tests;

use crate::Outcome;
use crate::grammar::{Command, Flag, Invocation, Operands, Program, PropertyTable, option, switch};
use crate::output::{print, version_text, versions};

pub(crate) use get::fields as get_fields;

const RECURSIVE: Flag = switch("r", "what is below, too");
const SCRIPTED: Flag = switch("H", "no header, tabs between columns");
const EXACT: Flag = switch("p", "numbers in full");
const JSON: Flag = switch("j", "JSON").or("json");
const JSON_INT: Flag = switch("json-int", "numbers as numbers in JSON");
const DEPTH: Flag = option("d", "depth", "so many levels below, too");
const PROPERTY: Flag = option("o", "property=value", "a first property; may be repeated");
const PARENTS: Flag = switch("p", "make missing parents");
const UNMOUNTED: Flag = switch("u", "do not mount it");
const OWNER_FIELDS: Flag = option(
    "o",
    "field[,...]",
    "the columns: type, name, used, quota, objused, objquota",
);
const OWNER_SORT: Flag = option("s", "field", "sort by it, smallest first; may be repeated");
const OWNER_SORT_DOWN: Flag = option("S", "field", "sort by it, largest first; may be repeated");
const OWNER_FLAGS: &[Flag] = &[
    SCRIPTED,
    switch(
        "i",
        "no effect: names of Windows domains have no numbers here",
    ),
    switch("n", "numbers instead of names"),
    EXACT,
    OWNER_FIELDS,
    OWNER_SORT,
    OWNER_SORT_DOWN,
    option(
        "t",
        "type[,...]",
        "posixuser, smbuser, posixgroup, smbgroup or all",
    ),
];
const ALLOW_LOCAL: Flag = switch("l", "here only");
const ALLOW_BELOW: Flag = switch("d", "below only");
const ALLOW_USERS: Flag = switch("u", "the names are of users");
const ALLOW_GROUPS: Flag = switch("g", "the names are of groups");
const ALLOW_EVERYONE: Flag = switch("e", "everyone");
const ALLOW_CREATORS: Flag = switch("c", "whoever creates something below, on what they create");
const ALLOW_SET: Flag = switch("s", "a set of permissions, to be granted by its name");
const ALLOW_FLAGS: &[Flag] = &[
    ALLOW_LOCAL,
    ALLOW_BELOW,
    ALLOW_USERS,
    ALLOW_GROUPS,
    ALLOW_EVERYONE,
    ALLOW_CREATORS,
    ALLOW_SET,
];
const UNALLOW_FLAGS: &[Flag] = &[
    RECURSIVE,
    ALLOW_LOCAL,
    ALLOW_BELOW,
    ALLOW_USERS,
    ALLOW_GROUPS,
    ALLOW_EVERYONE,
    ALLOW_CREATORS,
    ALLOW_SET,
];
const DATASET: &str = "missing dataset argument";

/// `zfs` and its commands.
pub(crate) static PROGRAM: Program = Program {
    name: "zfs",
    summary: "Manage file systems, volumes, snapshots and bookmarks of Millpond pools.",
    properties: &[PropertyTable {
        title: "PROPERTIES",
        rows: admin::rows::DATASET_PROPERTIES,
    }],
    commands: COMMANDS,
};

static COMMANDS: &[Command] = &[
    Command {
        name: "create",
        aliases: &[],
        summary: "Make a file system or volume.",
        forms: &["filesystem|volume"],
        flags: &[
            switch("p", "make missing parents; succeed if it exists"),
            UNMOUNTED,
            switch("n", "only say what would be made"),
            switch("P", "say it for scripts"),
            switch("v", "say what is made"),
            PROPERTY,
            switch("s", "a volume without a reservation"),
            option("b", "blocksize", "a volume's block size"),
            option("V", "size", "make a volume of this size"),
        ],
        operands: Operands::exactly(1, "missing filesystem argument"),
        run: change::create,
    },
    Command {
        name: "destroy",
        aliases: &[],
        summary: "Destroy file systems, volumes, snapshots or a bookmark.",
        forms: &[
            "filesystem|volume",
            "filesystem|volume@snap[%snap][,...]",
            "filesystem#bookmark",
        ],
        flags: &[
            switch("f", "unmount by force"),
            switch("n", "only say what would go"),
            switch("p", "say it for scripts"),
            switch("R", "clones outside, too"),
            RECURSIVE,
            switch("v", "say what goes"),
            switch("d", "snapshots in use: when their last user goes"),
        ],
        operands: Operands::exactly(1, DATASET),
        run: change::destroy,
    },
    Command {
        name: "snapshot",
        aliases: &["snap"],
        summary: "Take snapshots, all at the same moment.",
        forms: &["filesystem|volume@snap ..."],
        flags: &[RECURSIVE, PROPERTY],
        operands: Operands::at_least(1, "missing snapshot argument"),
        run: change::snapshot,
    },
    Command {
        name: "rollback",
        aliases: &[],
        summary: "Go back to a snapshot.",
        forms: &["snapshot"],
        flags: &[
            switch("r", "destroy later snapshots and bookmarks"),
            switch("R", "and their clones"),
            switch("f", "unmount those by force"),
        ],
        operands: Operands::exactly(1, DATASET),
        run: change::rollback,
    },
    Command {
        name: "clone",
        aliases: &[],
        summary: "Make a writable copy of a snapshot.",
        forms: &["snapshot filesystem|volume"],
        flags: &[PARENTS, UNMOUNTED, PROPERTY],
        operands: Operands::exactly(2, "missing source or target dataset argument"),
        run: change::clone,
    },
    Command {
        name: "promote",
        aliases: &[],
        summary: "Make a clone the origin of its origin.",
        forms: &["clone-filesystem"],
        flags: &[],
        operands: Operands::exactly(1, "missing clone filesystem argument"),
        run: change::promote,
    },
    Command {
        name: "rename",
        aliases: &[],
        summary: "Give a dataset, snapshot or bookmark another name.",
        forms: &["filesystem|volume|snapshot newname"],
        flags: &[
            switch("f", "unmount by force"),
            PARENTS,
            switch("u", "leave mounts as they are"),
            switch("r", "snapshots of this name below, too"),
        ],
        operands: Operands::exactly(2, "missing source or target dataset argument"),
        run: change::rename,
    },
    Command {
        name: "bookmark",
        aliases: &[],
        summary: "Make a bookmark of a snapshot or bookmark.",
        forms: &["snapshot|bookmark newbookmark"],
        flags: &[],
        operands: Operands::exactly(2, "missing snapshot or bookmark argument"),
        run: change::bookmark,
    },
    Command {
        name: "list",
        aliases: &[],
        summary: "List datasets and their properties.",
        forms: &["[filesystem|volume|snapshot|bookmark] ..."],
        flags: &[
            SCRIPTED,
            EXACT,
            JSON,
            JSON_INT,
            RECURSIVE,
            DEPTH,
            option("o", "property[,...]", "the columns"),
            option(
                "s",
                "property",
                "sort by it, smallest first; may be repeated",
            ),
            option(
                "S",
                "property",
                "sort by it, largest first; may be repeated",
            ),
            option(
                "t",
                "type[,...]",
                "filesystem, volume, snapshot, bookmark or all",
            ),
        ],
        operands: Operands::ANY,
        run: list::list,
    },
    Command {
        name: "get",
        aliases: &[],
        summary: "Show properties.",
        forms: &["all|property[,...] [filesystem|volume|snapshot|bookmark] ..."],
        flags: &[
            RECURSIVE,
            DEPTH,
            SCRIPTED,
            EXACT,
            JSON,
            JSON_INT,
            option(
                "o",
                "all|field[,...]",
                "the columns: name, property, value, received, source",
            ),
            option(
                "s",
                "source[,...]",
                "only values from: local, default, inherited, …",
            ),
            option(
                "t",
                "type[,...]",
                "filesystem, volume, snapshot, bookmark or all",
            ),
        ],
        operands: Operands::at_least(1, "missing property argument"),
        run: get::get,
    },
    Command {
        name: "set",
        aliases: &[],
        summary: "Set properties.",
        forms: &["property=value ... filesystem|volume|snapshot ..."],
        flags: &[switch("u", "leave mounts as they are")],
        operands: Operands::at_least(2, "missing property=value or dataset argument"),
        run: set::set,
    },
    Command {
        name: "inherit",
        aliases: &[],
        summary: "Forget a local value of a property.",
        forms: &["property filesystem|volume|snapshot ..."],
        flags: &[RECURSIVE, switch("S", "back to the received value")],
        operands: Operands::at_least(2, "missing property or dataset argument"),
        run: set::inherit,
    },
    Command {
        name: "userspace",
        aliases: &[],
        summary: "Show what each user uses and may use.",
        forms: &["filesystem|snapshot|path"],
        flags: OWNER_FLAGS,
        operands: Operands::exactly(1, DATASET),
        run: space::users,
    },
    Command {
        name: "groupspace",
        aliases: &[],
        summary: "Show what each group uses and may use.",
        forms: &["filesystem|snapshot|path"],
        flags: OWNER_FLAGS,
        operands: Operands::exactly(1, DATASET),
        run: space::groups,
    },
    Command {
        name: "projectspace",
        aliases: &[],
        summary: "Show what each project uses and may use.",
        forms: &["filesystem|snapshot|path"],
        flags: &[SCRIPTED, EXACT, OWNER_FIELDS, OWNER_SORT, OWNER_SORT_DOWN],
        operands: Operands::exactly(1, DATASET),
        run: space::projects,
    },
    Command {
        name: "project",
        aliases: &[],
        summary: "Show, check or set the projects of files.",
        forms: &["file|directory ..."],
        flags: &[
            switch(
                "c",
                "check: what differs from the id of -p or of the operand",
            ),
            switch("C", "clear: no project, and nothing handed down"),
            switch("s", "set: what is made here gets the same project"),
            option("p", "id", "the project"),
            RECURSIVE,
            switch("d", "of a directory only itself, not what is in it"),
            switch("k", "with -C: keep the project"),
            switch("0", "with -c: names only, each ended by a NUL"),
        ],
        operands: Operands::at_least(1, "missing file or directory"),
        run: project::project,
    },
    Command {
        name: "diff",
        aliases: &[],
        summary: "Show which files changed since a snapshot.",
        forms: &["snapshot [snapshot|filesystem]"],
        flags: &[
            switch("F", "the kinds of files, too"),
            switch("H", "no arrows, tabs between columns"),
            switch("t", "the times of the last changes, too"),
            switch("h", "names as they are, whatever is in them"),
        ],
        operands: Operands::between(1, 2, "must provide at least one snapshot name"),
        run: diff::diff,
    },
    Command {
        name: "mount",
        aliases: &[],
        summary: "Mount file systems, or list what is mounted.",
        forms: &["", "-a", "filesystem"],
        flags: &[
            JSON,
            switch("a", "all that may be mounted"),
            switch("f", "even if redacted"),
            switch("l", "load keys first"),
            switch("O", "over a directory that is not empty"),
            switch("R", "what is below, too"),
            switch("v", "say what is mounted"),
            option("o", "options", "mount options for this time"),
        ],
        operands: Operands::between(0, 1, ""),
        run: mount::mount,
    },
    Command {
        name: "unmount",
        aliases: &["umount"],
        summary: "Unmount file systems.",
        forms: &["-a", "filesystem|mountpoint"],
        flags: &[
            switch("a", "all"),
            switch("f", "from under their users"),
            switch("u", "unload keys too"),
        ],
        operands: Operands::between(0, 1, ""),
        run: mount::unmount,
    },
    Command {
        name: "hold",
        aliases: &[],
        summary: "Hold snapshots, so that they cannot be destroyed.",
        forms: &["tag snapshot ..."],
        flags: &[RECURSIVE],
        operands: Operands::at_least(2, "missing tag or snapshot argument"),
        run: holds::hold,
    },
    Command {
        name: "holds",
        aliases: &[],
        summary: "List holds.",
        forms: &["snapshot ..."],
        flags: &[RECURSIVE, SCRIPTED, EXACT],
        operands: Operands::at_least(1, "missing snapshot argument"),
        run: holds::holds,
    },
    Command {
        name: "release",
        aliases: &[],
        summary: "Release holds.",
        forms: &["tag snapshot ..."],
        flags: &[RECURSIVE],
        operands: Operands::at_least(2, "missing tag or snapshot argument"),
        run: holds::release,
    },
    Command {
        name: "allow",
        aliases: &[],
        summary: "Grant permissions to users and groups, or show what is granted.",
        forms: &[
            "filesystem|volume",
            "everyone|user|group[,...] perm|@setname[,...] filesystem|volume",
            "-e perm|@setname[,...] filesystem|volume",
            "-c perm|@setname[,...] filesystem|volume",
            "-s @setname perm|@setname[,...] filesystem|volume",
        ],
        flags: ALLOW_FLAGS,
        operands: Operands::between(1, 3, "wrong number of parameters"),
        run: allow::allow,
    },
    Command {
        name: "unallow",
        aliases: &[],
        summary: "Take granted permissions back.",
        forms: &[
            "everyone|user|group[,...] [perm|@setname[,...]] filesystem|volume",
            "-e [perm|@setname[,...]] filesystem|volume",
            "-c [perm|@setname[,...]] filesystem|volume",
            "-s @setname [perm|@setname[,...]] filesystem|volume",
        ],
        flags: UNALLOW_FLAGS,
        operands: Operands::between(1, 3, "wrong number of parameters"),
        run: allow::unallow,
    },
    Command {
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
        run: upgrade::upgrade,
    },
    Command {
        name: "wait",
        aliases: &[],
        summary: "Wait until background work in a file system has ended.",
        forms: &["filesystem"],
        flags: &[option("t", "activity[,...]", "only this: deleteq")],
        operands: Operands::exactly(1, "missing 'filesystem' argument"),
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

/// `zfs version` and `zpool version`.
pub(crate) fn version(call: &Invocation) -> Outcome {
    if !call.has("j") {
        return print(&version_text());
    }
    let [tools, engine] = versions();
    let program = call.line.split(' ').next().unwrap_or_default();
    let mut json = crate::render::Json::new(
        &format!("{program} version"),
        crate::render::JsonOptions::default(),
    );
    json.member(
        "zfs_version",
        serde_json::json!({"userland": tools, "kernel": engine}),
    );
    print(&json.text())
}
