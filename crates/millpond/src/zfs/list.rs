//! `zfs list`.

use admin::rows::dataset::NAME;
use admin::{PropertyName, Selection, SortKey, Types};

use super::flags::{DEPTH, RECURSIVE};
use super::selection::{Wanted, collect};
use crate::arguments::{dataset_columns, dataset_property, depth, types};
use crate::daemons::ended;
use crate::flags::{EXACT, JSON, JSON_INT, SCRIPTED};
use crate::grammar::{Command, Invocation, Operands, option};
use crate::output::{Outcome, complain, print};
use crate::render::{Json, JsonOptions, Style};

/// `zfs list`.
pub(super) const COMMAND: Command = Command {
    name: "list",
    aliases: &[],
    summary: "List datasets and their properties.",
    forms: &["[filesystem|volume|snapshot|bookmark] ..."],
    flags: &[
        SCRIPTED,
        EXACT,
        JSON,
        JSON_INT,
        RECURSIVE,
        DEPTH,
        option("o", "property[,...]", "the columns"),
        option(
            "s",
            "property",
            "sort by it, smallest first; may be repeated",
        ),
        option(
            "S",
            "property",
            "sort by it, largest first; may be repeated",
        ),
        option(
            "t",
            "type[,...]",
            "filesystem, volume, snapshot, bookmark or all",
        ),
    ],
    operands: Operands::ANY,
    run: list,
};

fn list(call: &Invocation) -> Outcome {
    let columns = dataset_columns(
        call.value("o")
            .unwrap_or("name,used,avail,refer,mountpoint"),
    )?;
    let mut keys = Vec::new();
    for (flag, value) in call.flags() {
        if let ("s" | "S", Some(word)) = (flag, value) {
            keys.push(SortKey {
                property: dataset_property(word)?,
                descending: flag == "S",
            });
        }
    }
    let wanted = Wanted {
        types: types(call.values("t"))?,
        depth: depth(call.has("r"), call.value("d"))?,
        properties: Selection::Names(names(&columns, &keys)),
        implied: Types::HEADS,
    };
    let (mut rows, complete) = collect(call.operands(), &wanted)?;
    admin::sort_datasets(&mut rows, &keys);
    if call.has("j") {
        let options = JsonOptions {
            exact: call.has("p") || call.has("json-int"),
            integers: call.has("json-int"),
            ..JsonOptions::default()
        };
        let mut json = Json::new("zfs list", options);
        json.datasets(&rows, &columns);
        print(&json.text())?;
    } else if rows.is_empty() {
        if complete && !call.has("H") {
            complain(&"no datasets available");
        }
    } else {
        let style = Style {
            scripted: call.has("H"),
            exact: call.has("p"),
        };
        print(&crate::render::dataset_list(&rows, &columns, style))?;
    }
    ended(complete)
}

fn names(columns: &[PropertyName], keys: &[SortKey]) -> Vec<String> {
    let mut names: Vec<String> = columns
        .iter()
        .chain(keys.iter().map(|key| &key.property))
        .map(|property| property.name().to_owned())
        .filter(|name| !NAME.is(name))
        .collect();
    names.sort();
    names.dedup();
    names
}
