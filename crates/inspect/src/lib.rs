//! Reading pools and streams without trusting them: ls, cat, cp, tree, inspect.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod audience;
mod cat;
mod contents;
mod copy;
mod error;
mod image;
mod inspection;
mod keys;
mod line;
mod list;
mod log;
mod place;
mod print;
mod problems;
mod raw;
mod source;
mod streams;
mod target;
mod tree;
mod verify;
mod view;

pub use audience::Audience;
pub use cat::cat;
pub use copy::{Copied, CopyOptions, cp};
pub use device::DeviceError;
pub use error::InspectError;
pub use image::{
    BlockPlace, Blocks, Checked, Checks, DamagedCopy, FoundBlock, Image, ImageDataset, SpaceFault,
    SpaceFaultKind,
};
pub use inspection::Inspection;
pub use keys::{KeyQuestion, KeyRing};
pub use line::Line;
pub use list::{ListOptions, ls, printable, printable_lines};
pub use problems::Problems;
pub use streams::{VerifiedFile, VerifiedStream, stream_cp, stream_diff, stream_ls, stream_verify};
pub use target::image_and_place;
pub use tree::{TreeOptions, tree};
