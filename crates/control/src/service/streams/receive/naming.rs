//! What received snapshots are called.

use admin::{Failure, FailureKind, ReceiveNaming, name};

use super::failures::Context;

/// Where a stream goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) path: String,
    pub(super) snapshot: String,
}

/// The name of a snapshot that was sent as `dataset@snapshot`, in a stream of `top` and what is below it.
pub(super) fn named(
    (target, naming): (&str, ReceiveNaming),
    top: &str,
    (dataset, snapshot): (&str, &str),
) -> Result<Named, Failure> {
    let (base, short) = match target.split_once('@') {
        Some((base, short)) => (base, Some(short)),
        None => (target, None),
    };
    let below_top = dataset.strip_prefix(top).unwrap_or("");
    let path = match naming {
        ReceiveNaming::Target => format!("{base}{below_top}"),
        ReceiveNaming::WithoutPool => match dataset.split_once('/') {
            Some((_, rest)) => format!("{base}/{rest}"),
            None => base.to_owned(),
        },
        ReceiveNaming::LastPart => {
            let last = top.rsplit_once('/').map_or(top, |(_, last)| last);
            format!("{base}/{last}{below_top}")
        }
    };
    let named = Named {
        path,
        snapshot: short.unwrap_or(snapshot).to_owned(),
    };
    let full = format!("{}@{}", named.path, named.snapshot);
    let checked = name::check_dataset(&named.path).and_then(|()| name::check_snapshot(&full));
    checked.map_err(|error| {
        Context::Any.failure(
            FailureKind::Invalid,
            format!("invalid name '{full}': {error}"),
        )
    })?;
    Ok(named)
}

#[cfg(test)]
mod tests;
