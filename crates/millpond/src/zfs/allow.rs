//! `zfs allow` and `zfs unallow`.

use admin::changes::Delegate;
use admin::queries::Grants;
use admin::{Change, Failure, FailureKind, check_dataset, is_permission, is_set_name, key_of_sets};

use super::flags::RECURSIVE;
use crate::daemons::{change, pool_of};
use crate::grammar::{Command, Flag, Invocation, Operands, switch};
use crate::output::{Outcome, Stop, print, usage};
use crate::render::OwnerNames;

const ALLOW_LOCAL: Flag = switch("l", "here only");
const ALLOW_BELOW: Flag = switch("d", "below only");
const ALLOW_USERS: Flag = switch("u", "the names are of users");
const ALLOW_GROUPS: Flag = switch("g", "the names are of groups");
const ALLOW_EVERYONE: Flag = switch("e", "everyone");
const ALLOW_CREATORS: Flag = switch("c", "for whoever creates a descendant, on that dataset");
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

/// `zfs allow`.
pub(super) const ALLOW: Command = Command {
    name: "allow",
    aliases: &[],
    summary: "Grant permissions to users and groups, or show them.",
    forms: &[
        "filesystem|volume",
        "everyone|user|group[,...] perm|@setname[,...] filesystem|volume",
        "-e perm|@setname[,...] filesystem|volume",
        "-c perm|@setname[,...] filesystem|volume",
        "-s @setname perm|@setname[,...] filesystem|volume",
    ],
    flags: ALLOW_FLAGS,
    operands: Operands::between(1, 3, "wrong number of parameters"),
    run: allow,
};

/// `zfs unallow`.
pub(super) const UNALLOW: Command = Command {
    name: "unallow",
    aliases: &[],
    summary: "Revoke granted permissions.",
    forms: &[
        "everyone|user|group[,...] [perm|@setname[,...]] filesystem|volume",
        "-e [perm|@setname[,...]] filesystem|volume",
        "-c [perm|@setname[,...]] filesystem|volume",
        "-s @setname [perm|@setname[,...]] filesystem|volume",
    ],
    flags: UNALLOW_FLAGS,
    operands: Operands::between(1, 3, "wrong number of parameters"),
    run: unallow,
};

fn allow(call: &Invocation) -> Outcome {
    if let ([dataset], None) = (call.operands(), call.flags().next()) {
        return show(dataset);
    }
    delegate(call, true)
}

fn unallow(call: &Invocation) -> Outcome {
    delegate(call, false)
}

fn show(dataset: &str) -> Outcome {
    check(dataset)?;
    let name = dataset.to_owned();
    let records = pool_of(dataset)?.ask(Grants { name })?;
    print(&crate::render::grants(&records, &OwnerNames::of_machine()))
}

fn check(dataset: &str) -> Result<(), Failure> {
    check_dataset(dataset)
        .map_err(|error| Failure::cannot(FailureKind::Invalid, "open", dataset, error))
}

fn wrong_number() -> Stop {
    usage("wrong number of parameters")
}

/// What is granted to whom where: `[who] [permissions] dataset`, in which an unallow may leave the
/// permissions out.
fn delegate(call: &Invocation, grant: bool) -> Outcome {
    let (dataset, words) = call.operands().split_last().ok_or_else(wrong_number)?;
    let named = !(call.has("e") || call.has("c"));
    let (who, permissions) = match (words, named) {
        ([who, permissions], true) => (Some(who), Some(permissions)),
        ([who], true) if !grant => (Some(who), None),
        ([permissions], false) => (None, Some(permissions)),
        ([], false) if !grant => (None, None),
        _ => return Err(wrong_number()),
    };
    let kinds = ["e", "c", "s"].iter().filter(|flag| call.has(flag)).count();
    let scoped = call.has("l") || call.has("d");
    let typed = call.has("u") || call.has("g");
    if kinds > 1 || (kinds == 1 && typed) || ((call.has("c") || call.has("s")) && scoped) {
        return Err(usage("these options do not go together"));
    }
    check(dataset)?;
    let permissions = listed(dataset, permissions)?;
    let mut changes = Vec::new();
    for key in keys(call, who.map(String::as_str))? {
        changes.extend(entries(&key, &permissions));
    }
    let request = Change::Delegate(Delegate {
        name: dataset.clone(),
        grant,
        recursive: call.has("r"),
        changes,
    });
    change(&mut pool_of(dataset)?, request, &call.line)
}

/// The permissions and names of sets; none: all.
fn listed(dataset: &str, words: Option<&String>) -> Result<Vec<String>, Failure> {
    let Some(words) = words else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for word in words.split(',') {
        let known = if word.starts_with('@') {
            is_set_name(word)
        } else {
            is_permission(word)
        };
        if !known {
            let reason = format!("invalid permission '{word}'");
            let kind = FailureKind::Invalid;
            return Err(Failure::cannot(kind, "set permissions on", dataset, reason));
        }
        if !found.iter().any(|other| other == word) {
            found.push(word.to_owned());
        }
    }
    Ok(found)
}

/// A key with what it grants; permissions and names of sets are granted under keys of their own.
fn entries(key: &str, permissions: &[String]) -> Vec<(String, Vec<String>)> {
    let (sets, plain): (Vec<_>, Vec<_>) = permissions
        .iter()
        .cloned()
        .partition(|word| word.starts_with('@'));
    let mut found = Vec::new();
    let all = permissions.is_empty();
    if all || !plain.is_empty() {
        found.push((key.to_owned(), plain));
    }
    if all || !sets.is_empty() {
        found.push((key_of_sets(key), sets));
    }
    found
}

/// The keys that the flags and names mean.
fn keys(call: &Invocation, who: Option<&str>) -> Result<Vec<String>, Stop> {
    if call.has("c") {
        return Ok(vec!["c-$".to_owned()]);
    }
    if let (true, Some(set)) = (call.has("s"), who) {
        if !set.starts_with('@') {
            return Err(usage("invalid set name: missing '@' prefix"));
        }
        if !is_set_name(set) {
            return Err(usage(format!("invalid set name '{set}'")));
        }
        return Ok(vec![format!("s-${set}")]);
    }
    let scopes: Vec<char> = match (call.has("l"), call.has("d")) {
        (true, false) => vec!['l'],
        (false, true) => vec!['d'],
        _ => vec!['l', 'd'],
    };
    let mut found = Vec::new();
    let everyone = "everyone";
    for name in who.unwrap_or(everyone).split(',') {
        let (letter, id) = if name == everyone && !call.has("u") && !call.has("g") {
            ('e', String::new())
        } else {
            identity(call, name)?
        };
        found.extend(scopes.iter().map(|scope| format!("{letter}{scope}${id}")));
    }
    Ok(found)
}

/// A user, else a group, by name or number.
fn identity(call: &Invocation, name: &str) -> Result<(char, String), Stop> {
    let names = OwnerNames::of_machine();
    let number = name.parse::<u32>().ok().map(u64::from);
    let user = || names.user(name).or(number).map(|id| ('u', id));
    let group = || names.group(name).or(number).map(|id| ('g', id));
    let found = match (call.has("u"), call.has("g")) {
        (true, false) => user(),
        (false, true) => group(),
        _ => user().or_else(group),
    };
    let (letter, id) = found.ok_or_else(|| usage(format!("invalid user/group {name}")))?;
    Ok((letter, id.to_string()))
}
