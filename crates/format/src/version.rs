//! What each version of the pool format brought, as far as what is written depends on it.
//!
//! The numbers are those that `zpool upgrade -v` of OpenZFS lists.

/// Blocks have several copies.
pub const COPIES: u64 = 2;
/// Space is charged by what the data take without parity.
pub const DEFLATE: u64 = 3;
/// Lists of block pointers count physical and logical bytes, dnodes bytes in place of sectors.
pub const COMPRESSED_TOTALS: u64 = 3;
/// RAID-Z with two rows of parity, and hot spares.
pub const DOUBLE_PARITY: u64 = 3;
/// The pool remembers what was done with it.
pub const HISTORY: u64 = 4;
/// `compression=gzip`.
pub const GZIP: u64 = 5;
/// The pool names what a boot loader takes.
pub const BOOT_FILE_SYSTEM: u64 = 6;
/// Devices for intent logs.
pub const LOG_DEVICES: u64 = 7;
/// Permissions can be granted.
pub const DELEGATION: u64 = 8;
/// Heads count what they have for themselves, so that they can have limits of their own; file systems may compare names
/// in other ways.
pub const UNIQUE_ACCURATE: u64 = 9;
/// Cache devices.
pub const CACHE_DEVICES: u64 = 10;
/// The pool has an origin that all file systems and volumes descend from, and snapshots know their clones.
pub const ORIGIN: u64 = 11;
/// Snapshots have properties of their own.
pub const SNAPSHOT_PROPERTIES: u64 = 12;
/// Directories count what of their space is whose.
pub const USED_BREAKDOWN: u64 = 13;
/// `aclinherit=passthrough-x`.
pub const PASSTHROUGH_X: u64 = 14;
/// Space by user and group.
pub const OWNER_ACCOUNTING: u64 = 15;
/// RAID-Z with three rows of parity.
pub const TRIPLE_PARITY: u64 = 17;
/// Holds, and snapshots that are destroyed with the last of them.
pub const HOLDS: u64 = 18;
/// Log devices can be removed: the tree of vdevs can have a hole.
pub const HOLES: u64 = 19;
/// `compression=zle`.
pub const ZLE: u64 = 20;
/// Deduplication.
pub const DEDUP: u64 = 21;
/// Properties remember what was received.
pub const RECEIVED_PROPERTIES: u64 = 22;
/// Blocks of intent logs of which only the used part is written.
pub const SLIM_LOGS: u64 = 23;
/// File systems whose files have system attributes.
pub const SYSTEM_ATTRIBUTES: u64 = 24;
/// Lists of dead blocks by birth, with lists in lists; directories know their clones; the list of later frees.
pub const DEADLISTS: u64 = 26;
/// Snapshots of heads whose intent log is not empty.
pub const FAST_SNAPSHOTS: u64 = 27;
