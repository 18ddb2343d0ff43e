//! A file system on the real engine (one file as its disk, no pool), mounted by the kernel.
//! Needs `/dev/fuse` and root or `fusermount3`.

extern crate dmu as millpond_dmu;
extern crate millpond_fuse as fuse;

#[path = "live/file_flags.rs"]
mod file_flags;
#[path = "live/gathered.rs"]
mod gathered;
#[path = "live/page_cache.rs"]
mod page_cache;
#[path = "live/removed.rs"]
mod removed;
#[path = "live/snapshots.rs"]
mod snapshots;
#[path = "../../dmu/tests/support/mod.rs"]
mod support;
#[path = "live/suspended.rs"]
mod suspended;
#[path = "live/throttled.rs"]
mod throttled;
#[path = "live/unseen.rs"]
mod unseen;

use base::lock::{LockClass, Mutex, rank};
use base::{ObjectSetId, Txg};
use codec::Compression;
use dmu::{ObjectSet, OpenObjectSet, SyncContext, SyncWorkers, Tx};
use format::{BlockPointer, ObjectSetKind};
use fuse::{DatasetTree, Mount, MountFailure, MountOptions, Reply, SnapshotDirectory};
use fuse::{SessionOptions, SnapshotEntry, SnapshotSource};
use pipeline::Pipeline;
use posix::{Errno, FileSystem};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use sys::{MountError, UnmountMode};
use txg::{Engine, EngineConfig, SyncFailure, SyncTarget};
use vdev::WriteGroup;

/// How long the kernel may take to write back.
const WAIT: Duration = Duration::from_secs(60);

static SETS: LockClass = LockClass::new("test.sets", rank::POOL);

/// Nothing is freed: snapshots are root pointers that are kept.
struct Keep;

impl dmu::BlockAccounting for Keep {
    fn born(&self, _: &BlockPointer) {}

    fn killed(&self, _: &BlockPointer) {}
}

/// Syncs one object set.
struct Target {
    pipeline: Arc<Pipeline>,
    engine: Mutex<Option<Arc<Engine>>>,
    set: Mutex<Option<Arc<ObjectSet>>>,
    workers: SyncWorkers,
    gate: Gate,
}

/// Holds up a sync, as a disk that does not answer its flushes.
#[derive(Default)]
struct Gate {
    is_shut: std::sync::Mutex<bool>,
    opened: std::sync::Condvar,
}

impl Gate {
    fn shut(&self, shut: bool) {
        *self.is_shut.lock().unwrap() = shut;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let is_shut = self.is_shut.lock().unwrap();
        drop(self.opened.wait_while(is_shut, |is_shut| *is_shut).unwrap());
    }
}

impl SyncTarget for Target {
    fn sync(&self, txg: Txg) -> Result<(), SyncFailure> {
        self.gate.pass();
        let Some(set) = self.set.lock().clone() else {
            return Ok(());
        };
        let engine = self.engine.lock().clone();
        let group = WriteGroup::new(txg);
        let writer = support::Writer {
            pipeline: &self.pipeline,
            group: Arc::clone(&group),
            txg,
            compression: Compression::Lz4,
        };
        let failed = |error: &dyn std::fmt::Display| SyncFailure {
            reason: error.to_string(),
        };
        while set.is_dirty(txg) {
            let context = SyncContext {
                txg,
                writer: &writer,
                accounting: &Keep,
                workers: &self.workers,
                engine: engine.as_deref(),
                hole_birth: true,
                counts_bytes: true,
                account_owners: true,
                account_objects: true,
            };
            set.sync(&context).map_err(|error| failed(&error))?;
        }
        group.wait().map_err(|error| failed(&error))?;
        set.synced(txg);
        Ok(())
    }
}

/// Room for what asks for at most so many bytes.
struct Room(Arc<AtomicU64>);

impl dmu::Admission for Room {
    fn admit(&self, wanted: &dmu::Wanted) -> Result<Option<dmu::Promise>, dmu::Refusal> {
        match wanted.footprint.data_bytes <= self.0.load(Ordering::SeqCst) {
            _ if wanted.net_free => Ok(None),
            true => Ok(None),
            false => Err(dmu::Refusal::NoSpace),
        }
    }
}

impl posix::Space for Room {
    fn numbers(&self) -> posix::SpaceNumbers {
        posix::SpaceNumbers {
            referenced: 1 << 20,
            available: 1 << 30,
        }
    }
}

