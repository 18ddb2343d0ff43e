//! Which properties may be set on what, beyond what each value's own form says.

use format::features::{self, Feature};

use super::owners::OwnerProperty;
use crate::message::Assignments;
use crate::property::{Access, PropertyError, PropertyName, Types, Value, find_dataset_property};

#[cfg(test)]
mod tests;

/// Why a property cannot be set here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RuleError {
    /// Wrong for this kind of dataset, read-only, unknown.
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// A feature is not enabled.
    #[error("pool and or dataset must be upgraded to set this property or value")]
    Feature(&'static Feature),
    /// Only roots of encryption have a key of their own.
    #[error("keylocation must be 'none' for unencrypted datasets")]
    NoKey,
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
    /// dedup without a strong checksum that may be trusted.
    #[error("'{0}' is not supported by this version")]
    NotYet(&'static str),
}

/// A dataset on which properties are to be set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) kind: Types,
    pub(crate) creating: bool,
}

/// Checks all of them; `enabled` says whether a feature may be used.
pub(crate) fn check(
    target: Target,
    properties: &Assignments,
    enabled: &dyn Fn(&Feature) -> bool,
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
        if !property.types.meets(target.kind) {
            return Err(PropertyError::OtherType(name.clone()).into());
        }
        let readonly = property.access == Access::ReadOnly;
        if readonly {
            return Err(PropertyError::ReadOnly(name.clone()).into());
        }
        if property.access == Access::AtCreation && !target.creating {
            return Err(PropertyError::AtCreation(name.clone()).into());
        }
        match property.name {
            "keylocation" if *value == Value::Text("none".to_owned()) => {}
            "keylocation" | "keyformat" | "pbkdf2iters" => return Err(RuleError::NoKey),
            "refreservation"
                if target.kind == Types::FILESYSTEM && *value == Value::Text("auto".to_owned()) =>
            {
                return Err(RuleError::Automatic);
            }
            "mlslabel" if *value != Value::Text("none".to_owned()) => {
                return Err(RuleError::Labels);
            }
            "encryption" if *value != Value::Number(2) => {
                return Err(RuleError::NotYet("encryption"));
            }
            // New dedup tables are not written yet.
            "dedup" if *value != Value::Number(2) => return Err(RuleError::NotYet("dedup")),
            _ => {}
        }
        if let Some(feature) = needed(property.name, value)
            && !enabled(feature)
        {
            return Err(RuleError::Feature(feature));
        }
    }
    Ok(())
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

/// The feature that a value needs.
fn needed(name: &str, value: &Value) -> Option<&'static Feature> {
    const INDEX: u64 = 0x7F;
    const PLAIN_RECORD_MAX: u64 = 128 << 10;
    let Value::Number(number) = value else {
        return None;
    };
    match (name, *number) {
        ("compression", number) if number & INDEX == 15 => Some(&features::LZ4_COMPRESS),
        ("compression", number) if number & INDEX == 16 => Some(&features::ZSTD_COMPRESS),
        ("checksum", 11) => Some(&features::SHA512),
        ("checksum", 12) => Some(&features::SKEIN),
        ("checksum", 13) => Some(&features::EDONR),
        ("checksum", 14) => Some(&features::BLAKE3),
        ("recordsize" | "volblocksize", number) if number > PLAIN_RECORD_MAX => {
            Some(&features::LARGE_BLOCKS)
        }
        ("dnodesize", number) if number != 0 => Some(&features::LARGE_DNODE),
        ("longname", 1) => Some(&features::LONGNAME),
        ("filesystem_limit" | "snapshot_limit", _) => Some(&features::FILESYSTEM_LIMITS),
        _ => None,
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
