//! Changes of a pool: what commands may ask for, as it travels to the daemon.
//!
//! What each does, who may ask for it, and what else is to be known of it, the service says of
//! these same types.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Secret;
use crate::message::{Assignments, VdevSpec};

/// A change to the pool or what is in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// Make a file system or volume.
    Create(Create),
    /// Destroy file systems, volumes, snapshots or a bookmark.
    Destroy(Destroy),
    /// Take snapshots, all in one txg.
    Snapshot(Snapshot),
    /// Go back to a snapshot.
    Rollback(Rollback),
    /// Make a writable copy of a snapshot.
    Clone(CloneSnapshot),
    /// Promote a clone: its origin becomes a clone of it.
    Promote(Promote),
    /// Give a dataset, snapshot or bookmark another name.
    Rename(Rename),
    /// Set properties of datasets.
    Set(Set),
    /// Forget local values.
    Inherit(Inherit),
    /// Mount a file system, or all.
    Mount(Mount),
    /// Unmount a file system, or all.
    Unmount(Unmount),
    /// Load the key of a root of encryption.
    LoadKey(LoadKey),
    /// Forget the key of a root of encryption.
    UnloadKey(UnloadKey),
    /// Give a dataset another key.
    ChangeKey(ChangeKey),
    /// Hold snapshots.
    Hold(Hold),
    /// Release holds.
    Release(Release),
    /// Make a bookmark of a snapshot or bookmark.
    Bookmark(Bookmark),
    /// Make a bookmark of a snapshot with the list of what some other snapshots changed.
    Redact(Redact),
    /// Destroy what a receive that broke off has left.
    AbortReceive(AbortReceive),
    /// Grant permissions, or take them back.
    Delegate(Delegate),
    /// Set a pool property.
    SetPool(SetPool),
    /// Set properties of a vdev.
    SetVdev(SetVdev),
    /// Raise the pool's version, and enable all features that this software supports.
    Upgrade(Upgrade),
    /// Start, stop or pause a scrub.
    Scrub(ScrubAction),
    /// Wait until a scrub has ended.
    WaitScrub,
    /// Give free space back to devices.
    Trim(Trim),
    /// Wait until devices are no longer trimmed.
    WaitTrim(WaitTrim),
    /// Overwrite free space of devices.
    Initialize(Initialize),
    /// Wait until devices are no longer initialized.
    WaitInitialize(WaitInitialize),
    /// Everything written so far is on the devices when this returns.
    Sync,
    /// Forget error counts and resume.
    Clear(Clear),
    /// Add top-level vdevs.
    AddVdevs(AddVdevs),
    /// Say whether they could be added.
    CheckVdevs(CheckVdevs),
    /// Remove top-level vdevs.
    RemoveVdevs(RemoveVdevs),
    /// Put a device beside another one, or in its place.
    AttachDevice(AttachDevice),
    /// Take a device away from a mirror or a replacement.
    DetachDevice(DetachDevice),
    /// Make a pool of one side of each mirror.
    Split(Split),
    /// Take devices out of use.
    OfflineDevices(OfflineDevices),
    /// Take devices into use again.
    OnlineDevices(OnlineDevices),
    /// Look at devices again.
    ReopenDevices(ReopenDevices),
    /// Start a resilver, or start it anew.
    RestartResilver,
    /// Give the pool another guid.
    Reguid(Reguid),
    /// Take old entries with one reference out of dedup tables.
    PruneDedup(PruneDedup),
    /// Bring tables into memory.
    PrefetchTables(PrefetchTables),
    /// Keep the state of the pool as it is, or give up what is kept.
    Checkpoint(Checkpoint),
    /// Run a channel program.
    Program(Program),
    /// Unmount all, write everything out and let the pool go.
    Export(Export),
    /// Destroy the pool.
    DestroyPool(DestroyPool),
}

/// Make a file system or volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Create {
    /// Its name.
    pub name: String,
    /// For a volume: its size.
    pub volume: Option<VolumeSpec>,
    /// Its first properties.
    pub properties: Assignments,
    /// Make missing parents too.
    pub parents: bool,
    /// Do not mount it.
    pub unmounted: bool,
    /// The key of a new root of encryption.
    pub key: Option<NewKey>,
}

/// A key for a root of encryption. What else there is to say of it, the properties do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewKey {
    /// The wrapping key: 64 hexadecimal digits.
    pub key: Secret,
    /// Of a passphrase: the salt that it was made with.
    pub salt: u64,
}

/// The size of a new volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeSpec {
    /// Bytes.
    pub size: u64,
    /// Without a reservation.
    pub sparse: bool,
}

/// Destroy file systems, volumes, snapshots or a bookmark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command"
)]
pub struct Destroy {
    /// What.
    pub target: DestroyTarget,
    /// Children or snapshots of the same name below, too.
    pub recursive: bool,
    /// Clones outside, too.
    pub dependents: bool,
    /// Unmount by force.
    pub force: bool,
    /// Snapshots in use: when their last user goes.
    pub deferred: bool,
    /// Only say what would go.
    pub dry_run: bool,
}

