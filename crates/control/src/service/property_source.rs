//! One dataset as properties see it, and the rule that makes a shown property of what is stored.

use admin::{
    DATASET_PROPERTIES, Failure, PropertyName, RowText, Setting, Source, Types, Value,
    find_dataset_property,
};
use dsl::property::{Default, Figure, Home, Row, Shown, dataset};

#[cfg(test)]
mod tests;

/// A dataset, snapshot or bookmark whose properties can be asked for.
pub(crate) trait PropertySource {
    /// Its full name.
    fn name(&self) -> &str;
    /// Its kind.
    fn kind(&self) -> Types;
    /// For a snapshot or bookmark, the kind of what it is of; else its own.
    fn head_kind(&self) -> Types;
    /// When it was made.
    fn created_txg(&self) -> u64;
    /// What is measured (or fixed since creation); nothing if it has none.
    fn figure(&self, figure: Figure) -> Result<Option<Value>, Failure>;
    /// What is computed of what the name tells: `written@…`, `userused@…`.
    fn computed(&self, name: &str) -> Result<Option<Value>, Failure>;
    /// What was set here or above; without defaults.
    fn stored(&self, row: &'static Row) -> Result<Option<Setting>, Failure>;
    /// The same of a property that a user gave a name.
    fn user_property(&self, name: &str) -> Result<Option<Setting>, Failure>;
    /// The user properties set here or above, by name.
    fn user_properties(&self) -> Result<Vec<(String, Setting)>, Failure>;
}

/// All properties that the owner has, in the order of `get all`.
pub(crate) fn all(owner: &dyn PropertySource) -> Result<Vec<(String, Setting)>, Failure> {
    let mut found = Vec::new();
    for row in DATASET_PROPERTIES.iter().filter(|row| row.visible) {
        if let Some(setting) = native(owner, row)? {
            found.push((row.name.to_owned(), setting));
        }
    }
    found.extend(owner.user_properties()?);
    Ok(found)
}

/// The named properties that the owner has, in the order of the names.
pub(crate) fn named(
    owner: &dyn PropertySource,
    names: &[String],
) -> Result<Vec<(String, Setting)>, Failure> {
    let mut found = Vec::new();
    for name in names {
        let setting = match find_dataset_property(name) {
            Some(PropertyName::Native(row)) => native(owner, row)?,
            Some(PropertyName::User(name)) => user(owner, &name)?,
            Some(PropertyName::Computed(name)) => {
                // What is asked for by name (users' space, `written@`) counts as the dataset's own.
                let value = owner.computed(&name)?;
                value.map(|value| Setting::from(value, Source::Local))
            }
            None => None,
        };
        found.extend(setting.map(|setting| (name.clone(), setting)));
    }
    Ok(found)
}

fn user(owner: &dyn PropertySource, name: &str) -> Result<Option<Setting>, Failure> {
    if owner.kind() == Types::BOOKMARK {
        return Ok(None);
    }
    owner.user_property(name)
}

fn native(owner: &dyn PropertySource, row: &'static Row) -> Result<Option<Setting>, Failure> {
    let kind = owner.kind();
    if !applies(row, owner) {
        return Ok(None);
    }
    let text = |text: &str| Ok(Some(Setting::measured(Value::Text(text.to_owned()))));
    if dataset::NAME.is(row.name) {
        return text(owner.name());
    }
    if dataset::TYPE.is(row.name) {
        return text(kind.word());
    }
    if row.is_fixed() {
        return measured(owner, row, Source::None);
    }
    let setting = match owner.stored(row)? {
        Some(setting) => setting,
        None if row.home == Home::Volume => return measured(owner, row, Source::Local),
        None => Setting::from(row.default_value(), Source::Default),
    };
    // What the dataset's directory holds beats what the property table remembers.
    if let (Home::Table, Some(figure)) = (row.home, row.measured.dataset())
        && let Some(value) = owner.figure(figure)?
    {
        let source = if value == Value::Number(0) {
            Source::Default
        } else if setting.source == Source::Default {
            Source::Local
        } else {
            setting.source
        };
        return Ok(Some(Setting {
            value,
            source,
            received: setting.received,
        }));
    }
    Ok(Some(setting))
}

/// Whether a dataset has a property; a snapshot has none that only file systems or only volumes have, unless its own
/// head is one.
pub(super) fn applies(row: &Row, owner: &dyn PropertySource) -> bool {
    let kind = owner.kind();
    let of_heads = row.types.intersection(Types::HEADS);
    let suits_head = || of_heads.is_empty() || of_heads.intersects(owner.head_kind());
    row.types.intersects(kind) && (kind != Types::SNAPSHOT || suits_head())
}

fn measured(
    owner: &dyn PropertySource,
    row: &Row,
    source: Source,
) -> Result<Option<Setting>, Failure> {
    let value = match row.measured.dataset() {
        Some(figure) => owner.figure(figure)?,
        None => None,
    };
    Ok(match (row.shown, value) {
        (Shown::OrDefault | Shown::PlainOrDefault, Some(value))
            if is_default(&value, row.default) =>
        {
            Some(Setting::from(value, Source::Default))
        }
        (Shown::Counted, Some(value)) => Some(Setting::from(value, Source::Local)),
        (Shown::Plain | Shown::OrDefault | Shown::PlainOrDefault, Some(value)) => {
            Some(Setting::from(value, source))
        }
        // Counts nobody keeps, keys nobody has.
        (Shown::Counted | Shown::OrDefault, None) => {
            Some(Setting::from(row.default_value(), Source::Default))
        }
        (Shown::Plain | Shown::PlainOrDefault, None) => None,
    })
}

fn is_default(value: &Value, default: Default) -> bool {
    matches!((value, default), (Value::Number(a), Default::Number(b)) if *a == b)
}