/// The engine under one file system.
struct Disk {
    room: Arc<AtomicU64>,
    engine: Arc<Engine>,
    target: Arc<Target>,
    _image: tempfile::TempDir,
}

impl Disk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        File::create(&image).unwrap().set_len(64 << 30).unwrap();
        let pipeline = support::pipeline(&image, device::Access::ReadWrite, 12);
        let engine = Engine::new(EngineConfig::for_memory(Txg(4), 8 << 30));
        let target = Arc::new(Target {
            pipeline,
            engine: Mutex::new(&SETS, Some(Arc::clone(&engine))),
            set: Mutex::new(&SETS, None),
            workers: SyncWorkers::per_core(),
            gate: Gate::default(),
        });
        let tx = Tx::syncing(Txg(4));
        let kind = ObjectSetKind::FileSystem;
        let set = ObjectSet::create(Self::options(&target.pipeline, 54), kind, &tx).unwrap();
        let new = posix::NewFileSystem {
            permissions: 0o777,
            ..posix::NewFileSystem::default()
        };
        posix::create_file_system(&tx, &set, &base::clock::SystemClock, &new).unwrap();
        *target.set.lock() = Some(set);
        engine.start(Arc::clone(&target) as Arc<dyn SyncTarget>);
        engine.wait_synced(None).unwrap();
        Self {
            room: Arc::new(AtomicU64::new(u64::MAX)),
            engine,
            target,
            _image: folder,
        }
    }

    fn options(pipeline: &Arc<Pipeline>, id: u64) -> OpenObjectSet {
        let store = Arc::new(support::Store(Arc::clone(pipeline)));
        OpenObjectSet {
            store,
            id: ObjectSetId(id),
            writable: id == 54,
            objects_max: 65536,
        }
    }

    fn root_pointer(&self) -> BlockPointer {
        self.engine.wait_synced(None).unwrap();
        let objects = self.target.set.lock().clone().unwrap();
        objects.root_pointer()
    }

    /// Forgets everything in memory, as a new import would.
    fn reopen(&self) {
        let root = self.root_pointer();
        let set = ObjectSet::open(Self::options(&self.target.pipeline, 54), &root).unwrap();
        *self.target.set.lock() = Some(set);
    }

    fn file_system(&self, objects: Arc<ObjectSet>, read_only: bool) -> Arc<FileSystem> {
        let log = Arc::new(posix::NoLog::new(Arc::clone(&self.engine)));
        let source = posix::Source {
            objects,
            engine: (!read_only).then(|| Arc::clone(&self.engine)),
            log: (!read_only).then_some(log as Arc<dyn posix::OperationLog>),
            space: (!read_only)
                .then(|| Arc::new(Room(Arc::clone(&self.room))) as Arc<dyn posix::Space>),
            clock: Arc::new(base::clock::SystemClock),
            identity: 54,
            properties: posix::DatasetProperties {
                acl: posix::AclKind::Posix,
                ..posix::DatasetProperties::default()
            },
        };
        let options = posix::MountOptions {
            read_only,
            kernel_checks_permissions: true,
            keeps_removed: true,
            ..posix::MountOptions::default()
        };
        FileSystem::mount(source, options).unwrap()
    }

    fn live(&self) -> Arc<FileSystem> {
        let objects = self.target.set.lock().clone().unwrap();
        self.file_system(objects, false)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.target.gate.shut(false);
        self.engine.stop();
    }
}

/// GUIDs that are so far apart want the same place among the mount's node ids.
const GUID_STEP: u64 = 0xFEFF;

/// Snapshots as this engine can have them: kept root pointers, for it frees nothing. Those without a name are gone.
struct Kept {
    disk: Arc<Disk>,
    roots: std::sync::Mutex<Vec<(String, BlockPointer)>>,
}

impl SnapshotSource for Kept {
    fn list(&self) -> Reply<Vec<SnapshotEntry>> {
        let roots = self.roots.lock().unwrap();
        let entries = roots
            .iter()
            .enumerate()
            .filter(|(_, (name, _))| !name.is_empty())
            .map(|(index, (name, _))| SnapshotEntry {
                name: name.clone().into_bytes(),
                guid: index as u64 * GUID_STEP + 1000,
                object_set: index as u64 + 100,
            });
        Ok(entries.collect())
    }