/// What to destroy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DestroyTarget {
    /// A file system or volume.
    Dataset(String),
    /// Snapshots of one dataset: names, or `first%last` ranges with either end open.
    Snapshots {
        /// The dataset.
        dataset: String,
        /// The names and ranges.
        specs: Vec<String>,
    },
    /// A bookmark.
    Bookmark(String),
}

/// Take snapshots, all in one txg.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Their full names.
    pub names: Vec<String>,
    /// Of everything below, too.
    pub recursive: bool,
    /// User properties.
    pub properties: Assignments,
}

/// Go back to a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollback {
    /// The snapshot.
    pub snapshot: String,
    /// Destroy later snapshots and bookmarks.
    pub destroy_later: bool,
    /// Destroy their clones, too.
    pub destroy_clones: bool,
    /// Unmount those clones by force.
    pub force: bool,
}

/// Make a writable copy of a snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CloneSnapshot {
    /// The snapshot.
    pub snapshot: String,
    /// The new dataset.
    pub name: String,
    /// Its first properties.
    pub properties: Assignments,
    /// Make missing parents too.
    pub parents: bool,
    /// Do not mount it.
    pub unmounted: bool,
}

/// Promote a clone: its origin becomes a clone of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promote {
    /// The clone.
    pub name: String,
}

/// Give a dataset, snapshot or bookmark another name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command"
)]
pub struct Rename {
    /// The old name.
    pub from: String,
    /// The new name.
    pub to: String,
    /// Make missing parents too.
    pub parents: bool,
    /// Snapshots of this name below, too.
    pub recursive: bool,
    /// Leave mounts as they are.
    pub keep_mounts: bool,
    /// Unmount by force.
    pub force: bool,
}

/// Set properties of datasets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Set {
    /// On which.
    pub names: Vec<String>,
    /// What.
    pub properties: Assignments,
    /// Leave mounts as they are.
    pub keep_mounts: bool,
}

/// Forget local values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inherit {
    /// On which.
    pub names: Vec<String>,
    /// What.
    pub property: String,
    /// On everything below, too.
    pub recursive: bool,
    /// Back to received values.
    pub received: bool,
}

/// Mount a file system, or all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Which; none: all that may be.
    pub name: Option<String>,
    /// Where, for a file system whose mount point is `legacy`.
    pub at: Option<PathBuf>,
    /// Options of `-o`; with `remount` among them, what is mounted gets them.
    pub options: Vec<String>,
    /// Over a directory that is not empty.
    pub overlay: bool,
    /// Even if redacted.
    pub force: bool,
    /// What is below it as well.
    pub recursive: bool,
}

/// Unmount a file system, or all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmount {
    /// A dataset or a path; none: all.
    pub name: Option<String>,
    /// From under its users.
    pub force: bool,
}

/// Load the key of a root of encryption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadKey {
    /// The root.
    pub name: String,
    /// The wrapping key: 64 hexadecimal digits.
    pub key: Secret,
    /// Only say whether it is the right one.
    pub dry_run: bool,
}

/// Forget the key of a root of encryption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnloadKey {
    /// The root.
    pub name: String,
}

/// Give a dataset a key of its own, or its parent's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeKey {
    /// The dataset.
    pub name: String,
    /// What its key is made of, and where it is; for a key of its own.
    pub properties: Assignments,
    /// Its own key; none: its parent's.
    pub key: Option<NewKey>,
}

/// Hold snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The tag.
    pub tag: String,
    /// The snapshots.
    pub snapshots: Vec<String>,
    /// Those of the same name below, too.
    pub recursive: bool,
}

/// Release holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// The tag.
    pub tag: String,
    /// The snapshots.
    pub snapshots: Vec<String>,
    /// Those of the same name below, too.
    pub recursive: bool,
}

/// Make a bookmark of a snapshot or bookmark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bookmark {
    /// Of what.
    pub source: String,
    /// Its full name.
    pub name: String,
}

/// Make a bookmark of a snapshot with the list of what some other snapshots changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redact {
    /// The snapshot.
    pub source: String,
    /// The bookmark's full name.
    pub name: String,
    /// The snapshots whose changes are listed.
    pub by: Vec<String>,
}

/// Destroy what a receive that broke off has left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbortReceive {
    /// The file system or volume that was received.
    pub dataset: String,
}

/// Grant permissions, or take them back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegate {
    /// The dataset.
    pub name: String,
    /// Grant; else take back.
    pub grant: bool,
    /// On everything below, too.
    pub recursive: bool,
    /// To whom, as the pool writes it, and what; nothing: all that they have.
    pub changes: Vec<(String, Vec<String>)>,
}

/// Set a pool property.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetPool {
    /// What.
    pub properties: Assignments,
}

/// Set properties of a vdev.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetVdev {
    /// Which: a name, path or guid.
    pub vdev: String,
    /// What; an empty text or an absent value takes one back.
    pub properties: Assignments,
}

/// What to do with a scrub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScrubAction {
    /// Start or resume.
    Start,
    /// Stop.
    Stop,
    /// Pause.
    Pause,
}

