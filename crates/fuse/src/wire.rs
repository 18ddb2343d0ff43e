//! The FUSE protocol, byte by byte: requests are decoded here, replies and notifications encoded.
//!
//! Everything is in host byte order, as the kernel on the same machine writes it. Both directions
//! are total: a message of any content and length is decoded or refused, never a panic, and
//! nothing is allocated by a length that the message claims. No I/O happens here.
//!
//! Speaks protocol 7.31 (Linux 5.4) and later; what newer kernels add is negotiated by
//! [`InitFlags`].

#![cfg_attr(
    not(test),
    warn(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::cast_lossless
    )
)]

mod decode;
mod file_flags;
mod flags;
mod notify;
mod opcode;
mod reply;
mod request;
mod rewrite;
#[cfg(test)]
mod tests;

pub use decode::{Dialect, WireError, decode_header, decode_request};
pub use file_flags::{FileFlags, FileFlagsCall};
pub use flags::{
    FallocateMode, FsyncFlags, GetattrFlags, InitFlags, OpenReplyFlags, ReleaseFlags, RenameFlags,
    SetattrFields, WriteFlags, XattrFlags,
};
pub use notify::{
    inval_entry_notification, inval_inode_notification, invalidate_all_entries_notification,
};
pub use opcode::Opcode;
pub use reply::{
    Attributes, Body, DirectoryBuffer, EntryReply, FileKind, InitReply, OUT_HEADER_LEN,
    StatfsReply, Timeouts, Timestamp, device_number_from_wire, device_number_to_wire, out_header,
};
pub use request::{
    CopyFileRangeRequest, CreateRequest, FallocateRequest, ForgetOne, Forgets, Groups,
    IN_HEADER_LEN, InitRequest, IoctlRequest, MknodRequest, Operation, ReadRequest, RenameRequest,
    Request, RequestHeader, SetattrRequest, SetxattrRequest, WriteRequest,
};
pub use rewrite::{REWRITE, RewriteCall};

/// The protocol's major version; a kernel that speaks another one is refused.
pub const PROTOCOL_MAJOR: u32 = 7;
/// The newest minor version whose layouts are declared here.
pub const PROTOCOL_MINOR: u32 = 45;
/// The oldest minor version that is served (Linux 5.4).
pub const PROTOCOL_MINOR_OLDEST: u32 = 31;
/// The node id that the kernel gives to a mount's root.
pub const ROOT_NODE: u64 = 1;
