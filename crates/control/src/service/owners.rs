//! `userquota@…`, `groupused@…` and their like: what one user, group or project uses and may use.

use dmu::ObjectSet;
use posix::{QuotaKind, QuotaUnit};

#[cfg(test)]
mod tests;

/// A property of this family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OwnerProperty<'a> {
    pub(super) kind: QuotaKind,
    pub(super) unit: QuotaUnit,
    /// Whether it is the limit, and not what is used.
    pub(super) is_limit: bool,
    /// The name or number of the owner.
    owner: &'a str,
    /// The part before the name, with its `@`.
    family: &'a str,
}

impl<'a> OwnerProperty<'a> {
    /// The property with this name, if it is one of the family.
    pub(super) fn parse(name: &'a str) -> Option<Self> {
        let (family, owner) = name.split_at(name.find('@')? + 1);
        let (kind, rest) = [
            ("user", QuotaKind::User),
            ("group", QuotaKind::Group),
            ("project", QuotaKind::Project),
        ]
        .into_iter()
        .find_map(|(word, kind)| Some((kind, family.strip_prefix(word)?)))?;
        let (unit, rest) = match rest.strip_prefix("obj") {
            Some(rest) => (QuotaUnit::Objects, rest),
            None => (QuotaUnit::Bytes, rest),
        };
        let is_limit = match rest {
            "quota@" => true,
            "used@" => false,
            _ => return None,
        };
        Some(Self {
            kind,
            unit,
            is_limit,
            owner,
            family,
        })
    }

    /// The owner's number: as it is, or as this machine's tables of users and groups say.
    pub(super) fn id(&self) -> Option<u64> {
        if let Ok(number) = self.owner.parse::<u32>() {
            return Some(number.into());
        }
        let path = match self.kind {
            QuotaKind::User => "/etc/passwd",
            QuotaKind::Group => "/etc/group",
            QuotaKind::Project => return None,
        };
        id_in(&std::fs::read_to_string(path).ok()?, self.owner)
    }

    /// What a person is told about an owner that nobody knows.
    pub(super) fn unknown_owner(&self) -> String {
        let (family, owner) = (self.family, self.owner);
        format!("'{family}{owner}' has an invalid user/group name")
    }

    /// The value in a file system; none when nothing can be known.
    pub(super) fn value(&self, objects: &ObjectSet) -> Option<u64> {
        let id = self.id()?;
        if self.is_limit {
            posix::stored_limit(objects, self.kind, self.unit, id)
        } else {
            posix::stored_use(objects, self.kind, self.unit, id)
        }
    }
}

/// The third field of the line that begins with the name.
fn id_in(table: &str, name: &str) -> Option<u64> {
    table.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next()? == name;
        let id = fields.nth(1)?;
        found.then(|| id.parse().ok()).flatten()
    })
}