/// Give free space back to devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trim {
    /// What to do.
    pub action: TrimAction,
    /// Their names, paths or guids; none: all that can.
    pub devices: Vec<String>,
}

/// What to do with a trim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TrimAction {
    /// Start or resume.
    Start {
        /// Bytes a second at most for each device; 0: any number.
        rate: u64,
        /// What was there must be gone for good.
        secure: bool,
    },
    /// Give it up.
    Cancel,
    /// Stop it for now.
    Suspend,
}

/// Wait until devices are no longer trimmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitTrim {
    /// Their names, paths or guids; none: all that can.
    pub devices: Vec<String>,
}

/// Overwrite free space of devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Initialize {
    /// What to do.
    pub action: InitializeAction,
    /// Their names, paths or guids; none: all.
    pub devices: Vec<String>,
}

/// What to do about the initializing of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InitializeAction {
    /// Start or resume.
    Start,
    /// Give it up.
    Cancel,
    /// Stop it for now.
    Suspend,
    /// Forget that it was done.
    Forget,
}

/// Wait until devices are no longer initialized.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitInitialize {
    /// Their names, paths or guids; none: all.
    pub devices: Vec<String>,
}

/// Forget error counts and resume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clear {
    /// One device; none: all.
    pub device: Option<String>,
}

/// Add top-level vdevs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddVdevs {
    /// Which.
    pub vdevs: Vec<VdevSpec>,
    /// Sector size as a power of two; none: what the devices ask for.
    pub ashift: Option<u32>,
    /// Use devices that look used, and mixed redundancy.
    pub force: bool,
    /// Make files of this size where the paths do not exist.
    pub file_size: Option<u64>,
}

/// Say whether top-level vdevs could be added. A message of its own: a daemon of before, which knows no such word in
/// another one, would add them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckVdevs {
    /// What would be asked for.
    pub wanted: AddVdevs,
}

/// Remove top-level vdevs, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveVdevs {
    /// Their names, paths or guids.
    pub devices: Vec<String>,
    /// What is to be done.
    pub action: RemoveAction,
}

/// What is to be done about the removal of vdevs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RemoveAction {
    /// To remove them.
    Remove,
    /// To say how much memory it would take.
    Estimate {
        /// In bytes.
        exact: bool,
    },
    /// To cancel the removal that is under way.
    Cancel,
}

/// Put a device beside another one, or in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachDevice {
    /// The one that is there: a name, path or guid.
    pub device: String,
    /// The new one; none: what is now where the other one was.
    pub new: Option<PathBuf>,
    /// It takes the other's place; else both stay.
    pub replace: bool,
    /// Sector size as a power of two that is asked for.
    pub ashift: Option<u32>,
    /// Use a device that looks used.
    pub force: bool,
    /// It gets what the others have by a sequential rebuild; else by a resilver.
    #[serde(default)]
    pub sequential: bool,
}

/// Take a device away from a mirror or a replacement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetachDevice {
    /// Its name, path or guid.
    pub device: String,
}

/// Make a pool of one side of each mirror. It is exported then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// The new pool's name.
    pub name: String,
    /// Names, paths or guids of sides; of the other mirrors the last goes.
    pub devices: Vec<String>,
    /// Properties of the new pool.
    pub properties: Assignments,
    /// Only say the guids of the sides, a line each.
    pub dry_run: bool,
}

/// Take devices out of use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfflineDevices {
    /// Their names, paths or guids.
    pub devices: Vec<String>,
    /// As devices that failed.
    pub faulted: bool,
    /// Until the next import.
    pub temporary: bool,
}

/// Take devices into use again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnlineDevices {
    /// Their names, paths or guids.
    pub devices: Vec<String>,
    /// Use all that devices have become larger by.
    pub expand: bool,
}

/// Look at devices again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReopenDevices {
    /// A scan that is under way goes on as it is.
    pub keep_scan: bool,
}

/// Give the pool another guid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reguid {
    /// This one; none: a random one.
    pub guid: Option<u64>,
}

/// Raise the pool's version, and enable all features that this software supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upgrade {
    /// To this version; features are enabled only with 5000.
    pub version: u64,
}

/// Take old entries with one reference out of dedup tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PruneDedup {
    /// Those that are older than so many days.
    Days(u64),
    /// So many of a hundred, the oldest.
    Percent(u64),
}

/// Bring tables into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PrefetchTables {
    /// Which content is stored where.
    Dedup,
    /// Which blocks files share.
    BlockReferences,
}

/// Keep the state of the pool as it is, or give up what is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Give it up.
    pub discard: bool,
}

/// Run a channel program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its text.
    pub script: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// It may change nothing.
    pub read_only: bool,
    /// How many instructions it may execute.
    pub instructions: u64,
    /// How many bytes of memory it may have.
    pub memory_bytes: u64,
}

/// Unmount all, write everything out and let the pool go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    /// Unmount by force.
    pub force: bool,
}

/// Destroy the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestroyPool {
    /// Unmount by force.
    pub force: bool,
}
