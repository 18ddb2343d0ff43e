//! Properties of pools, as `zpool list` and `zpool get` ask for them.

use admin::client::Connection;
use admin::rows::pool::NAME;
use admin::{PoolReport, PropertyName, Selection, Setting};

use super::flags::json_options;
use crate::daemons::{pools, report};
use crate::grammar::Invocation;
use crate::output::Stop;
use crate::render::Json;

pub(super) fn reports(names: &[String], asked: Selection) -> Result<(Vec<PoolReport>, bool), Stop> {
    let (connections, complete) = pools(names)?;
    Ok((reports_of(connections, &asked)?, complete))
}

pub(super) fn reports_of(
    connections: Vec<Connection>,
    asked: &Selection,
) -> Result<Vec<PoolReport>, Stop> {
    let mut found = Vec::new();
    for mut connection in connections {
        found.push(report(&mut connection, asked.clone())?);
    }
    Ok(found)
}

pub(super) fn json(
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

pub(super) fn settings(
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
