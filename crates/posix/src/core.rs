//! What all operations of a file system share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::clock::Clock;
use base::lock::{LockClass, Mutex, RwLock, rank};
use base::{ObjectId, Txg};
use dmu::{DmuError, Footprint, Object, Reservation, Tx, Wanted, Zap};
use txg::Engine;

use crate::attributes::shown_id;
use crate::listings::Listings;
use crate::log::OperationLog;
use crate::long_free::LongFrees;
use crate::master::Master;
use crate::permission::{self, Subject};
use crate::quota::QuotaTables;
use crate::registry::Registry;
use crate::space::Space;
use crate::store::Store;
use crate::table::ZnodeTable;
use crate::znode::{State, Znode, internal_flags};
use crate::{
    Access, AclKind, Attributes, Credentials, DatasetProperties, MountOptions, OwnerMap,
    PosixError, Result, SetIdPolicy, Timestamp,
};

/// Moves of directories between directories, one at a time: the check against loops walks up.
static RENAME: LockClass = LockClass::new("posix.rename", rank::POSIX);
/// What is on the list of files without names stays as it was looked at.
static UNLINKED: LockClass = LockClass::new("posix.unlinked", rank::POSIX + 25);
static TOUCHED: LockClass = LockClass::new("posix.touched", rank::POSIX + 44);
static PROPERTIES: LockClass = LockClass::new("posix.properties", rank::POSIX + 45);

/// What makes changes possible.
pub(crate) struct Writing {
    pub(crate) engine: Arc<Engine>,
    space: Arc<dyn Space>,
    pub(crate) log: Arc<dyn OperationLog>,
}

/// The shared part of a mounted file system.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) master: Master,
    pub(crate) quotas: QuotaTables,
    pub(crate) table: ZnodeTable,
    pub(crate) listings: Listings,
    pub(crate) options: MountOptions,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) identity: u64,
    pub(crate) rename: Mutex<()>,
    /// Held while a number goes to the list of files without names, or goes off it because there is no such file.
    pub(crate) unlinked: Mutex<()>,
    /// Files whose access time in memory is newer than the stored one.
    pub(crate) touched: Mutex<Vec<Arc<Znode>>>,
    pub(crate) ended: AtomicBool,
    /// Until when files are held whose names go, for somebody came too late to one; 0: nobody did.
    pub(crate) late_until_ns: AtomicU64,
    pub(crate) long_frees: LongFrees,
    /// The intent log is being replayed: what once was allowed is not refused now.
    pub(crate) replaying: bool,
    properties: RwLock<DatasetProperties>,
    /// One of them, for reads that must not pass a lock around.
    reads_ahead: AtomicBool,
    writing: Option<Writing>,
    space: Option<Arc<dyn Space>>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "file system in object set {}", self.store.objects.id())
    }
}

/// What an operation is about to change, at most.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) write_bytes: u64,
    /// Of the file's blocks, at most; 0 = 128 KiB.
    pub(crate) block_bytes: u32,
    pub(crate) names: u32,
    pub(crate) objects: u32,
    /// More is freed than allocated: may go into the reserve.
    pub(crate) net_free: bool,
    /// Whole blocks that become references to stored ones.
    pub(crate) referenced_blocks: u64,
    /// Blocks that are freed whole.
    pub(crate) freed_blocks: u64,
}

impl Core {
    pub(crate) fn new(source: crate::Source, options: MountOptions) -> Result<Self> {
        let master = Master::load(&source.objects)?;
        let registry = match master.attributes {
            Some(object) => Registry::load(&source.objects, object)?,
            None => Registry::unavailable(),
        };
        let space = source.space;
        let writing = match (source.engine, source.log, &space) {
            (Some(engine), Some(log), Some(space))
                if source.objects.is_writable() && !options.read_only =>
            {
                Some(Writing {
                    space: Arc::clone(space),
                    engine,
                    log,
                })
            }
            _ => None,
        };
        let quotas = QuotaTables::load(&source.objects)?;
        Ok(Self {
            store: Store {
                registry,
                version: master.version,
                directory_normalization: master.names.directory_normalization(),
                objects: source.objects,
            },
            master,
            quotas,
            table: ZnodeTable::new(options.znodes_max),
            listings: Listings::new(),
            options,
            clock: source.clock,
            identity: source.identity,
            rename: Mutex::new(&RENAME, ()),
            unlinked: Mutex::new(&UNLINKED, ()),
            touched: Mutex::new(&TOUCHED, Vec::new()),
            ended: AtomicBool::new(false),
            late_until_ns: AtomicU64::new(0),
            long_frees: LongFrees::default(),
            replaying: false,
            reads_ahead: AtomicBool::new(source.properties.read_ahead),
            properties: RwLock::new(&PROPERTIES, source.properties),
            writing,
            space,
        })
    }

