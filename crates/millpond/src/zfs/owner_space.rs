//! `zfs userspace`, `zfs groupspace` and `zfs projectspace`.

use admin::queries::OwnerSpace;
use admin::{Failure, FailureKind, OwnerKind, OwnerRecord};

use super::flags::DATASET;
use super::selection::at_path;
use crate::daemons::pool_of;
use crate::flags::{EXACT, SCRIPTED};
use crate::grammar::{Command, Flag, Invocation, Operands, option, switch};
use crate::output::{Outcome, Stop, print, usage};
use crate::render::{OwnerField, OwnerNames, OwnerSort, Style};

const OWNER_FIELDS: Flag = option(
    "o",
    "field[,...]",
    "the columns: type, name, used, quota, objused, objquota",
);
const OWNER_SORT: Flag = option("s", "field", "sort by it, smallest first; may be repeated");
const OWNER_SORT_DOWN: Flag = option("S", "field", "sort by it, largest first; may be repeated");
const OWNER_FLAGS: &[Flag] = &[
    SCRIPTED,
    switch("i", "no effect: Windows domains are not resolved here"),
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

/// `zfs userspace`.
pub(super) const USERSPACE: Command = Command {
    name: "userspace",
    aliases: &[],
    summary: "Show usage and quotas of users.",
    forms: &["filesystem|snapshot|path"],
    flags: OWNER_FLAGS,
    operands: Operands::exactly(1, DATASET),
    run: users,
};

/// `zfs groupspace`.
pub(super) const GROUPSPACE: Command = Command {
    name: "groupspace",
    aliases: &[],
    summary: "Show usage and quotas of groups.",
    forms: &["filesystem|snapshot|path"],
    flags: OWNER_FLAGS,
    operands: Operands::exactly(1, DATASET),
    run: groups,
};

/// `zfs projectspace`.
pub(super) const PROJECTSPACE: Command = Command {
    name: "projectspace",
    aliases: &[],
    summary: "Show usage and quotas of projects.",
    forms: &["filesystem|snapshot|path"],
    flags: &[SCRIPTED, EXACT, OWNER_FIELDS, OWNER_SORT, OWNER_SORT_DOWN],
    operands: Operands::exactly(1, DATASET),
    run: projects,
};

/// A kind of `-t`: the owner's, and whether a Windows domain names it.
type Wanted = (OwnerKind, bool);

fn users(call: &Invocation) -> Outcome {
    space(call, OwnerKind::User)
}

fn groups(call: &Invocation) -> Outcome {
    space(call, OwnerKind::Group)
}

fn projects(call: &Invocation) -> Outcome {
    space(call, OwnerKind::Project)
}

fn space(call: &Invocation, usual: OwnerKind) -> Outcome {
    let fields = match call.value("o") {
        Some(words) => words.split(',').map(field).collect::<Result<_, _>>()?,
        None => OwnerField::ALL.to_vec(),
    };
    let mut keys = Vec::new();
    for (flag, value) in call.flags() {
        if let ("s" | "S", Some(word)) = (flag, value) {
            keys.push(OwnerSort {
                field: field(word)?,
                descending: flag == "S",
            });
        }
    }
    let wanted = wanted(call, usual)?;
    let mut records = ask(call.operand(0), &wanted)?;
    records.retain(|record| wanted.contains(&(record.kind, record.is_windows())));
    let names = names(call.has("n"));
    crate::render::sort_owners(&mut records, &names, &keys);
    let style = Style {
        scripted: call.has("H"),
        exact: call.has("p"),
    };
    print(&crate::render::owner_space(
        &records, &names, &fields, style,
    ))
}

fn field(word: &str) -> Result<OwnerField, Stop> {
    OwnerField::parse(word).ok_or_else(|| usage(format!("invalid field '{word}'")))
}

fn wanted(call: &Invocation, usual: OwnerKind) -> Result<Vec<Wanted>, Stop> {
    let mut found: Vec<Wanted> = Vec::new();
    for word in call.values("t").flat_map(|words| words.split(',')) {
        match word {
            "posixuser" => found.push((OwnerKind::User, false)),
            "smbuser" => found.push((OwnerKind::User, true)),
            "posixgroup" => found.push((OwnerKind::Group, false)),
            "smbgroup" => found.push((OwnerKind::Group, true)),
            "all" => found.extend(
                [OwnerKind::User, OwnerKind::Group]
                    .into_iter()
                    .flat_map(|kind| [(kind, false), (kind, true)]),
            ),
            other => return Err(usage(format!("invalid type '{other}'"))),
        }
    }
    if found.is_empty() {
        found.extend([(usual, false), (usual, true)]);
    }
    Ok(found)
}

fn ask(operand: &str, wanted: &[Wanted]) -> Result<Vec<OwnerRecord>, Failure> {
    let name = if operand.starts_with(['/', '.']) {
        at_path(operand)?
    } else {
        operand.to_owned()
    };
    if let Err(error) = admin::check_name(&name) {
        return Err(Failure::cannot(FailureKind::Invalid, "open", &name, error));
    }
    let mut kinds: Vec<OwnerKind> = wanted.iter().map(|(kind, _)| *kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut connection = pool_of(&name)?;
    connection.ask_all(OwnerSpace { name, kinds })
}

/// This machine's names; none if numbers are asked for.
fn names(numbers: bool) -> OwnerNames {
    if numbers {
        return OwnerNames::default();
    }
    let table = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    OwnerNames::parse(&table("/etc/passwd"), &table("/etc/group"))
}
