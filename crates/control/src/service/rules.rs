//! Which properties may be set on what, beyond what each value's own form says.

use admin::{
    Assignments, PropertyError, PropertyName, RowText, Types, Value, find_dataset_property,
};
use dsl::property::{Access, Requirement, Row, Support, Unsupported, dataset};

use super::owners::OwnerProperty;

#[cfg(test)]
mod tests;

/// Why a property cannot be set here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RuleError {
    /// Wrong for this kind of dataset, read-only, unknown.
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// A feature is not enabled, or the pool is of an older version.
    #[error("pool and or dataset must be upgraded to set this property or value")]
    Requirement(Requirement),
    /// Only roots of encryption have a key of their own.
    #[error("keylocation must be 'none' for unencrypted datasets")]
    NoKey,
    /// What of a key is chosen with the dataset, and not of a clone.
    #[error("'{0}' can only be chosen for a new dataset that is no clone")]
    OnlyNew(&'static str),
    /// Volumes know how large they can get.
    #[error("'refreservation=auto' only allowed on volumes")]
    Automatic,
    /// Labels of a system that this is not.
    #[error("mlslabels are unsupported")]
    Labels,
    /// Snapshots have few properties of their own.
    #[error("this property can not be modified for snapshots")]
    OnSnapshot,
    /// Neither a number nor a name of this machine.
    #[error("{0}")]
    UnknownOwner(String),
    /// What is not written yet: encryption, new tables of deduplication.
    #[error("'{0}' is not supported by this version")]
    NotYet(&'static str),
}

/// A dataset on which properties are to be set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) kind: Types,
    pub(crate) creating: bool,
}

/// Checks all of them; `has` says whether the pool has what values need.
pub(crate) fn check(
    target: Target,
    properties: &Assignments,
    has: &dyn Fn(Requirement) -> bool,
) -> Result<(), RuleError> {
    for (name, value) in properties {
        let found =
            find_dataset_property(name).ok_or_else(|| PropertyError::Unknown(name.clone()))?;
        let PropertyName::Native(property) = found else {
            if matches!(found, PropertyName::Computed(_)) {
                check_limit(target, name)?;
            }
            continue;
        };
        if target.kind == Types::SNAPSHOT {
            return Err(RuleError::OnSnapshot);
        }
        if !property.types.intersects(target.kind) {
            return Err(PropertyError::OtherType(name.clone()).into());
        }
        let readonly = property.access == Access::ReadOnly;
        if readonly {
            return Err(PropertyError::ReadOnly(name.clone()).into());
        }
        if property.access == Access::AtCreation && !target.creating {
            return Err(PropertyError::AtCreation(name.clone()).into());
        }
        check_supported(property, value)?;
        let automatic = Value::Text("auto".to_owned());
        if dataset::REFRESERVATION.is(property.name)
            && target.kind == Types::FILESYSTEM
            && *value == automatic
        {
            return Err(RuleError::Automatic);
        }
        if let Some(needed) = value.number().and_then(|number| property.needed(number))
            && !has(needed)
        {
            return Err(RuleError::Requirement(needed));
        }
    }
    Ok(())
}

/// Refuses what is known and not carried out.
fn check_supported(row: &'static Row, value: &Value) -> Result<(), RuleError> {
    let why = match row.support {
        Support::Full | Support::Stored => return Ok(()),
        Support::DefaultOnly(_) if *value == row.default_value() => return Ok(()),
        Support::DefaultOnly(why) | Support::Never(why) => why,
    };
    Err(match why {
        Unsupported::NoKey => RuleError::NoKey,
        Unsupported::OnlyNew => RuleError::OnlyNew(row.name),
        Unsupported::Labels => RuleError::Labels,
        Unsupported::NotYet => RuleError::NotYet(row.name),
    })
}

/// Users', groups' and projects' limits are properties of file systems that are there.
fn check_limit(target: Target, name: &str) -> Result<(), RuleError> {
    let found = OwnerProperty::parse(name).filter(|found| found.is_limit);
    let Some(found) = found else {
        return Err(PropertyError::ReadOnly(name.to_owned()).into());
    };
    if target.kind == Types::SNAPSHOT {
        return Err(RuleError::OnSnapshot);
    }
    if target.kind != Types::FILESYSTEM || target.creating {
        return Err(PropertyError::OtherType(name.to_owned()).into());
    }
    match found.id() {
        Some(_) => Ok(()),
        None => Err(RuleError::UnknownOwner(found.unknown_owner())),
    }
}

/// What a new volume reserves: its size in all its copies, and room for its indirect blocks.
pub(crate) fn volume_reservation(size: u64, block_size: u64, copies: u64) -> u64 {
    /// Pointers in an indirect block of the largest size, and that size.
    const POINTERS: u64 = 1024;
    const INDIRECT_SIZE: u64 = 128 << 10;
    const COPIES_MAX: u64 = 3;
    /// Blocks for the object set itself.
    const OBJECT_SET_BLOCKS: u64 = 7;
    let mut blocks = size.div_ceil(block_size.max(1));
    let mut indirects = OBJECT_SET_BLOCKS;
    while blocks > 1 {
        blocks = blocks.div_ceil(POINTERS);
        indirects += blocks;
    }
    let metadata = indirects * COPIES_MAX.min(copies + 1) * INDIRECT_SIZE;
    size.saturating_mul(copies).saturating_add(metadata)
}
