//! `zfs inherit`.

use admin::changes::Inherit;
use admin::rows::dataset::VOLTHREADING;
use admin::rows::{Access, Effect, Row};
use admin::{Change, Failure, FailureKind, PropertyName};

use super::flags::RECURSIVE;
use crate::daemons::change_by_pool;
use crate::grammar::{Command, Invocation, Operands, switch};
use crate::output::{Outcome, usage};

/// `zfs inherit`.
pub(super) const COMMAND: Command = Command {
    name: "inherit",
    aliases: &[],
    summary: "Clear a property, so that it is inherited.",
    forms: &["property filesystem|volume|snapshot ..."],
    flags: &[RECURSIVE, switch("S", "return to the received value")],
    operands: Operands::at_least(2, "missing property or dataset argument"),
    run: inherit,
};

fn inherit(call: &Invocation) -> Outcome {
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
    change_by_pool(names, &call.line, |names| {
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
        | Effect::Caching
        | Effect::MayFreeSpace => false,
    })
}
