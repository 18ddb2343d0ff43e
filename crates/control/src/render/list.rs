//! `zfs list`: columns, widths and order.

use std::cmp::Ordering;

use super::Style;
use crate::message::DatasetRow;
use dsl::property::{Kind, Row, dataset, pool};

use crate::property::{PropertyName, RowText, Types, Value};
use crate::table::Column;

/// A key of `-s` or `-S`.
#[derive(Debug, Clone)]
pub struct SortKey {
    /// By what.
    pub property: PropertyName,
    /// Largest first.
    pub descending: bool,
}

/// Brings datasets in order: by the keys, those without the property last; then by name, a dataset
/// before its snapshots, these by age, then its bookmarks.
pub fn sort_datasets(rows: &mut [DatasetRow], keys: &[SortKey]) {
    rows.sort_by(|a, b| {
        keys.iter()
            .map(|key| compare_by(a, b, key))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| natural_order(a, b))
    });
}

fn natural_order(a: &DatasetRow, b: &DatasetRow) -> Ordering {
    let rank = |row: &DatasetRow| match row.kind {
        Types::SNAPSHOT => 1,
        Types::BOOKMARK => 2,
        _ => 0,
    };
    let (left, right) = (
        crate::name::dataset_of(&a.name),
        crate::name::dataset_of(&b.name),
    );
    left.cmp(right)
        .then_with(|| rank(a).cmp(&rank(b)))
        .then_with(|| a.created_txg.cmp(&b.created_txg))
        .then_with(|| a.name.cmp(&b.name))
}

fn compare_by(a: &DatasetRow, b: &DatasetRow, key: &SortKey) -> Ordering {
    let name = key.property.name();
    let order = if dataset::NAME.is(name) {
        a.name.cmp(&b.name)
    } else {
        let value = |row: &DatasetRow| match row.get(name).map(|setting| setting.value.clone()) {
            Some(Value::Absent) | None => None,
            present => present,
        };
        match (value(a), value(b)) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Greater,
            (Some(_), None) => return Ordering::Less,
            (Some(Value::Number(left)), Some(Value::Number(right))) => left.cmp(&right),
            (Some(left), Some(right)) => plain(&left).cmp(&plain(&right)),
        }
    };
    if key.descending {
        order.reverse()
    } else {
        order
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Absent => String::new(),
        Value::Number(number) => number.to_string(),
        Value::Text(text) => text.clone(),
    }
}

/// The list, in the order of the rows.
#[must_use]
pub fn dataset_list(rows: &[DatasetRow], columns: &[PropertyName], style: Style) -> String {
    let header: Vec<Column> = columns.iter().map(column).collect();
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            columns
                .iter()
                .map(|property| cell(row, property, style.exact))
                .collect()
        })
        .collect();
    style.table(&header, &cells)
}

pub(super) fn cell(row: &DatasetRow, property: &PropertyName, exact: bool) -> String {
    if dataset::NAME.is(property.name()) {
        return row.name.clone();
    }
    row.get(property.name()).map_or_else(
        || "-".to_owned(),
        |setting| property.format(&setting.value, exact),
    )
}

pub(super) fn column(property: &PropertyName) -> Column {
    let header = property.column();
    match property {
        PropertyName::Native(row) if row.right_aligned() => Column {
            width_min: width_min(row),
            ..Column::right(&header)
        },
        PropertyName::Native(row) => Column {
            width_min: width_min(row),
            ..Column::left(&header)
        },
        PropertyName::User(_) | PropertyName::Computed(_) => Column::left(&header),
    }
}

/// The least width of its column.
pub(super) fn width_min(row: &Row) -> usize {
    match row.kind {
        Kind::Index(words) => words.iter().map(|(word, _)| word.len()).max().unwrap_or(0),
        Kind::Number(..) => 5,
        Kind::Text(_) if pool::HEALTH.is(row.name) => 8,
        Kind::Text(_) if dataset::TYPE.is(row.name) => "filesystem".len(),
        Kind::Text(_) => 0,
    }
}
