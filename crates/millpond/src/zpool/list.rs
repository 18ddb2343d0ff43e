//! `zpool list`.

use admin::rows::pool::HEALTH;
use admin::{PropertyName, Selection};

use super::flags::{BY_GUID, FULL_PATH, JSON_GUID, RESOLVE, TIMESTAMP, naming, timestamp};
use super::reports::{json, reports_of};
use crate::arguments::pool_columns;
use crate::daemons::{ended, pools_noting};
use crate::flags::{EXACT, JSON, JSON_INT, SCRIPTED};
use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::output::{Outcome, print};
use crate::render::{PoolListOptions, Style};
use crate::repeat::Interval;

/// `zpool list`.
pub(super) const COMMAND: Command = Command {
    name: "list",
    aliases: &[],
    summary: "List pools with their space and health.",
    forms: &["[pool] ... [interval [count]]"],
    flags: &[
        BY_GUID,
        SCRIPTED,
        RESOLVE,
        EXACT,
        FULL_PATH,
        switch("v", "the vdevs, too"),
        option("o", "property[,...]", "the columns"),
        JSON,
        JSON_INT,
        JSON_GUID,
        TIMESTAMP,
    ],
    operands: Operands::ANY,
    run: list,
};

const COLUMNS: &str = "name,size,allocated,free,checkpoint,expandsize,fragmentation,capacity,dedupratio,health,altroot";

fn list(call: &Invocation) -> Outcome {
    let columns = pool_columns(call.value("o").unwrap_or(COLUMNS))?;
    let interval = Interval::split(call.operands())?;
    let mut noted = false;
    interval.repeat(&mut || {
        let (connections, complete) = pools_noting(&interval.names, &mut noted)?;
        let found = reports_of(connections, &names(&columns))?;
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
