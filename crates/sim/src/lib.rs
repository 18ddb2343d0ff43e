//! Simulated disks and crash points for tests.
//!
//! A [`SimulatedDisk`] lives in memory, records every write and flush in order, and can say what
//! would have survived a power loss at any moment: everything before the last good flush, and of
//! what came later whatever the seed decides: kept, lost, torn between sectors, older kept while
//! newer is lost. Faults of the second kind (rot, misdirected and silently lost writes, errors) are
//! injected by [`Fault`]s. The same seed gives the same disk.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod crash;
mod disk;
mod fault;
mod image;
mod memory;
mod model;
mod paced;
mod slow;
mod watched;

pub use crash::{Fate, Survival};
pub use disk::{Event, SimulatedDisk, Timeline};
pub use fault::{Fault, FaultKind, Times};
pub use image::SparseImage;
pub use memory::MemoryDisk;
pub use model::{DeviceModel, DeviceWork, VirtualDevice, VirtualOperation};
pub use paced::{PacedDisk, VirtualClock};
pub use slow::{SlowDisk, Slowness};
pub use watched::WatchedDevice;
