//! `zfs set` and `zfs inherit`.

use std::collections::BTreeMap;

use admin::changes::{Inherit, Set};
use admin::rows::dataset::VOLTHREADING;
use admin::rows::{Access, Effect, Row};
use admin::{Assignments, Change, Failure, FailureKind, PropertyError, PropertyName};

use crate::Outcome;
use crate::arguments::assign_dataset;
use crate::daemons::{change, pool_of};
use crate::grammar::Invocation;
use crate::output::{Stop, usage};

pub(crate) fn set(call: &Invocation) -> Outcome {
    let count = call
        .operands()
        .iter()
        .take_while(|text| text.contains('='))
        .count();
    let (assignments, names) = call.operands().split_at(count);
    if assignments.is_empty() {
        return Err(usage("missing property=value argument"));
    }
    let Some(first) = names.first() else {
        return Err(usage("missing dataset name(s)"));
    };
    let mut properties = Assignments::new();
    for text in assignments {
        assign_dataset(&mut properties, text, false).map_err(|error| match error {
            PropertyError::Twice(_) => usage(error.to_string()),
            error => refused(first, &error).into(),
        })?;
    }
    each_pool(names, &call.line, |names| {
        Change::Set(Set {
            names,
            properties: properties.clone(),
            keep_mounts: call.has("u"),
        })
    })
}

fn refused(name: &str, error: &PropertyError) -> Failure {
    Failure::cannot(FailureKind::Invalid, "set property for", name, error)
}

pub(crate) fn inherit(call: &Invocation) -> Outcome {
    let (word, names) = call
        .operands()
        .split_first()
        .ok_or_else(|| usage("missing property"))?;
    let property = admin::find_dataset_property(word)
        .filter(|found| !matches!(found, PropertyName::Computed(_)))
        .ok_or_else(|| usage(format!("invalid property '{word}'")))?;
    if let PropertyName::Native(row) = &property {
        let invalid = |text: String| Failure::new(FailureKind::Invalid, text);
        if row.access != Access::Settable {
            return Err(invalid(format!("{word} property is read-only")).into());
        }
        if !row.inherits && !VOLTHREADING.is(row.name) && !call.has("S") {
            let failure = invalid(format!("'{word}' property cannot be inherited"));
            if !is_clearable(row) {
                return Err(failure.into());
            }
            let failure = failure
                .advise(format!("use 'zfs set {word}=none' to clear"))
                .advise(format!(
                    "use 'zfs inherit -S {word}' to revert to received value"
                ));
            return Err(failure.into());
        }
    }
    each_pool(names, &call.line, |names| {
        Change::Inherit(Inherit {
            names,
            property: property.name().to_owned(),
            recursive: call.has("r"),
            received: call.has("S"),
        })
    })
}

/// Quotas and reservations, which are cleared rather than inherited.
fn is_clearable(row: &Row) -> bool {
    row.effects.iter().any(|effect| match effect {
        Effect::Quota | Effect::Reservation | Effect::RefQuota | Effect::RefReservation => true,
        Effect::Remount
        | Effect::Move
        | Effect::CountBelow
        | Effect::ActivateFeature
        | Effect::MayFreeSpace => false,
    })
}

/// Asks for a change once per pool that the names are in.
pub(super) fn each_pool(
    names: &[String],
    line: &str,
    make: impl Fn(Vec<String>) -> Change,
) -> Outcome {
    let mut pools: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for name in names {
        pools
            .entry(admin::pool_of(name))
            .or_default()
            .push(name.clone());
    }
    let mut status = Ok(());
    for names in pools.into_values() {
        let mut connection = pool_of(&names[0])?;
        match change(&mut connection, make(names), line) {
            Err(Stop::Failure(failure)) => {
                crate::output::complain(&failure);
                status = Err(Stop::Quiet(failure.status()));
            }
            Err(other) => status = Err(other),
            Ok(()) => {}
        }
    }
    status
}
