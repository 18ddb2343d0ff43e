//! The order of datasets in lists.

use std::cmp::Ordering;

use dsl::property::dataset;

use crate::message::DatasetRow;
use crate::name::dataset_of;
use crate::property::{PropertyName, Types, Value};

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
    let (left, right) = (dataset_of(&a.name), dataset_of(&b.name));
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
