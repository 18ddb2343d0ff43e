//! What commands print, byte for byte as OpenZFS prints it. Pure: values in, text out.

mod diff;
mod events;
mod features;
mod get;
mod grants;
mod history;
mod import;
mod iostat;
mod json;
mod known;
mod list;
mod metrics;
mod owners;
mod pools;
mod status;
mod table;
mod tree;

#[cfg(test)]
mod tests;

pub(crate) use diff::{DiffOptions, diff};
pub(crate) use events::{EVENTS_HEADER, events};
pub(crate) use features::features_text;
pub(crate) use get::{GetField, GetRow, get};
pub(crate) use grants::grants;
pub(crate) use history::{history, holds};
pub(crate) use import::import_list;
pub(crate) use iostat::{IoHistogram, IoLayout, iostat};
pub(crate) use json::{Json, JsonOptions};
pub(crate) use known::not_running;
pub(crate) use list::dataset_list;
pub(crate) use metrics::{MetricsTable, metrics_json, metrics_table};
pub(crate) use owners::{OwnerField, OwnerNames, OwnerSort, owner_space, sort_owners};
pub(crate) use pools::{PoolListOptions, pool_list};
pub(crate) use status::{StatusOptions, status};
pub(crate) use table::{Column, aligned, scripted};
pub(crate) use tree::lines;

/// How tables are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Style {
    /// Tabs and no header (`-H`).
    pub(crate) scripted: bool,
    /// Numbers in full (`-p`).
    pub(crate) exact: bool,
}

impl Style {
    fn table(self, columns: &[table::Column], rows: &[Vec<String>]) -> String {
        if self.scripted {
            table::scripted(rows)
        } else {
            table::aligned(columns, rows)
        }
    }
}
