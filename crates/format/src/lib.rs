//! Every on-disk byte of a ZFS pool, declared once.

pub mod acl;
pub mod block_pointer;
pub mod bookmark;
pub mod bpobj;
pub mod deadlist;
pub mod dnode;
pub mod dsl;
mod error;
mod host;
pub mod intent_log;
pub mod object_set;
pub mod object_type;
pub mod record;
pub mod sa;
pub mod space_map;
pub mod zap;
pub mod znode;

pub use block_pointer::{BlockPointer, Dva};
pub use dnode::DnodePhys;
pub use error::FormatError;
pub use object_set::{ObjectSetKind, ObjectSetPhys};
pub use object_type::ObjectType;
