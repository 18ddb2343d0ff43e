//! `zfs hold`, `zfs holds` and `zfs release`.

use admin::changes::{Hold, Release};
use admin::{Change, Failure, FailureKind, Request, Response};

use crate::render::Style;

use super::set::each_pool;
use crate::Outcome;
use crate::daemons::pool_of;
use crate::grammar::Invocation;
use crate::output::{print, usage};

pub(crate) fn hold(call: &Invocation) -> Outcome {
    let (tag, snapshots) = tagged(call)?;
    if tag.starts_with('.') {
        return Err(usage("tag may not start with '.'"));
    }
    each_pool(snapshots, &call.line, |snapshots| {
        Change::Hold(Hold {
            tag: tag.clone(),
            snapshots,
            recursive: call.has("r"),
        })
    })
}

pub(crate) fn release(call: &Invocation) -> Outcome {
    let (tag, snapshots) = tagged(call)?;
    each_pool(snapshots, &call.line, |snapshots| {
        Change::Release(Release {
            tag: tag.clone(),
            snapshots,
            recursive: call.has("r"),
        })
    })
}

fn tagged(call: &Invocation) -> Result<(&String, &[String]), crate::output::Stop> {
    let (tag, snapshots) = call
        .operands()
        .split_first()
        .ok_or_else(|| usage("missing tag"))?;
    check(snapshots)?;
    Ok((tag, snapshots))
}

fn check(snapshots: &[String]) -> Result<(), Failure> {
    match snapshots.iter().find(|name| !name.contains('@')) {
        Some(name) => Err(Failure::new(
            FailureKind::Invalid,
            format!("'{name}' is not a snapshot"),
        )),
        None => Ok(()),
    }
}

pub(crate) fn holds(call: &Invocation) -> Outcome {
    check(call.operands())?;
    let mut records = Vec::new();
    for name in call.operands() {
        let request = Request::Holds {
            snapshots: vec![name.clone()],
            recursive: call.has("r"),
        };
        pool_of(name)?.call(&request, &mut |part| {
            if let Response::Holds(page) = part {
                records.extend(page);
            }
            Ok(())
        })?;
    }
    if records.is_empty() {
        return Ok(());
    }
    print(&crate::render::holds(
        &records,
        Style {
            scripted: call.has("H"),
            exact: call.has("p"),
        },
    ))
}
