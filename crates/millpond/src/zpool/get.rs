//! `zpool get`.

use admin::Selection;

use super::flags::JSON_GUID;
use super::reports::{json, reports, settings};
use crate::arguments::{get_fields, pool_columns};
use crate::daemons::ended;
use crate::flags::{EXACT, JSON, JSON_INT, SCRIPTED};
use crate::grammar::{Command, Invocation, Operands, option};
use crate::output::{Outcome, print, usage};
use crate::render::{GetRow, Style};

/// `zpool get`.
pub(super) const COMMAND: Command = Command {
    name: "get",
    aliases: &[],
    summary: "Show properties of pools or of their vdevs.",
    forms: &[
        "all|property[,...] [pool] ...",
        "all|property[,...] pool all-vdevs|vdev ...",
    ],
    flags: &[
        SCRIPTED,
        EXACT,
        JSON,
        JSON_INT,
        JSON_GUID,
        option(
            "o",
            "all|field[,...]",
            "the columns: name, property, value, source",
        ),
    ],
    operands: Operands::at_least(1, "missing property argument"),
    run: get,
};

fn get(call: &Invocation) -> Outcome {
    let fields = get_fields(call.value("o"))?;
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
