//! How a file system is mounted, and the properties of its dataset that file semantics need.

/// When reading moves the access time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessTime {
    /// Never.
    Off,
    /// When it is older than the last change or a day.
    #[default]
    Relative,
    /// At every read.
    Strict,
}

/// Where new extended attributes are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XattrStore {
    /// None are shown or accepted.
    Off,
    /// In a hidden directory.
    Directory,
    /// In the file's system attributes where they fit.
    #[default]
    SystemAttribute,
}

/// The access control lists offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AclKind {
    /// None.
    #[default]
    Off,
    /// POSIX lists, kept as extended attributes.
    Posix,
    /// NFSv4 lists (not set from Linux, but honoured).
    Nfs4,
}

/// How names compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaseSensitivity {
    /// Byte by byte.
    #[default]
    Sensitive,
    /// Without regard to case.
    Insensitive,
    /// By case, unless a front end asks otherwise.
    Mixed,
}

/// Whom files seem to belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnerMap {
    /// Whom the medium says.
    #[default]
    Stored,
    /// Everything to one user and group: for ordinary users reading their image. New files are
    /// stored with this owner.
    Everyone {
        /// User shown.
        uid: u32,
        /// Group shown.
        gid: u32,
    },
}

/// Whether set-id bits are honoured by permission rules here (the kernel sees `nosuid`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetIdPolicy {
    /// As stored.
    #[default]
    Honour,
    /// Shown as absent.
    Hide,
}

/// Properties of a dataset that file semantics need; effective values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetProperties {
    /// Largest block of new files, a power of two.
    pub record_size: u32,
    /// Access time policy.
    pub access_time: AccessTime,
    /// Where extended attributes go.
    pub xattr: XattrStore,
    /// Which ACLs are offered.
    pub acl: AclKind,
    /// Dnode slots of new objects (1 = 512 bytes).
    pub dnode_slots: u8,
    /// Names up to 1023 bytes.
    pub long_names: bool,
    /// The dataset is read-only.
    pub read_only: bool,
    /// Contents of files are read ahead (`prefetch=all`).
    pub read_ahead: bool,
    /// Whether dnodes are read ahead for those who walk through directories.
    pub read_ahead_metadata: bool,
    /// Each write is durable before it returns.
    pub sync_always: bool,
    /// `sync=disabled`: fsync does nothing.
    pub sync_disabled: bool,
}

impl Default for DatasetProperties {
    fn default() -> Self {
        Self {
            record_size: 128 << 10,
            access_time: AccessTime::default(),
            xattr: XattrStore::default(),
            acl: AclKind::default(),
            dnode_slots: 1,
            long_names: false,
            read_only: false,
            read_ahead: true,
            read_ahead_metadata: true,
            sync_always: false,
            sync_disabled: false,
        }
    }
}

impl DatasetProperties {
    /// Those of who looks at everything that is there, whatever the dataset's properties say, and changes nothing.
    #[must_use]
    pub const fn showing_all() -> Self {
        Self {
            record_size: 128 << 10,
            access_time: AccessTime::Off,
            xattr: XattrStore::SystemAttribute,
            acl: AclKind::Posix,
            dnode_slots: 1,
            long_names: true,
            read_only: true,
            read_ahead: true,
            read_ahead_metadata: true,
            sync_always: false,
            sync_disabled: false,
        }
    }

    /// As a replay goes by them: what was done is done again, whatever the properties have forbidden since. Each field
    /// is named, so that who adds one decides it here.
    #[must_use]
    pub(crate) const fn for_replay(self) -> Self {
        Self {
            record_size: self.record_size,
            access_time: self.access_time,
            xattr: self.xattr,
            acl: self.acl,
            dnode_slots: self.dnode_slots,
            long_names: true,
            read_only: false,
            read_ahead: self.read_ahead,
            read_ahead_metadata: self.read_ahead_metadata,
            sync_always: self.sync_always,
            sync_disabled: self.sync_disabled,
        }
    }
}

/// How to mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// No changes, whatever the dataset says.
    pub read_only: bool,
    /// The kernel checks modes and ACLs (`default_permissions`); only ownership rules are kept here.
    pub kernel_checks_permissions: bool,
    /// A directory whose name is gone stays while the caller has its [`crate::Removed`]; after
    /// [`crate::FileSystem::came_late`] other files, too.
    pub keeps_removed: bool,
    /// A thread of its own frees what takes more than one transaction; otherwise whoever asks waits for it.
    pub frees_in_background: bool,
    /// Whom files seem to belong to.
    pub owners: OwnerMap,
    /// Overrides the dataset's access time policy.
    pub access_time: Option<AccessTime>,
    /// Set-id bits.
    pub set_id: SetIdPolicy,
    /// Bound of the in-memory file table, in entries; 0 for the default.
    pub znodes_max: usize,
}
