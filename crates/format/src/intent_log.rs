//! The intent log: its anchor in the object set, its chain of blocks, and the records in them.
//!
//! A log block is read raw: its records mix numbers and bytes, so every decoder here takes the
//! order of the block's writer, which the magic of the chain element tells.

mod chain;
mod change;
mod encode;
mod header;
mod record;

pub use chain::{ChainElement, ChainForm, Identity, RecordRange};
pub use change::{
    Acl, Change, Create, Created, NewObject, Renamed, SetAttributes, Written, attribute, extended,
};
pub use encode::{encode_record, stamp_record};
pub use header::LogHeader;
pub use record::{
    AclFields, Body, CloneRangeFields, CreateAclFields, CreateFields, DirectoryFields,
    ExtendedAttributes, LinkFields, ObjectAndSlots, OldAclFields, Record, RecordHeader, Records,
    RenameFields, SetAttributesFields, SetXattrFields, TruncateFields, WhiteoutFields, WriteFields,
    kind,
};

#[cfg(test)]
mod tests;