    pub(crate) fn properties(&self) -> DatasetProperties {
        *self.properties.read()
    }

    /// Whether contents of files are read ahead.
    pub(crate) fn reads_ahead(&self) -> bool {
        self.reads_ahead.load(Ordering::Relaxed)
    }

    pub(crate) fn set_properties(&self, properties: DatasetProperties) {
        *self.properties.write() = properties;
        self.reads_ahead
            .store(properties.read_ahead, Ordering::Relaxed);
    }

    pub(crate) fn space(&self) -> Option<&dyn Space> {
        self.space.as_deref()
    }

    /// What makes changes possible, also while they are refused.
    pub(crate) fn writing_parts(&self) -> Option<&Writing> {
        self.writing.as_ref()
    }

    /// What makes changes possible, unless they are refused.
    pub(crate) fn writing(&self) -> Result<&Writing> {
        let refused = self.ended.load(Ordering::SeqCst) || self.properties.read().read_only;
        self.writing
            .as_ref()
            .filter(|_| !refused)
            .ok_or(PosixError::ReadOnly)
    }

    /// Whether any of these flags forbids a change.
    pub(crate) fn forbids(&self, state: &State, flags: u64) -> bool {
        !self.replaying && state.has(flags)
    }

    /// Begins a transaction. No lock may be held: this waits for credit and for txgs.
    pub(crate) fn begin(&self, plan: Plan) -> Result<Tx> {
        let writing = self.writing()?;
        let reservation = Reservation {
            write_bytes: plan.write_bytes,
            block_bytes: plan.block_bytes,
            referenced_blocks: plan.referenced_blocks,
            names: plan.names,
            objects: plan.objects,
            net_free: plan.net_free,
            freed_blocks: plan.freed_blocks,
            admission: (!self.replaying).then_some(&*writing.space as _),
        };
        let tx = Tx::assign(&writing.engine, &reservation)?;
        // That may have waited for as long as others like: see [`Core::end`].
        if self.ended.load(Ordering::SeqCst) {
            return Err(PosixError::ReadOnly);
        }
        Ok(tx)
    }

    /// Has space promised for writes to so many blocks, wherever they lie; the last txg that it holds for, or none
    /// when that is refused.
    pub(crate) fn promise_ahead(&self, blocks: u64, block_bytes: u32) -> Result<Option<Txg>> {
        const META: u64 = 16 << 10;
        let writing = self.writing()?;
        let bytes = u64::from(block_bytes.max(self.properties().record_size));
        let wanted = Wanted {
            dirty_bytes: 0,
            footprint: Footprint {
                data_bytes: blocks.saturating_mul(bytes),
                data_blocks: blocks,
                meta_bytes: blocks.saturating_mul(META),
                meta_blocks: blocks,
            },
            net_free: false,
        };
        Ok(match writing.space.admit(&wanted) {
            // Nobody settles it: it ends when that txg has synced.
            Ok(Some(promise)) => Some(promise.until),
            Ok(None) => Some(writing.engine.open_txg().next()),
            Err(_) => None,
        })
    }

    /// Whether what was promised until a txg holds for what is written now.
    pub(crate) fn is_promised(&self, until: Txg) -> bool {
        self.writing()
            .is_ok_and(|writing| writing.engine.open_txg() <= until)
    }

    pub(crate) fn now(&self) -> Timestamp {
        let now = self.clock.now();
        Timestamp {
            seconds: (now / 1_000_000_000).cast_signed(),
            nanoseconds: (now % 1_000_000_000) as u32,
        }
    }

