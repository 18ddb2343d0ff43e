//! What `zfs allow DATASET` shows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use admin::{GrantRecord, OwnerKind, OwnerRecord};

use super::owners::OwnerNames;

/// The width of the line above a dataset's grants.
const LINE_WIDTH: usize = 70;

/// Permissions by whom they are granted to, in the order of the pool's keys.
type ByWho<'a> = BTreeMap<(u8, &'a str), BTreeSet<&'a str>>;

/// The grants of a dataset and of those above it.
#[must_use]
pub(crate) fn grants(records: &[GrantRecord], names: &OwnerNames) -> String {
    let mut out = String::new();
    for record in records.iter().filter(|record| !record.grants.is_empty()) {
        let title = format!("---- Permissions on {} ", record.dataset);
        let _ = writeln!(out, "{title:-<LINE_WIDTH$}");
        let (local, below) = (scoped(record, 'l'), scoped(record, 'd'));
        let both = picked(&local, |who, what| holds(&below, who, what));
        let sets = scoped_kind(record, 's');
        section(&mut out, "Permission sets", &sets, names);
        section(
            &mut out,
            "Create time permissions",
            &scoped_kind(record, 'c'),
            names,
        );
        let here = picked(&local, |who, what| !holds(&below, who, what));
        section(&mut out, "Local permissions", &here, names);
        let only_below = picked(&below, |who, what| !holds(&local, who, what));
        section(&mut out, "Descendent permissions", &only_below, names);
        section(&mut out, "Local+Descendent permissions", &both, names);
    }
    out
}

fn holds(grants: &ByWho<'_>, who: &(u8, &str), what: &str) -> bool {
    grants.get(who).is_some_and(|found| found.contains(what))
}

fn picked<'a>(grants: &ByWho<'a>, keep: impl Fn(&(u8, &str), &str) -> bool) -> ByWho<'a> {
    let mut found = ByWho::new();
    for (who, permissions) in grants {
        for what in permissions.iter().filter(|what| keep(who, what)) {
            found.entry(*who).or_default().insert(what);
        }
    }
    found
}

/// The parts of a key: who, scope, id.
fn parts(key: &str) -> Option<(char, char, &str)> {
    let (head, id) = key.split_once('$')?;
    let mut letters = head.chars();
    Some((letters.next()?.to_ascii_lowercase(), letters.next()?, id))
}

fn scoped(record: &GrantRecord, wanted: char) -> ByWho<'_> {
    collect(record, |who, scope| {
        let rank = "uge".find(who).filter(|_| scope == wanted)?;
        u8::try_from(rank).ok()
    })
}

fn scoped_kind(record: &GrantRecord, wanted: char) -> ByWho<'_> {
    const UNNAMED: u8 = 3;
    collect(record, |who, _| (who == wanted).then_some(UNNAMED))
}

fn collect(record: &GrantRecord, rank: impl Fn(char, char) -> Option<u8>) -> ByWho<'_> {
    let mut found = ByWho::new();
    for (key, permissions) in &record.grants {
        let Some((who, scope, id)) = parts(key) else {
            continue;
        };
        if let Some(rank) = rank(who, scope) {
            let entry = found.entry((rank, id)).or_default();
            entry.extend(permissions.iter().map(String::as_str));
        }
    }
    found
}

fn section(out: &mut String, title: &str, grants: &ByWho<'_>, names: &OwnerNames) {
    if grants.is_empty() {
        return;
    }
    let _ = writeln!(out, "{title}:");
    for ((rank, id), permissions) in grants {
        let permissions: Vec<&str> = permissions.iter().copied().collect();
        let owner = |kind| match id
            .parse()
            .map(|id| names.known(&OwnerRecord::new(kind, id)))
        {
            Ok(Some(name)) => name,
            _ => format!("(unknown: {id})"),
        };
        let who = match rank {
            0 => format!("user {} ", owner(OwnerKind::User)),
            1 => format!("group {} ", owner(OwnerKind::Group)),
            2 => "everyone ".to_owned(),
            _ if id.is_empty() => String::new(),
            _ => format!("{id} "),
        };
        let _ = writeln!(out, "\t{who}{}", permissions.join(","));
    }
}
