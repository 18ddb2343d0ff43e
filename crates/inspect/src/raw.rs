//! Reading a pool's structures straight off its blocks, without the engine: nothing is cached but
//! blocks, nothing is trusted but checksums, and a damaged part hides nothing but itself.

mod attributes;
mod datasets;
mod missed;
mod names;
mod objects;
mod open;
mod pool;
mod removed;
mod zap;

pub(crate) use attributes::RawFileSystem;
pub(crate) use datasets::{DatasetEntry, dataset_phys, datasets, named_datasets, tree_datasets};
pub(crate) use names::{Names, path};
pub(crate) use objects::{RawObject, RawObjectSet, read_sealed};
pub(crate) use open::{Found, find};
pub(crate) use pool::{OpenOptions, RawPool};
pub(crate) use zap::{ZapEntry, ZapKey};
