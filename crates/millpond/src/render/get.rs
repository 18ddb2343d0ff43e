//! `zfs get` and `zpool get`.

use admin::{PropertyName, Setting, Source};

use super::Style;
use super::table::Column;

/// A column of `get`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GetField {
    /// The object's name.
    Name,
    /// The property's.
    Property,
    /// Its value.
    Value,
    /// The received value.
    Received,
    /// Where it comes from.
    Source,
}

impl GetField {
    /// The columns without `-o`.
    pub(crate) const USUAL: [Self; 4] = [Self::Name, Self::Property, Self::Value, Self::Source];
    /// The columns of `-o all`.
    pub(crate) const ALL: [Self; 5] = [
        Self::Name,
        Self::Property,
        Self::Value,
        Self::Received,
        Self::Source,
    ];

    /// The column that a word of `-o` names.
    #[must_use]
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "name" => Self::Name,
            "property" => Self::Property,
            "value" => Self::Value,
            "received" => Self::Received,
            "source" => Self::Source,
            _ => return None,
        })
    }

    const fn header(self) -> &'static str {
        match self {
            Self::Name => "NAME",
            Self::Property => "PROPERTY",
            Self::Value => "VALUE",
            Self::Received => "RECEIVED",
            Self::Source => "SOURCE",
        }
    }
}

/// A line of `get`.
#[derive(Debug, Clone)]
pub(crate) struct GetRow {
    /// The object's name.
    pub(crate) name: String,
    /// The property.
    pub(crate) property: PropertyName,
    /// Its value; none: it does not apply.
    pub(crate) setting: Option<Setting>,
}

/// The table.
#[must_use]
pub(crate) fn get(rows: &[GetRow], fields: &[GetField], style: Style) -> String {
    let columns: Vec<Column> = fields
        .iter()
        .map(|field| Column::left(field.header()))
        .collect();
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            fields
                .iter()
                .map(|field| cell(row, *field, style.exact))
                .collect()
        })
        .collect();
    style.table(&columns, &cells)
}

fn cell(row: &GetRow, field: GetField, exact: bool) -> String {
    match field {
        GetField::Name => row.name.clone(),
        GetField::Property => row.property.name().to_owned(),
        GetField::Value => row.setting.as_ref().map_or_else(
            || "-".to_owned(),
            |set| row.property.format(&set.value, exact),
        ),
        GetField::Received => row
            .setting
            .as_ref()
            .and_then(|set| set.received.as_ref())
            .map_or_else(|| "-".to_owned(), |value| row.property.format(value, exact)),
        GetField::Source => row
            .setting
            .as_ref()
            .map_or_else(|| "-".to_owned(), |set| source(&set.source)),
    }
}

fn source(source: &Source) -> String {
    source.text()
}
