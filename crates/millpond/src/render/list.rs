//! `zfs list`: columns, widths and order.

use admin::rows::{Kind, Row, dataset, pool};
use admin::{DatasetRow, PropertyName, RowText};

use super::Style;
use super::table::Column;

/// The list, in the order of the rows.
#[must_use]
pub(crate) fn dataset_list(rows: &[DatasetRow], columns: &[PropertyName], style: Style) -> String {
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
