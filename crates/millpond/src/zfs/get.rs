//! `zfs get`.

use admin::{DatasetRow, PropertyName, Selection, Setting, Types};

use super::flags::{DEPTH, RECURSIVE};
use super::selection::{Wanted, collect};
use crate::arguments::{dataset_property, depth, get_fields, types};
use crate::daemons::ended;
use crate::flags::{EXACT, JSON, JSON_INT, SCRIPTED};
use crate::grammar::{Command, Invocation, Operands, option};
use crate::output::{Outcome, Stop, print, usage};
use crate::render::{GetRow, Json, JsonOptions, Style};

/// `zfs get`.
pub(super) const COMMAND: Command = Command {
    name: "get",
    aliases: &[],
    summary: "Show properties.",
    forms: &["all|property[,...] [filesystem|volume|snapshot|bookmark] ..."],
    flags: &[
        RECURSIVE,
        DEPTH,
        SCRIPTED,
        EXACT,
        JSON,
        JSON_INT,
        option(
            "o",
            "all|field[,...]",
            "the columns: name, property, value, received, source",
        ),
        option(
            "s",
            "source[,...]",
            "only values from: local, default, inherited, …",
        ),
        option(
            "t",
            "type[,...]",
            "filesystem, volume, snapshot, bookmark or all",
        ),
    ],
    operands: Operands::at_least(1, "missing property argument"),
    run: get,
};

fn get(call: &Invocation) -> Outcome {
    let fields = get_fields(call.value("o"))?;
    let sources = sources(call.value("s"))?;
    let (asked, operands) = call
        .operands()
        .split_first()
        .ok_or_else(|| usage("missing property"))?;
    let properties = if asked == "all" {
        None
    } else {
        Some(
            asked
                .split(',')
                .map(dataset_property)
                .collect::<Result<Vec<_>, _>>()?,
        )
    };
    let wanted = Wanted {
        types: Some(types(call.values("t"))?.unwrap_or(Types::ALL)),
        depth: Some(depth(call.has("r"), call.value("d"))?.unwrap_or(Some(0))),
        properties: match &properties {
            None => Selection::All,
            Some(names) => Selection::Names(names.iter().map(|p| p.name().to_owned()).collect()),
        },
        implied: Types::ALL,
    };
    let wanted = if operands.is_empty() {
        Wanted {
            depth: None,
            ..wanted
        }
    } else {
        wanted
    };
    let (mut rows, complete) = collect(operands, &wanted)?;
    if operands.len() != 1 || wanted.depth != Some(Some(0)) {
        admin::sort_datasets(&mut rows, &[]);
    }
    let keep = |setting: &Setting| sources.is_empty() || sources.contains(&setting.source.word());
    if call.has("j") {
        print(&json(call, rows, properties.as_deref(), &keep))?;
        return ended(complete);
    }
    let mut lines = Vec::new();
    for row in &rows {
        for (property, setting) in settings(row, properties.as_deref()) {
            match &setting {
                Some(set) if !keep(set) => continue,
                None if !sources.is_empty() && !sources.contains(&"none") => continue,
                _ => {}
            }
            lines.push(GetRow {
                name: row.name.clone(),
                property,
                setting,
            });
        }
    }
    if !lines.is_empty() {
        let style = Style {
            scripted: call.has("H"),
            exact: call.has("p"),
        };
        print(&crate::render::get(&lines, &fields, style))?;
    }
    ended(complete)
}

/// The properties of a row: those asked for, or all it has.
fn settings(
    row: &DatasetRow,
    asked: Option<&[PropertyName]>,
) -> Vec<(PropertyName, Option<Setting>)> {
    match asked {
        Some(names) => names
            .iter()
            .map(|name| (name.clone(), row.get(name.name()).cloned()))
            .collect(),
        None => row
            .properties
            .iter()
            .filter_map(|(name, set)| {
                Some((admin::find_dataset_property(name)?, Some(set.clone())))
            })
            .collect(),
    }
}

fn json(
    call: &Invocation,
    rows: Vec<DatasetRow>,
    asked: Option<&[PropertyName]>,
    keep: &dyn Fn(&Setting) -> bool,
) -> String {
    let options = JsonOptions {
        exact: call.has("p") || call.has("json-int"),
        integers: call.has("json-int"),
        ..JsonOptions::default()
    };
    let with_settings: Vec<_> = rows
        .into_iter()
        .map(|row| {
            let found = settings(&row, asked)
                .into_iter()
                .filter_map(|(name, set)| Some((name, set?)))
                .filter(|(_, set)| keep(set))
                .collect();
            (row, found)
        })
        .collect();
    let mut json = Json::new("zfs get", options);
    json.dataset_properties(&with_settings);
    json.text()
}

fn sources(text: Option<&str>) -> Result<Vec<&str>, Stop> {
    const WORDS: [&str; 6] = [
        "local",
        "default",
        "inherited",
        "received",
        "temporary",
        "none",
    ];
    let words: Vec<&str> = text
        .map(|text| text.split(',').collect())
        .unwrap_or_default();
    match words.iter().find(|word| !WORDS.contains(word)) {
        Some(bad) => Err(usage(format!("invalid source '{bad}'"))),
        None => Ok(words),
    }
}