    fn open(&self, guid: u64) -> Reply<Arc<FileSystem>> {
        let index = usize::try_from((guid - 1000) / GUID_STEP).unwrap();
        let roots = self.roots.lock().unwrap();
        let kept = roots.get(index).filter(|(name, _)| !name.is_empty());
        let root = kept.ok_or(Errno::ESTALE)?.1;
        drop(roots);
        let options = Disk::options(&self.disk.target.pipeline, index as u64 + 100);
        Ok(self
            .disk
            .file_system(ObjectSet::open(options, &root).unwrap(), true))
    }

    fn changed(&self) -> fuse::wire::Timestamp {
        let count = self.roots.lock().unwrap().len();
        fuse::wire::Timestamp {
            seconds: count as i64,
            nanoseconds: 0,
        }
    }
}

struct Mounted {
    disk: Arc<Disk>,
    kept: Arc<Kept>,
    tree: Arc<DatasetTree>,
    mount: Mount,
    directory: tempfile::TempDir,
}

impl Mounted {
    fn new() -> Option<Self> {
        if !Path::new("/dev/fuse").exists() {
            println!("skipped: there is no /dev/fuse here");
            return None;
        }
        Self::on(Arc::new(Disk::new()), false)
    }

    /// A mount for which the kernel gathers writes; none where it cannot.
    fn gathering() -> Option<Self> {
        let at = Self::new()?;
        let at = Self::on(at.unmounted(), true)?;
        if !at.mount.session().gathers_writes() {
            println!("skipped: the kernel cannot gather writes here");
            return None;
        }
        Some(at)
    }