    /// The file with that number.
    pub(crate) fn znode(&self, id: ObjectId) -> Result<Arc<Znode>> {
        self.table.get_or_load(id, || {
            if let Some(listed) = self.listings.loading(id)
                && self.properties().read_ahead_metadata
            {
                self.store.objects.prefetch_dnodes(&listed);
            }
            let object = self.store.objects.object(id).map_err(|error| {
                if let DmuError::NoSuchObject { .. } = error {
                    PosixError::Stale
                } else {
                    error.into()
                }
            })?;
            Znode::load(object, &self.store.registry)
        })
    }

    /// The file with that number, which must be a directory.
    pub(crate) fn directory(&self, id: ObjectId) -> Result<Arc<Znode>> {
        let znode = self.znode(id)?;
        let is_directory = znode.alive(&znode.state.read())?.is_directory();
        if is_directory {
            Ok(znode)
        } else {
            Err(PosixError::NotDirectory)
        }
    }

    /// Attributes as this mount shows them.
    pub(crate) fn show(&self, znode: &Znode, state: &State) -> Attributes {
        let mut shown = znode.show(state);
        if let OwnerMap::Everyone { uid, gid } = self.options.owners {
            (shown.uid, shown.gid) = (uid, gid);
        }
        if self.options.set_id == SetIdPolicy::Hide {
            shown.permissions &= !(permission::SET_UID | permission::SET_GID);
        }
        shown
    }

    /// Owner and group as this mount shows them.
    pub(crate) fn owner(&self, state: &State) -> (u32, u32) {
        match self.options.owners {
            OwnerMap::Stored => (shown_id(state.uid), shown_id(state.gid)),
            OwnerMap::Everyone { uid, gid } => (uid, gid),
        }
    }

    /// Whether `who` may do `access`, where that is ours to check.
    pub(crate) fn check(&self, who: &Credentials, znode: &Znode, access: Access) -> Result<()> {
        if self.options.kernel_checks_permissions || access == Access::NONE {
            return Ok(());
        }
        self.check_always(who, znode, access)
    }

    /// Whether `who` may do `access`.
    pub(crate) fn check_always(
        &self,
        who: &Credentials,
        znode: &Znode,
        access: Access,
    ) -> Result<()> {
        let state = znode.state.read();
        let (uid, gid) = self.owner(&state);
        let (mode, is_directory) = (state.mode, state.is_directory());
        let subject = Subject {
            mode,
            uid,
            gid,
            is_directory,
            acl: None,
            entries: None,
        };
        if who.privileged {
            return permission::check(who, &subject, access);
        }
        if !state.has(internal_flags::ACL_TRIVIAL) && state.acl_count > 3 {
            let entries = znode.access_entries(&self.store, &state)?;
            return permission::check(
                who,
                &Subject {
                    entries: Some(&entries),
                    ..subject
                },
                access,
            );
        }
        drop(state);
        let acl = self.access_acl(znode)?;
        permission::check(
            who,
            &Subject {
                acl: acl.as_deref(),
                ..subject
            },
            access,
        )
    }

    /// Whether the caller owns the file or may act as if.
    pub(crate) fn is_owner(&self, who: &Credentials, state: &State) -> bool {
        who.privileged || who.uid == self.owner(state).0
    }

    /// The entries of a directory.
    pub(crate) fn entries(&self, directory: &Znode) -> Result<Zap> {
        Ok(Zap::open(&directory.object)?)
    }

    /// The longest name accepted.
    pub(crate) fn name_length_max(&self) -> usize {
        let properties = self.properties.read();
        if properties.long_names {
            format::zap::NAME_LONG_MAX
        } else {
            format::zap::NAME_MAX
        }
    }

    /// Whether POSIX access lists are in force.
    pub(crate) fn has_posix_acls(&self) -> bool {
        self.properties.read().acl == AclKind::Posix
    }

    pub(crate) fn object(&self, id: ObjectId) -> Result<Arc<Object>> {
        Ok(self.store.objects.object(id)?)
    }
}
