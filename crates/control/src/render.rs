//! What commands print, byte for byte as OpenZFS prints it. Pure: values in, text out.

mod diff;
mod get;
mod grants;
mod history;
mod import;
mod iostat;
mod json;
mod list;
mod metrics;
mod owners;
mod pools;
mod status;
mod tree;

#[cfg(test)]
mod tests;

pub use diff::{DiffOptions, diff};
pub use get::{GetField, GetRow, get};
pub use grants::grants;
pub use history::{history, holds};
pub use import::{ImportCandidate, ImportState, import_list};
pub use iostat::{IoHistogram, IoLayout, IoTable, iostat};
pub use json::{Json, JsonOptions};
pub use list::{SortKey, dataset_list, sort_datasets};
pub use metrics::{MetricsTable, metrics_json, metrics_table, prometheus};
pub use owners::{OwnerField, OwnerNames, OwnerSort, owner_space, sort_owners};
pub use pools::{PoolListOptions, pool_list};
pub use status::{StatusOptions, status};
pub use tree::VdevNaming;

/// How tables are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// Tabs and no header (`-H`).
    pub scripted: bool,
    /// Numbers in full (`-p`).
    pub exact: bool,
}

impl Style {
    fn table(self, columns: &[crate::table::Column], rows: &[Vec<String>]) -> String {
        if self.scripted {
            crate::table::scripted(rows)
        } else {
            crate::table::aligned(columns, rows)
        }
    }
}
