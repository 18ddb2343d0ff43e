//! `zpool add` and `zpool remove`.

use admin::changes::{AddVdevs, RemoveVdevs};
use admin::rows::pool::ASHIFT;
use admin::{Change, Value};

use super::create::{check_files, file_size, tree, vdevs};
use crate::Outcome;
use crate::arguments::assign_pool;
use crate::daemons::{change, pool};
use crate::grammar::Invocation;
use crate::output::{print, usage};

pub(crate) fn add(call: &Invocation) -> Outcome {
    let (name, words) = call
        .operands()
        .split_first()
        .ok_or_else(|| usage("missing pool name argument"))?;
    if words.is_empty() {
        return Err(usage("missing vdev specification"));
    }
    let specs = vdevs(words)?;
    let size = file_size(call)?;
    check_files(&specs, size)?;
    let mut ashift = None;
    for text in call.values("o") {
        let mut assigned = Vec::new();
        assign_pool(&mut assigned, text).map_err(|error| usage(error.to_string()))?;
        for (property, value) in assigned {
            match value {
                Value::Number(number) if ASHIFT.is(&property) => {
                    ashift = u32::try_from(number).ok().filter(|number| *number != 0);
                }
                Value::Number(_) | Value::Text(_) | Value::Absent => {
                    return Err(usage("only the property 'ashift' can be given"));
                }
            }
        }
    }
    let mut connection = pool(name)?;
    if call.has("n") {
        let head = format!("would update '{name}' to add the following vdevs:\n\n\t{name}\n");
        return print(&(head + &tree(&specs)));
    }
    let request = Change::AddVdevs(AddVdevs {
        vdevs: specs,
        ashift,
        force: call.has("f"),
        file_size: size,
    });
    change(&mut connection, request, &call.line)
}

pub(crate) fn remove(call: &Invocation) -> Outcome {
    let (name, devices) = call
        .operands()
        .split_first()
        .ok_or_else(|| usage("missing pool name argument"))?;
    let request = Change::RemoveVdevs(RemoveVdevs {
        devices: devices.to_vec(),
    });
    change(&mut pool(name)?, request, &call.line)
}