    fn on(disk: Arc<Disk>, writeback_cache: bool) -> Option<Self> {
        let roots = std::sync::Mutex::default();
        let kept = Arc::new(Kept {
            disk: Arc::clone(&disk),
            roots,
        });
        let tree = DatasetTree::new(disk.live(), kept.clone(), SnapshotDirectory::Hidden);
        let directory = tempfile::tempdir().unwrap();
        let session = SessionOptions {
            posix_acl: true,
            writeback_cache,
            ..SessionOptions::default()
        };
        let source = "tank".into();
        let options = MountOptions {
            source,
            session,
            ..MountOptions::default()
        };
        match Mount::start(directory.path(), tree.clone(), &options) {
            Ok(mount) => Some(Self {
                disk,
                kept,
                tree,
                mount,
                directory,
            }),
            Err(MountFailure::Mount(
                error @ (MountError::Device(_)
                | MountError::NoHelper(_)
                | MountError::Helper { .. }),
            )) => {
                println!("skipped: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn dirty_nodes(&self) -> Vec<u64> {
        fuse::Tree::nodes_maybe_mapped(&*self.tree)
    }

    /// Unmounts, forgets, mounts again.
    fn again(self) -> Self {
        let gathers = self.mount.session().gathers_writes();
        Self::on(self.unmounted(), gathers).unwrap()
    }

    /// Unmounts, and forgets what is in memory.
    fn unmounted(self) -> Arc<Disk> {
        self.mount.unmount(UnmountMode::IfIdle).unwrap();
        let disk = Arc::clone(&self.disk);
        drop(self);
        disk.reopen();
        disk
    }

    fn snapshot(&self, name: &str) {
        self.mount.write_back(WAIT).unwrap();
        let root = self.disk.root_pointer();
        self.kept.roots.lock().unwrap().push((name.into(), root));
        self.snapshots_changed();
    }

    fn destroy_snapshot(&self, name: &str) {
        let mut roots = self.kept.roots.lock().unwrap();
        let kept = roots.iter_mut().find(|(other, _)| other == name).unwrap();
        kept.0.clear();
        drop(roots);
        self.snapshots_changed();
    }

    fn snapshots_changed(&self) {
        let session = self.mount.session();
        self.tree.snapshots_changed(session, fuse::wire::ROOT_NODE);
    }

    /// Goes back to a snapshot.
    fn rollback(&self, name: &str) {
        self.mount.write_back(WAIT).unwrap();
        assert!(self.tree.suspend());
        let roots = self.kept.roots.lock().unwrap();
        let (_, root) = roots.iter().find(|(other, _)| other == name).unwrap();
        let options = Disk::options(&self.disk.target.pipeline, 54);
        let objects = ObjectSet::open(options, root).unwrap();
        *self.disk.target.set.lock() = Some(objects);
        drop(roots);
        self.tree.resume(
            self.disk.live(),
            self.mount.session(),
            fuse::wire::ROOT_NODE,
        );
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _detached = self.mount.unmount(UnmountMode::Detach);
    }
}

#[test]
fn a_mount_that_goes_at_this_moment_counts_as_unmounted() {
    for _ in 0..20 {
        let Some(at) = Mounted::new() else { return };
        let Ok(()) = sys::unmount_fuse(at.mount.path(), UnmountMode::Detach) else {
            return;
        };
        at.mount.unmount(UnmountMode::IfIdle).unwrap();
    }
}

#[test]
fn what_is_written_is_there_after_a_remount() {
    let Some(at) = Mounted::new() else { return };
    fs::write(at.path("small"), b"hello").unwrap();
    let large: Vec<u8> = (0..3_000_001_u32).map(|index| (index >> 7) as u8).collect();
    fs::write(at.path("large"), &large).unwrap();
    fs::create_dir(at.path("d")).unwrap();
    symlink("../small", at.path("d/link")).unwrap();
    fs::hard_link(at.path("small"), at.path("d/hard")).unwrap();
    fs::set_permissions(at.path("small"), fs::Permissions::from_mode(0o4640)).unwrap();
    let sparse = File::create(at.path("sparse")).unwrap();
    sparse.write_all_at(b"end", 10 << 20).unwrap();
    for index in 0..2000 {
        fs::write(
            at.path("d").join(format!("file number {index}")),
            index.to_string(),
        )
        .unwrap();
    }
    fs::remove_file(at.path("d/file number 7")).unwrap();
    fs::rename(at.path("d/file number 8"), at.path("moved")).unwrap();
    let names = || {
        let entries = fs::read_dir(at.path("d")).unwrap();
        entries.filter(Result::is_ok).count()
    };
    assert_eq!(names(), 2000);
    drop(sparse);
    let before = golden::describe_tree(at.directory.path());
    let at = at.again();
    let after = golden::describe_tree(at.directory.path());
    assert_eq!(before.differences(&after), Vec::<String>::new());
    assert_eq!(fs::read(at.path("large")).unwrap(), large);
    assert_eq!(fs::read_to_string(at.path("moved")).unwrap(), "8");
    assert_eq!(fs::metadata(at.path("small")).unwrap().nlink(), 2);
}

#[test]
fn files_live_without_names() {
    let Some(at) = Mounted::new() else { return };
    let open = |name| {
        File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(name)
    };
    let file = open(at.path("f")).unwrap();
    file.write_all_at(b"still here", 0).unwrap();
    fs::remove_file(at.path("f")).unwrap();
    let mut data = [0; 10];
    file.read_exact_at(&mut data, 0).unwrap();
    assert_eq!(&data, b"still here");
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    drop(file);
    const UNNAMED: i32 = 0o20_200_000;
    let mut options = OpenOptions::new();
    let unnamed = options
        .read(true)
        .write(true)
        .custom_flags(UNNAMED)
        .open(at.path(""))
        .unwrap();
    unnamed.write_all_at(b"later named", 0).unwrap();
    assert_eq!(fs::read_dir(at.path("")).unwrap().count(), 0);
}

#[test]
fn holes_are_found() {
    let Some(at) = Mounted::new() else { return };
    let file = File::create(at.path("f")).unwrap();
    file.set_len(10 << 20).unwrap();
    file.write_all_at(&[1; 131_072], 4 << 20).unwrap();
    let seek = |from| rustix::fs::seek(&file, from);
    use rustix::fs::SeekFrom::{Data, Hole};
    assert_eq!(seek(Data(0)), Ok(4 << 20), "from what is dirty");
    assert_eq!(seek(Hole(4 << 20)), Ok((4 << 20) + 131_072));
    file.sync_all().unwrap();
    assert_eq!(seek(Data(0)), Ok(4 << 20));
    assert_eq!(seek(Hole(0)), Ok(0));
    let (keep, punch) = (
        rustix::fs::FallocateFlags::KEEP_SIZE,
        rustix::fs::FallocateFlags::PUNCH_HOLE,
    );
    rustix::fs::fallocate(&file, keep | punch, 4 << 20, 131_072).unwrap();
    assert_eq!(seek(Data(0)), Err(rustix::io::Errno::NXIO));
    assert_eq!(file.metadata().unwrap().len(), 10 << 20);
}

#[test]
fn snapshots_are_shown_and_stay() {
    let Some(at) = Mounted::new() else { return };
    fs::create_dir(at.path("d")).unwrap();
    fs::write(at.path("d/f"), b"one").unwrap();
    at.snapshot("first");
    fs::write(at.path("d/f"), b"second").unwrap();
    fs::write(at.path("new"), b"new").unwrap();
    at.snapshot("second");
    fs::remove_file(at.path("d/f")).unwrap();
    let read = |name| fs::read_to_string(at.path(name));
    assert_eq!(read(".zfs/snapshot/first/d/f").unwrap(), "one");
    assert_eq!(read(".zfs/snapshot/second/d/f").unwrap(), "second");
    assert!(read(".zfs/snapshot/first/new").is_err());
    assert!(read("d/f").is_err());
    let listed: Vec<_> = fs::read_dir(at.path(".zfs/snapshot"))
        .unwrap()
        .map(|one| one.unwrap().file_name())
        .collect();
    assert_eq!(listed, ["first", "second"]);
    assert!(
        !fs::read_dir(at.path(""))
            .unwrap()
            .any(|one| one.unwrap().file_name() == ".zfs")
    );
    let inode = |name| fs::metadata(at.path(name)).unwrap().ino();
    let mut inodes = [
        inode("new"),
        inode(".zfs/snapshot/second/new"),
        inode("d"),
        inode(".zfs/snapshot/first/d"),
        inode(".zfs/snapshot/second/d"),
        inode(".zfs/snapshot/first"),
        inode(".zfs/snapshot/second"),
        inode(".zfs"),
        inode(""),
    ];
    inodes.sort_unstable();
    assert!(
        inodes.windows(2).all(|pair| pair[0] != pair[1]),
        "{inodes:?}"
    );
    let write = fs::write(at.path(".zfs/snapshot/first/d/f"), b"no").unwrap_err();
    assert_eq!(write.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    let target = at.path("d/cross");
    assert!(fs::hard_link(at.path(".zfs/snapshot/first/d/f"), target).is_err());
}

#[test]
fn a_rollback_is_seen_at_once() {
    let Some(at) = Mounted::new() else { return };
    fs::create_dir(at.path("d")).unwrap();
    fs::write(at.path("d/f"), b"old").unwrap();
    fs::write(at.path("gone"), b"was here").unwrap();
    at.snapshot("then");
    fs::remove_file(at.path("gone")).unwrap();
    fs::write(at.path("d/f"), b"much newer").unwrap();
    fs::write(at.path("d/young"), b"young").unwrap();
    assert!(fs::metadata(at.path("gone")).is_err());
    assert_eq!(fs::read_to_string(at.path("d/f")).unwrap(), "much newer");
    let held = File::options()
        .read(true)
        .write(true)
        .open(at.path("d/young"))
        .unwrap();
    for _ in 0..3 {
        at.rollback("then");
        assert_eq!(fs::read_to_string(at.path("gone")).unwrap(), "was here");
        assert_eq!(fs::read_to_string(at.path("d/f")).unwrap(), "old");
        assert!(fs::metadata(at.path("d/young")).is_err());
        assert_eq!(fs::read_dir(at.path("d")).unwrap().count(), 1);
        assert!(held.write_all_at(b"x", 0).is_err());
        fs::write(at.path("d/f"), b"changed again").unwrap();
        fs::remove_file(at.path("gone")).unwrap();
    }
}

#[test]
fn many_threads_at_once() {
    let Some(at) = Mounted::new() else { return };
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            let directory = at.path(&format!("t{thread}"));
            std::thread::spawn(move || {
                fs::create_dir(&directory).unwrap();
                for index in 0..300 {
                    let path = directory.join(index.to_string());
                    let mut file = File::create(&path).unwrap();
                    file.write_all(&vec![thread; 1000 + index]).unwrap();
                    if index % 50 == 0 {
                        file.sync_all().unwrap();
                    }
                    if index % 3 == 0 {
                        fs::remove_file(&path).unwrap();
                    }
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let at = at.again();
    for thread in 0..8 {
        let directory = at.path(&format!("t{thread}"));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 200);
        let data = fs::read(directory.join("100")).unwrap();
        assert!(data.len() == 1100 && data.iter().all(|byte| *byte == thread));
    }
}

/// A POSIX ACL as it travels: version 2, then (tag, permissions, id) in little endian.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[test]
fn posix_acls_are_kept_and_inherited() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    const NONE: u32 = u32::MAX;
    let Some(at) = Mounted::new() else { return };
    let (access, default) = ("system.posix_acl_access", "system.posix_acl_default");
    // user::rwx user:1234:rwx group::r-x mask::rwx other::---
    let list = acl(&[
        (1, 7, NONE),
        (2, 7, 1234),
        (4, 5, NONE),
        (16, 7, NONE),
        (32, 0, NONE),
    ]);
    fs::create_dir(at.path("d")).unwrap();
    setxattr(at.path("d"), default, &list, XattrFlags::empty()).unwrap();
    fs::write(at.path("d/f"), b"").unwrap();
    fs::create_dir(at.path("d/below")).unwrap();
    let read = |path: &str, name: &str| {
        let mut value = [0; 100];
        getxattr(at.path(path), name, &mut value).map(|len| value[..len].to_vec())
    };
    assert_eq!(read("d/below", default).unwrap(), list);
    let inherited = read("d/f", access).unwrap();
    let expected = acl(&[
        (1, 6, NONE),
        (2, 7, 1234),
        (4, 5, NONE),
        (16, 6, NONE),
        (32, 0, NONE),
    ]);
    assert_eq!(inherited, expected);
    // With an ACL, the group bits of the mode are the mask.
    assert_eq!(fs::metadata(at.path("d/f")).unwrap().mode() & 0o777, 0o660);
    fs::set_permissions(at.path("d/f"), fs::Permissions::from_mode(0o640)).unwrap();
    let masked = acl(&[
        (1, 6, NONE),
        (2, 7, 1234),
        (4, 5, NONE),
        (16, 4, NONE),
        (32, 0, NONE),
    ]);
    assert_eq!(read("d/f", access).unwrap(), masked);
}

#[test]
fn what_a_mapping_holds_is_in_the_snapshot() {
    const PROGRAM: &str = "
import mmap, sys
with open(sys.argv[1], 'r+b') as file:
    memory = mmap.mmap(file.fileno(), 0)
for word in (b'first', b'later'):
    memory[0:5] = word
    print('written', flush=True)
    sys.stdin.readline()
";
    let Some(at) = Mounted::new() else { return };
    fs::write(at.path("f"), vec![0; 100_000]).unwrap();
    let program = std::process::Command::new("python3")
        .args(["-c", PROGRAM])
        .arg(at.path("f"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn();
    let Ok(mut program) = program else {
        println!("skipped: there is no python3 here to map a file with");
        return;
    };
    let (mut input, output) = (
        program.stdin.take().unwrap(),
        program.stdout.take().unwrap(),
    );
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(output));
    for (name, word) in [("one", "first"), ("two", "later")] {
        assert_eq!(lines.next().unwrap().unwrap(), "written");
        at.snapshot(name);
        let seen = fs::read(at.path(&format!(".zfs/snapshot/{name}/f"))).unwrap();
        assert_eq!(&seen[..5], word.as_bytes());
        assert_eq!(seen.len(), 100_000);
        writeln!(input).unwrap();
    }
    assert!(program.wait().unwrap().success());
}

/// Not a test: serves at `$MILLPOND_FUSE_SERVE` until it is unmounted.
#[test]
#[ignore = "serves a mount for measurements"]
fn serve() {
    let Some(path) = std::env::var_os("MILLPOND_FUSE_SERVE") else {
        println!("skipped: MILLPOND_FUSE_SERVE is not set");
        return;
    };
    let disk = Arc::new(Disk::new());
    let roots = std::sync::Mutex::default();
    let kept = Arc::new(Kept {
        disk: Arc::clone(&disk),
        roots,
    });
    let tree = DatasetTree::new(disk.live(), kept, SnapshotDirectory::Hidden);
    let options = MountOptions {
        source: "tank".into(),
        ..MountOptions::default()
    };
    let mount = Mount::start(Path::new(&path), tree, &options).unwrap();
    while !mount.session().wait_ended(Duration::from_secs(3600)) {}
}
