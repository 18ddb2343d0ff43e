//! `zpool list` and `zpool get`.

use admin::rows::pool::{HEALTH, NAME};
use admin::{PoolReport, PropertyName, Selection, Setting, VdevNaming};
use base::clock::{Clock, SystemClock};

use crate::Outcome;
use crate::arguments::pool_columns;
use crate::daemons::{ended, pools, report};
use crate::grammar::Invocation;
use crate::output::{Stop, print, usage};
use crate::render::{GetRow, Json, JsonOptions, PoolListOptions, Style};
use crate::repeat::Interval;

const COLUMNS: &str = "name,size,allocated,free,checkpoint,expandsize,fragmentation,capacity,dedupratio,health,altroot";

/// How `-g`, `-L` and `-P` name vdevs.
pub(super) fn naming(call: &Invocation) -> VdevNaming {
    VdevNaming {
        guid: call.has("g"),
        resolve: call.has("L"),
        full: call.has("P"),
    }
}

pub(super) fn json_options(call: &Invocation) -> JsonOptions {
    JsonOptions {
        exact: call.has("p") || call.has("json-int"),
        integers: call.has("json-int"),
        guid_keys: call.has("json-pool-key-guid"),
        flat_vdevs: call.has("json-flat-vdevs"),
        ..JsonOptions::default()
    }
}

/// The time that `-T` asks for.
pub(super) fn timestamp(call: &Invocation) -> Result<String, Stop> {
    let now = SystemClock.now_s();
    match call.value("T") {
        None => Ok(String::new()),
        Some("u") => Ok(format!("{now}\n")),
        Some("d") => Ok(format!("{}\n", admin::moment(now))),
        Some(_) => Err(usage("invalid -T argument: must be 'u' or 'd'")),
    }
}

pub(crate) fn list(call: &Invocation) -> Outcome {
    let columns = pool_columns(call.value("o").unwrap_or(COLUMNS))?;
    let interval = Interval::split(call.operands());
    interval.repeat(&mut || {
        let (found, complete) = reports(&interval.names, names(&columns))?;
        let options = PoolListOptions {
            style: Style {
                scripted: call.has("H"),
                exact: call.has("p"),
            },
            vdevs: call.has("v"),
            naming: naming(call),
        };
        let text = if call.has("j") {
            json("zpool list", call, found, Some(&columns))
        } else if found.is_empty() && complete {
            "no pools available\n".to_owned()
        } else if found.is_empty() {
            String::new()
        } else {
            crate::render::pool_list(&found, &columns, options)
        };
        print(&(timestamp(call)? + &text))?;
        ended(complete)
    })
}

fn names(columns: &[PropertyName]) -> Selection {
    let mut names: Vec<String> = columns
        .iter()
        .map(|column| column.name().to_owned())
        .collect();
    // JSON wants it in the head of every pool.
    names.push(HEALTH.name.to_owned());
    Selection::Names(names)
}

fn reports(names: &[String], asked: Selection) -> Result<(Vec<PoolReport>, bool), Stop> {
    let (connections, complete) = pools(names)?;
    let mut found = Vec::new();
    for mut connection in connections {
        found.push(report(&mut connection, asked.clone())?);
    }
    Ok((found, complete))
}

fn json(
    command: &str,
    call: &Invocation,
    pools: Vec<PoolReport>,
    columns: Option<&[PropertyName]>,
) -> String {
    let with_settings: Vec<(PoolReport, Vec<(PropertyName, Setting)>)> = pools
        .into_iter()
        .map(|pool| {
            let settings = settings(&pool, columns)
                .into_iter()
                .filter_map(|(name, setting)| Some((name, setting?)))
                .collect();
            (pool, settings)
        })
        .collect();
    let mut json = Json::new(command, json_options(call));
    json.pools(&with_settings);
    json.text()
}

fn settings(
    pool: &PoolReport,
    asked: Option<&[PropertyName]>,
) -> Vec<(PropertyName, Option<Setting>)> {
    match asked {
        Some(names) => names
            .iter()
            .filter(|name| !NAME.is(name.name()))
            .map(|name| (name.clone(), pool.get(name.name()).cloned()))
            .collect(),
        None => pool
            .properties
            .iter()
            .filter_map(|(name, set)| Some((admin::find_pool_property(name)?, Some(set.clone()))))
            .collect(),
    }
}

pub(crate) fn get(call: &Invocation) -> Outcome {
    let fields = crate::zfs::get_fields(call.value("o"))?;
    let (asked, names) = call
        .operands()
        .split_first()
        .ok_or_else(|| usage("missing property"))?;
    if let Some((pool, vdevs)) = super::vdev::asked_for(names)? {
        return super::vdev::get(call, asked, pool, vdevs);
    }
    let (columns, selection) = if asked == "all" {
        (None, Selection::All)
    } else {
        let columns = pool_columns(asked)?;
        let names = columns
            .iter()
            .map(|column| column.name().to_owned())
            .collect();
        (Some(columns), Selection::Names(names))
    };
    let (found, complete) = reports(names, selection)?;
    if call.has("j") {
        print(&json("zpool get", call, found, columns.as_deref()))?;
        return ended(complete);
    }
    let mut rows = Vec::new();
    for pool in &found {
        for (property, setting) in settings(pool, columns.as_deref()) {
            rows.push(GetRow {
                name: pool.name.clone(),
                property,
                setting,
            });
        }
    }
    if !rows.is_empty() {
        let style = Style {
            scripted: call.has("H"),
            exact: call.has("p"),
        };
        print(&crate::render::get(&rows, &fields, style))?;
    }
    ended(complete)
}
