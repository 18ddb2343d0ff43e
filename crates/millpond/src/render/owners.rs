//! `zfs userspace`, `zfs groupspace` and `zfs projectspace`: columns, names, order.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use admin::{OwnerKind, OwnerRecord, human, human_bytes};

use super::Style;
use super::table::Column;

#[cfg(test)]
mod tests;

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnerField {
    /// What the owner is.
    Type,
    /// Its name or number.
    Name,
    /// Bytes used.
    Used,
    /// Bytes allowed.
    Quota,
    /// Objects used.
    ObjectsUsed,
    /// Objects allowed.
    ObjectQuota,
}

impl OwnerField {
    /// All columns in their order.
    pub(crate) const ALL: [Self; 6] = [
        Self::Type,
        Self::Name,
        Self::Used,
        Self::Quota,
        Self::ObjectsUsed,
        Self::ObjectQuota,
    ];

    /// What it is called in arguments.
    #[must_use]
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Name => "name",
            Self::Used => "used",
            Self::Quota => "quota",
            Self::ObjectsUsed => "objused",
            Self::ObjectQuota => "objquota",
        }
    }

    /// The column with this name.
    #[must_use]
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.word() == word)
    }

    /// As wide as its entries: no least width.
    fn column(self) -> Column {
        Column {
            header: self.word().to_uppercase(),
            right: !matches!(self, Self::Type | Self::Name),
            width_min: 0,
        }
    }

    fn figure(self, record: &OwnerRecord) -> Option<u64> {
        match self {
            Self::Type | Self::Name => None,
            Self::Used => record.used,
            Self::Quota => record.quota,
            Self::ObjectsUsed => record.objects_used,
            Self::ObjectQuota => record.object_quota,
        }
    }
}

/// A key of `-s` or `-S`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnerSort {
    /// By what.
    pub(crate) field: OwnerField,
    /// Largest first.
    pub(crate) descending: bool,
}

/// The names of this machine's users and groups.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnerNames {
    users: BTreeMap<u64, String>,
    groups: BTreeMap<u64, String>,
}

impl OwnerNames {
    /// From the texts of `/etc/passwd` and `/etc/group`. Without them everybody is a number.
    #[must_use]
    pub(crate) fn parse(passwd: &str, group: &str) -> Self {
        Self {
            users: by_number(passwd),
            groups: by_number(group),
        }
    }

    /// Those of this machine.
    #[must_use]
    pub(crate) fn of_machine() -> Self {
        let table = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self::parse(&table("/etc/passwd"), &table("/etc/group"))
    }

    /// The number of a user.
    #[must_use]
    pub(crate) fn user(&self, name: &str) -> Option<u64> {
        number_of(&self.users, name)
    }

    /// The number of a group.
    #[must_use]
    pub(crate) fn group(&self, name: &str) -> Option<u64> {
        number_of(&self.groups, name)
    }

    /// The name of an owner, if it has one here.
    pub(super) fn known(&self, record: &OwnerRecord) -> Option<String> {
        match record.kind {
            OwnerKind::User => self.users.get(&record.id).cloned(),
            OwnerKind::Group => self.groups.get(&record.id).cloned(),
            OwnerKind::Project => None,
        }
    }

    fn name(&self, record: &OwnerRecord) -> String {
        if record.is_windows() {
            return format!("{}-{}", record.id >> 32, record.id & u64::from(u32::MAX));
        }
        self.known(record).unwrap_or_else(|| record.id.to_string())
    }

    /// True if nobody has a name: then numbers are compared, not their digits.
    fn is_numeric(&self, record: &OwnerRecord) -> bool {
        record.kind == OwnerKind::Project || (self.users.is_empty() && self.groups.is_empty())
    }
}

fn number_of(names: &BTreeMap<u64, String>, name: &str) -> Option<u64> {
    let mut found = names.iter().filter(|(_, known)| *known == name);
    found.next().map(|(id, _)| *id)
}

/// Names by number; of two names of a number the first counts.
fn by_number(table: &str) -> BTreeMap<u64, String> {
    let mut names = BTreeMap::new();
    for line in table.lines() {
        let mut fields = line.split(':');
        let (name, id) = (fields.next(), fields.nth(1));
        if let (Some(name), Some(Ok(id))) = (name, id.map(str::parse)) {
            names.entry(id).or_insert_with(|| name.to_owned());
        }
    }
    names
}

const fn type_name(record: &OwnerRecord) -> &'static str {
    match (record.kind, record.is_windows()) {
        (OwnerKind::User, false) => "POSIX User",
        (OwnerKind::User, true) => "SMB User",
        (OwnerKind::Group, false) => "POSIX Group",
        (OwnerKind::Group, true) => "SMB Group",
        (OwnerKind::Project, _) => "Project",
    }
}

/// Brings owners in order: by the keys, then by type and name.
pub(crate) fn sort_owners(records: &mut [OwnerRecord], names: &OwnerNames, keys: &[OwnerSort]) {
    let natural = [OwnerField::Type, OwnerField::Name].map(|field| OwnerSort {
        field,
        descending: false,
    });
    records.sort_by(|a, b| {
        keys.iter()
            .chain(&natural)
            .map(|key| compare(a, b, names, *key))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| a.id.cmp(&b.id))
    });
}

fn compare(a: &OwnerRecord, b: &OwnerRecord, names: &OwnerNames, key: OwnerSort) -> Ordering {
    let order = match key.field {
        OwnerField::Type => type_name(a).cmp(type_name(b)),
        OwnerField::Name if names.is_numeric(a) && names.is_numeric(b) => a.id.cmp(&b.id),
        OwnerField::Name => names.name(a).cmp(&names.name(b)),
        // What nobody counts or limits comes first.
        OwnerField::Used
        | OwnerField::Quota
        | OwnerField::ObjectsUsed
        | OwnerField::ObjectQuota => {
            let figure = |record| key.field.figure(record).unwrap_or(0);
            figure(a).cmp(&figure(b))
        }
    };
    if key.descending {
        order.reverse()
    } else {
        order
    }
}

/// The table, in the order of the records.
#[must_use]
pub(crate) fn owner_space(
    records: &[OwnerRecord],
    names: &OwnerNames,
    fields: &[OwnerField],
    style: Style,
) -> String {
    let columns: Vec<Column> = fields.iter().map(|field| field.column()).collect();
    let rows: Vec<Vec<String>> = records
        .iter()
        .map(|record| {
            fields
                .iter()
                .map(|field| cell(record, names, *field, style.exact))
                .collect()
        })
        .collect();
    style.table(&columns, &rows)
}

fn cell(record: &OwnerRecord, names: &OwnerNames, field: OwnerField, exact: bool) -> String {
    let figure = field.figure(record);
    match field {
        OwnerField::Type => type_name(record).to_owned(),
        OwnerField::Name => names.name(record),
        OwnerField::Quota | OwnerField::ObjectQuota if figure.unwrap_or(0) == 0 => {
            if exact { "0" } else { "none" }.to_owned()
        }
        OwnerField::Used
        | OwnerField::Quota
        | OwnerField::ObjectsUsed
        | OwnerField::ObjectQuota => match figure {
            None => "-".to_owned(),
            Some(figure) if exact => figure.to_string(),
            Some(bytes) if matches!(field, OwnerField::Used | OwnerField::Quota) => {
                human_bytes(bytes)
            }
            Some(count) => human(count),
        },
    }
}
