//! What the library offers: types of its own over the layers below, so that those may change.

mod assignments;
mod cause;
mod datasets;
mod differences;
mod error;
mod file;
mod file_system;
mod image;
mod metadata;
mod notices;
mod opened;
mod options;
mod paths;
mod pool;
mod properties;
mod read_dir;
mod scrub;
mod streams;
mod trees;
mod volume;

pub use cause::Cause;
pub use datasets::{DatasetInfo, DatasetKind, ListOptions};
pub use differences::{Difference, DifferenceKind};
pub use error::{Error, Result};
pub use file::{File, FileOptions};
pub use file_system::FileSystem;
pub use image::{
    Block, BlockAddress, Blocks, DamagedCopy, Image, ImageDataset, SpaceFault, SpaceFaultKind,
    VerifyOptions, VerifyProgress, VerifyReport,
};
pub use metadata::{FileType, Metadata, SetMetadata, Space};
pub use notices::listen;
pub use options::{CreateOptions, DestroyOptions, OpenOptions, RollbackOptions, Vdev};
pub use pool::Pool;
pub use properties::{Property, PropertySource};
pub use read_dir::{DirEntry, ReadDir};
pub use scrub::{ScrubReport, ScrubState};
pub use streams::{ReceiveOptions, SendOptions};
pub use trees::{CopyInOptions, CopyProgress, CopyReport};
pub use volume::Volume;
