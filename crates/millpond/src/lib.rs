//! OpenZFS pools without the kernel module: the library face.
//!
//! A [`Pool`] is opened on images or disks, without any mount; its datasets are at [`Pool::dsl`], and
//! [`FileSystem`] gives the files of one.
//!
//! ```
//! use millpond::{CreateOptions, ImportOptions, NewDevice, NewVdev, Pool, Selection};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let image = folder.path().join("pond.img");
//! std::fs::File::create(&image)?.set_len(128 << 20)?;
//! let vdevs = vec![NewVdev::Single(NewDevice::Path(image.clone()))];
//! let pool = Pool::create(CreateOptions::new("pond", vdevs))?;
//! pool.export()?;
//! drop(pool);
//!
//! let options = ImportOptions::new(vec![image], Selection::Only).read_only();
//! let pool = Pool::import(&options)?;
//! assert_eq!(pool.name(), "pond");
//! assert!(pool.is_read_only());
//! # Ok(())
//! # }
//! ```

pub use dsl::{Dataset, Dsl, DslError};
pub use pool::{
    CreateOptions, FoundPool, ImportOptions, NewDevice, NewVdev, Pool, PoolError, PoolStatus,
    Rewind, Selection, default_features, discover,
};
pub use posix::{Attributes, Credentials, FileSystem, MountOptions, OpenFile};
