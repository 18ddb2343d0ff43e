//! Properties of vdevs: `zpool get all POOL VDEV`, `zpool set property=value POOL VDEV`.

use admin::changes::SetVdev;
use admin::queries::Vdevs;
use admin::rows::Access;
use admin::{
    Assignments, Change, DatasetRow, Failure, FailureKind, PropertyError, PropertyName, RowText,
    Selection, Value, client, find_vdev_property,
};

use super::flags::json_options;
use crate::arguments::{get_fields, split_assignment};
use crate::daemons::{change, pool};
use crate::grammar::Invocation;
use crate::output::{Outcome, Stop, print, usage};
use crate::render::{GetRow, Json, Style};

/// A pool and names that are no pools: vdevs of it.
pub(super) fn asked_for(names: &[String]) -> Result<Option<(&str, &[String])>, Failure> {
    let Some((first, rest)) = names.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        return Ok(None);
    };
    let running = client::running_beside(first)?.connections;
    let is_pool = |name: &String| running.iter().any(|daemon| daemon.pool() == name);
    let vdevs = is_pool(first) && !rest.iter().any(is_pool);
    Ok(vdevs.then_some((first, rest)))
}

pub(super) fn get(call: &Invocation, asked: &str, name: &str, vdevs: &[String]) -> Outcome {
    let fields = get_fields(call.value("o"))?;
    let (columns, properties) = if asked == "all" {
        (None, Selection::All)
    } else {
        let columns: Vec<PropertyName> = asked
            .split(',')
            .map(|word| {
                let bad = || usage(format!("bad property list: invalid property '{word}'"));
                find_vdev_property(word).ok_or_else(bad)
            })
            .collect::<Result<_, Stop>>()?;
        let names = columns.iter().map(|column| column.name().to_owned());
        let selection = Selection::Names(names.collect());
        (Some(columns), selection)
    };
    let found = pool(name)?.ask(Vdevs {
        names: vdevs.to_vec(),
        properties,
    })?;
    let columns_of = |row: &DatasetRow| match &columns {
        Some(columns) => columns.clone(),
        None => row
            .properties
            .iter()
            .filter_map(|(name, _)| find_vdev_property(name))
            .collect(),
    };
    if call.has("j") {
        let mut json = Json::new("zpool get", json_options(call));
        json.vdevs(&found);
        return print(&json.text());
    }
    let rows: Vec<GetRow> = found
        .iter()
        .flat_map(|row| {
            columns_of(row).into_iter().map(|property| GetRow {
                name: row.name.clone(),
                setting: row.get(property.name()).cloned(),
                property,
            })
        })
        .collect();
    let style = Style {
        scripted: call.has("H"),
        exact: call.has("p"),
    };
    print(&crate::render::get(&rows, &fields, style))
}

pub(super) fn set(call: &Invocation, text: &str, name: &str, vdev: &str) -> Outcome {
    let (property, value) = split_assignment(text).map_err(|error| usage(error.to_string()))?;
    let refused = |reason: String| {
        let text = format!("cannot set property {property} for {vdev} on {name}: {reason}");
        Stop::Failure(Failure::new(FailureKind::Invalid, text))
    };
    let value = match find_vdev_property(property) {
        None => return Err(refused(format!("invalid property: '{property}'"))),
        Some(PropertyName::Native(row)) if row.access != Access::Settable => {
            let error = PropertyError::ReadOnly(property.to_owned());
            return Err(refused(error.to_string()));
        }
        Some(PropertyName::Native(_)) if value == "none" => Value::Absent,
        Some(PropertyName::Native(row)) => row
            .parse(value)
            .map_err(|error| refused(error.to_string()))?,
        Some(_) if value.len() >= 8192 => return Err(refused(PropertyError::TooLong.to_string())),
        Some(_) => Value::Text(value.to_owned()),
    };
    let properties: Assignments = vec![(property.to_owned(), value)];
    let request = Change::SetVdev(SetVdev {
        vdev: vdev.to_owned(),
        properties,
    });
    change(&mut pool(name)?, request, &call.line)
}
