//! Rows in words: `docs/properties.md`, and the properties' section of the manual pages.

use dsl::property::{
    Access, DATASET_PROPERTIES, Default, Effect, Kind, Need, POOL_PROPERTIES, Requirement, Row,
    Support, Types, Unsupported, VDEV_PROPERTIES, Values,
};

use super::{RowText, Value, words_of};

#[cfg(test)]
mod tests;

/// What may be written; nothing where the property is not set by anybody.
#[must_use]
pub fn values_of(row: &Row) -> String {
    match row.kind {
        Kind::Index(words) => words_of(row, words),
        Kind::Number(..) | Kind::Text(_) => row.values.to_owned(),
    }
}

/// The default as it is shown.
#[must_use]
pub fn default_of(row: &Row) -> Option<String> {
    match row.default {
        Default::Nothing => None,
        Default::Number(_) | Default::Text(_) => Some(row.format(&row.default_value(), false)),
    }
}

/// The name that is accepted as well, if it is another.
#[must_use]
pub fn short_name(row: &Row) -> Option<String> {
    let short = row.column.to_lowercase();
    (short != row.name).then_some(short)
}

/// Who sets it, and who has it from whom.
#[must_use]
pub const fn access_of(row: &Row) -> &'static str {
    match (row.access, row.inherits) {
        (Access::ReadOnly, _) => "measured",
        (Access::Settable, true) => "set, inherited",
        (Access::Settable, false) => "set",
        (Access::AtCreation, true) => "set when it is made, inherited",
        (Access::AtCreation, false) => "set when it is made",
    }
}

/// The kinds of dataset that have it.
#[must_use]
pub fn kinds_of(row: &Row) -> String {
    const KINDS: [(Types, &str); 4] = [
        (Types::FILESYSTEM, "file systems"),
        (Types::VOLUME, "volumes"),
        (Types::SNAPSHOT, "snapshots"),
        (Types::BOOKMARK, "bookmarks"),
    ];
    let kinds = KINDS.iter().filter(|(kind, _)| row.types.intersects(*kind));
    let kinds: Vec<&str> = kinds.map(|(_, name)| *name).collect();
    if kinds.len() == KINDS.len() {
        "all".to_owned()
    } else {
        kinds.join(", ")
    }
}

/// What else follows, sentence by sentence.
#[must_use]
pub fn notes_of(row: &Row) -> Vec<String> {
    let mut notes: Vec<String> = row.needs.iter().map(|need| needed(row, need)).collect();
    notes.extend(
        row.effects
            .iter()
            .map(|effect| effect_text(*effect).to_owned()),
    );
    if row.mount.is_some() {
        notes.push("A mount may differ until it ends.".to_owned());
    }
    let why = match row.support {
        Support::Full => return notes,
        Support::Stored => "Stored and shown; nothing here goes by it.",
        Support::DefaultOnly(why) | Support::Never(why) => unsupported(why),
    };
    notes.push(why.to_owned());
    notes
}

fn needed(row: &Row, need: &Need) -> String {
    let shown = |number: u64| row.format(&Value::Number(number), false);
    let values = match need.values {
        Values::All => "Any value".to_owned(),
        Values::Is(number) => format!("`{}`", shown(number)),
        Values::IsNot(number) => format!("All but `{}`", shown(number)),
        Values::Above(number) => format!("More than {}", shown(number)),
        Values::Within(first, last) => format!("`{}` to `{}`", shown(first), shown(last)),
        Values::Low(number) => format!("`{}`, at every level,", shown(number)),
    };
    match need.requirement {
        Requirement::Feature(feature) => format!("{values} needs the feature `{}`.", feature.name),
        Requirement::Version(version) => format!("{values} needs pool version {version}."),
    }
}

const fn effect_text(effect: Effect) -> &'static str {
    match effect {
        Effect::Remount => "Mounted file systems follow at once.",
        Effect::Move => "Mounted file systems are unmounted, and mounted where they belong.",
        Effect::Quota => "Not below what is used or reserved.",
        Effect::Reservation => "Not above what is left, nor above the quota.",
        Effect::RefQuota => "Not below what is referenced or reserved.",
        Effect::RefReservation => {
            "Not above what is left, nor above the quota of what is referenced."
        }
        Effect::CountBelow => "File systems and snapshots below are counted from then on.",
        Effect::ActivateFeature => "The feature of the value becomes active.",
        Effect::Caching => "For what is read and written from then on, mounted or not.",
        Effect::MayFreeSpace => "Possible on a pool that is all but full.",
    }
}

const fn unsupported(why: Unsupported) -> &'static str {
    match why {
        Unsupported::NoKey => "Of roots of encryption; all others have `none`.",
        Unsupported::OnlyNew => "Chosen when a file system, volume or pool is made.",
        Unsupported::Labels => "No other value is supported.",
        Unsupported::NotYet => "No other value is written yet.",
    }
}

const HEAD: &str = "\
# Properties

Written by `cargo xtask properties` from the rows in `crates/dsl/src/property/table`, which parser, checks, `get` and
`set` go by. The short name is the header of the column in lists, and accepted as a name as well.
";

/// The text of `docs/properties.md`.
#[must_use]
pub fn list() -> String {
    let mut out = HEAD.to_owned();
    let tables = [
        ("Datasets", DATASET_PROPERTIES, true),
        ("Pools", POOL_PROPERTIES, false),
        ("Vdevs", VDEV_PROPERTIES, false),
    ];
    for (title, rows, kinds) in tables {
        out += &format!("\n## {title}\n\n| property | values | default | who sets it |");
        out += if kinds {
            " who has it | besides |\n"
        } else {
            " besides |\n"
        };
        out += if kinds {
            "|---|---|---|---|---|---|\n"
        } else {
            "|---|---|---|---|---|\n"
        };
        for row in rows.iter().filter(|row| row.visible) {
            out += &line(row, kinds);
        }
    }
    out
}

fn line(row: &Row, kinds: bool) -> String {
    let short = short_name(row).map_or_else(String::new, |short| format!(", `{short}`"));
    let values = values_of(row).replace('|', "\\|");
    let mut cells = vec![
        format!("`{}`{short}", row.name),
        format!("`{values}`"),
        default_of(row).map_or_else(String::new, |text| format!("`{text}`")),
        access_of(row).to_owned(),
    ];
    if kinds {
        cells.push(kinds_of(row));
    }
    cells.push(notes_of(row).join(" "));
    format!("| {} |\n", cells.join(" | ").replace("``", ""))
}
