//! `zpool list`.

use admin::rows::PoolFigure;
use admin::rows::pool::NAME;
use admin::{PoolReport, PropertyName, VdevClass, VdevNaming, VdevReport, human, ratio};

use super::Style;
use super::list::column;
use super::table::Column;
use super::tree::lines;

/// What `zpool list` shows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PoolListOptions {
    /// Tabs, exact numbers.
    pub(crate) style: Style,
    /// The vdevs too (`-v`).
    pub(crate) vdevs: bool,
    /// How vdevs are named.
    pub(crate) naming: VdevNaming,
}

/// The list, in the order of the pools.
#[must_use]
pub(crate) fn pool_list(
    pools: &[PoolReport],
    columns: &[PropertyName],
    options: PoolListOptions,
) -> String {
    let mut header: Vec<Column> = columns.iter().map(column).collect();
    let mut rows = Vec::new();
    for pool in pools {
        rows.push(
            columns
                .iter()
                .map(|name| cell(pool, name, options.style.exact))
                .collect(),
        );
        if options.vdevs {
            vdev_rows(pool, columns, options, &mut rows);
        }
    }
    if options.vdevs
        && let Some(first) = header.first_mut()
    {
        first.width_min = first.width_min.max(9);
    }
    options.style.table(&header, &rows)
}

fn cell(pool: &PoolReport, property: &PropertyName, exact: bool) -> String {
    if NAME.is(property.name()) {
        return pool.name.clone();
    }
    pool.get(property.name()).map_or_else(
        || "-".to_owned(),
        |setting| property.format(&setting.value, exact),
    )
}

fn vdev_rows(
    pool: &PoolReport,
    columns: &[PropertyName],
    options: PoolListOptions,
    rows: &mut Vec<Vec<String>>,
) {
    const HEADS: [(VdevClass, &str); 6] = [
        (VdevClass::Normal, ""),
        (VdevClass::Dedup, "dedup"),
        (VdevClass::Special, "special"),
        (VdevClass::Log, "logs"),
        (VdevClass::Cache, "cache"),
        (VdevClass::Spare, "spare"),
    ];
    for (class, head) in HEADS {
        let group = lines(&pool.vdevs, class);
        if group.is_empty() {
            continue;
        }
        if !head.is_empty() && !options.style.scripted {
            let dashes = columns.iter().skip(1).map(|_| "-".to_owned());
            rows.push(std::iter::once(head.to_owned()).chain(dashes).collect());
        }
        for line in group {
            let name = options.naming.name(line.vdev);
            let indented = if options.style.scripted {
                format!("\t{name}")
            } else {
                format!("{}{name}", "  ".repeat(line.depth))
            };
            let top = line.depth == 1;
            let cells = columns
                .iter()
                .skip(1)
                .map(|property| vdev_cell(line.vdev, property, top, options.style.exact));
            rows.push(std::iter::once(indented).chain(cells).collect());
        }
    }
}

fn vdev_cell(vdev: &VdevReport, property: &PropertyName, top: bool, exact: bool) -> String {
    let number = |value: u64| {
        if exact {
            value.to_string()
        } else {
            human(value)
        }
    };
    let dash = || "-".to_owned();
    let figure = match property {
        PropertyName::Native(row) => row.measured.pool(),
        PropertyName::User(_) | PropertyName::Computed(_) => None,
    };
    let Some(figure) = figure else {
        return dash();
    };
    match figure {
        PoolFigure::Size if vdev.device_size > 0 => number(vdev.device_size),
        PoolFigure::Size if vdev.size > 0 => number(vdev.size),
        PoolFigure::Health => vdev.state.word().to_owned(),
        PoolFigure::ExpandSize if vdev.expandable > 0 => number(vdev.expandable),
        _ if !top => dash(),
        PoolFigure::Allocated => vdev.allocated.map_or_else(dash, number),
        PoolFigure::Free => vdev
            .allocated
            .map_or_else(dash, |used| number(vdev.size.saturating_sub(used))),
        PoolFigure::Fragmentation => vdev.fragmentation.map_or_else(dash, |percent| {
            if exact {
                percent.to_string()
            } else {
                format!("{percent}%")
            }
        }),
        PoolFigure::Capacity => vdev
            .allocated
            .map_or_else(dash, |used| capacity(used, vdev.size, exact)),
        PoolFigure::Name
        | PoolFigure::Size
        | PoolFigure::AltRoot
        | PoolFigure::Guid
        | PoolFigure::Version
        | PoolFigure::CacheFile
        | PoolFigure::DedupRatio
        | PoolFigure::ReadOnly
        | PoolFigure::Comment
        | PoolFigure::ExpandSize
        | PoolFigure::Freeing
        | PoolFigure::Leaked
        | PoolFigure::Checkpoint
        | PoolFigure::LoadGuid
        | PoolFigure::Compatibility
        | PoolFigure::CloneUsed
        | PoolFigure::CloneSaved
        | PoolFigure::CloneRatio
        | PoolFigure::DedupTableSize
        | PoolFigure::LastScrubbedTxg => dash(),
    }
}

/// `1.23%`, `12.3%`, `100%`: three digits.
fn capacity(used: u64, size: u64, exact: bool) -> String {
    if size == 0 {
        return "-".to_owned();
    }
    let hundredths = u64::try_from(u128::from(used) * 10_000 / u128::from(size)).unwrap_or(0);
    match hundredths {
        _ if exact => (hundredths / 100).to_string(),
        0..1000 => ratio(hundredths, true) + "%",
        1000..10_000 => format!("{}.{}%", hundredths / 100, hundredths / 10 % 10),
        _ => format!("{}%", hundredths / 100),
    }
}
