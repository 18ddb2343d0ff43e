//! The protocol against the real kernel. Needs `/dev/fuse` and either root or `fusermount3`;
//! without them the tests say so and pass.

extern crate millpond_fuse as fuse;

mod memory;

use fuse::wire::ROOT_NODE;
use fuse::{
    Mount, MountFailure, MountMultiplexer, MountOptions, MountState, SessionOptions, TreeTag,
};
use memory::Memory;
use posix::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use sys::{MountError, UnmountMode};

/// How long a slow operation would take that nobody lets go: no test waits for it.
const HANG_MS: u64 = 60_000;

struct Mounted {
    mount: Option<Mount>,
    tree: Arc<Memory>,
    directory: tempfile::TempDir,
}

fn options() -> MountOptions {
    MountOptions {
        source: "tank/home".into(),
        ..MountOptions::default()
    }
}

impl Mounted {
    fn new(options: &MountOptions) -> Option<Self> {
        if !Path::new("/dev/fuse").exists() {
            println!("skipped: there is no /dev/fuse here");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let tree = Memory::new();
        let mounted = Mount::start(directory.path(), tree.clone(), options);
        match mounted {
            Ok(mount) => Some(Self {
                mount: Some(mount),
                tree,
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

    fn plain() -> Option<Self> {
        let source = "tank/home".into();
        Self::new(&MountOptions {
            source,
            ..options()
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn mount(&self) -> &Mount {
        self.mount.as_ref().unwrap()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(mount) = self.mount.take() {
            drop(mount.unmount(UnmountMode::Detach));
        }
    }
}

#[test]
fn files_are_files() {
    let Some(at) = Mounted::plain() else { return };
    fs::write(at.path("a"), b"hello").unwrap();
    assert_eq!(fs::read(at.path("a")).unwrap(), b"hello");
    OpenOptions::new()
        .append(true)
        .open(at.path("a"))
        .unwrap()
        .write_all(b" you")
        .unwrap();
    assert_eq!(fs::read_to_string(at.path("a")).unwrap(), "hello you");
    fs::write(at.path("a"), b"short").unwrap();
    assert_eq!(fs::metadata(at.path("a")).unwrap().len(), 5);
    File::options()
        .write(true)
        .open(at.path("a"))
        .unwrap()
        .set_len(3)
        .unwrap();
    assert_eq!(fs::read_to_string(at.path("a")).unwrap(), "sho");
    fs::set_permissions(at.path("a"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(fs::metadata(at.path("a")).unwrap().mode(), 0o100_640);
    fs::hard_link(at.path("a"), at.path("b")).unwrap();
    assert_eq!(fs::metadata(at.path("b")).unwrap().nlink(), 2);
    fs::rename(at.path("b"), at.path("c")).unwrap();
    assert_eq!(
        fs::metadata(at.path("b")).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    fs::remove_file(at.path("a")).unwrap();
    assert_eq!(fs::metadata(at.path("c")).unwrap().nlink(), 1);
    symlink("c", at.path("link")).unwrap();
    assert_eq!(fs::read_link(at.path("link")).unwrap(), Path::new("c"));
    assert!(fs::metadata(at.path("link")).unwrap().is_file());
    File::open(at.path("c")).unwrap().sync_all().unwrap();
}

#[test]
fn directories_are_directories() {
    let Some(at) = Mounted::plain() else { return };
    fs::create_dir(at.path("d")).unwrap();
    let mut expected = Vec::new();
    for index in 0..500 {
        let name = format!("a rather long name, number {index}");
        File::create(at.path("d").join(&name)).unwrap();
        expected.push(name);
    }
    for _ in 0..2 {
        let mut seen: Vec<_> = fs::read_dir(at.path("d"))
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| {
                (
                    entry.metadata().unwrap(),
                    entry.file_name().into_string().unwrap(),
                )
            })
            .map(|(metadata, name)| {
                assert!(metadata.is_file());
                name
            })
            .collect();
        seen.sort();
        expected.sort();
        assert_eq!(seen, expected);
        let gone = expected.pop().unwrap();
        fs::remove_file(at.path("d").join(gone)).unwrap();
    }
    assert_eq!(
        fs::remove_dir(at.path("d")).unwrap_err().kind(),
        ErrorKind::DirectoryNotEmpty
    );
    fs::remove_dir_all(at.path("d")).unwrap();
    assert!(!at.path("d").exists());
}

#[test]
fn large_and_sparse_data() {
    let Some(at) = Mounted::plain() else { return };
    let data: Vec<u8> = (0..5_000_000_u32).map(|index| (index >> 8) as u8).collect();
    fs::write(at.path("large"), &data).unwrap();
    assert!(fs::read(at.path("large")).unwrap() == data);
    let mut file = File::options()
        .write(true)
        .read(true)
        .open(at.path("large"))
        .unwrap();
    file.write_all_at(b"end", 9_000_000).unwrap();
    file.seek(SeekFrom::Start(8_999_998)).unwrap();
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).unwrap();
    assert_eq!(tail, b"\0\0end");
}

#[test]
fn the_mount_table_shows_the_dataset() {
    let Some(at) = Mounted::plain() else { return };
    let entries = sys::mounted_entries().unwrap();
    let ours = entries
        .iter()
        .find(|entry| entry.path == at.directory.path())
        .unwrap();
    assert_eq!(ours.source, b"tank/home");
    assert_eq!(ours.kind, b"fuse.zfs");
    assert_eq!(at.mount().state(), MountState::Serving);
}

#[test]
fn unmounted_by_us() {
    let Some(at) = Mounted::plain() else { return };
    let held = File::create(at.path("held")).unwrap();
    assert!(at.mount().unmount(UnmountMode::IfIdle).is_err());
    drop(held);
    at.mount().unmount(UnmountMode::IfIdle).unwrap();
    assert_eq!(at.mount().state(), MountState::Ended);
    assert!(at.tree.ended.load(Ordering::SeqCst));
    at.mount().unmount(UnmountMode::IfIdle).unwrap();
}

#[test]
fn unmounted_by_somebody_else() {
    let Some(at) = Mounted::plain() else { return };
    let program = if sys::user_id() == 0 {
        "umount"
    } else {
        "fusermount3"
    };
    let mut command = std::process::Command::new(program);
    if program == "fusermount3" {
        command.arg("-u");
    }
    assert!(command.arg(at.directory.path()).status().unwrap().success());
    assert!(at.mount().session().wait_ended(Duration::from_secs(10)));
}

#[test]
fn the_kernel_forgets_when_told() {
    let Some(at) = Mounted::plain() else { return };
    fs::write(at.path("f"), b"old old").unwrap();
    let node = fs::metadata(at.path("f")).unwrap().ino();
    assert_eq!(fs::read(at.path("f")).unwrap(), b"old old");
    // Reading made the access time unknown: this stat asks, the next one does not.
    assert_eq!(fs::metadata(at.path("f")).unwrap().len(), 7);
    at.tree.overwrite(node, b"new");
    assert_eq!(
        fs::metadata(at.path("f")).unwrap().len(),
        7,
        "attributes are cached"
    );
    at.mount().session().invalidate_node(node);
    assert_eq!(fs::read(at.path("f")).unwrap(), b"new");

    assert!(fs::metadata(at.path("absent")).is_err());
    let who = fuse::Caller {
        uid: 0,
        gid: 0,
        pid: 0,
        group_of_directory: None,
    };
    fuse::Tree::link(&*at.tree, &who, node, ROOT_NODE, b"absent").unwrap();
    assert!(
        fs::metadata(at.path("absent")).is_err(),
        "absence is cached"
    );
    at.mount().session().invalidate_name(ROOT_NODE, b"absent");
    assert!(fs::metadata(at.path("absent")).is_ok());

    fuse::Tree::unlink(&*at.tree, &who, ROOT_NODE, b"absent").unwrap();
    assert!(fs::metadata(at.path("absent")).is_ok(), "names are cached");
    if at.mount().session().invalidate_everything() {
        assert!(fs::metadata(at.path("absent")).is_err());
    }
}

#[test]
fn cached_operations_pass_blocked_ones() {
    let session = SessionOptions {
        readers: 2,
        ..SessionOptions::default()
    };
    let Some(at) = Mounted::new(&MountOptions {
        session,
        ..options()
    }) else {
        return;
    };
    at.tree.delay_ms.store(HANG_MS, Ordering::Relaxed);
    let who = fuse::Caller {
        uid: 0,
        gid: 0,
        pid: 0,
        group_of_directory: None,
    };
    let slow: Vec<_> = (0..6)
        .map(|index| {
            let path = at.path(&format!("slow{index}"));
            fs::write(&path, b"data").unwrap();
            let node = fs::metadata(&path).unwrap().ino();
            let flags = fuse::wire::XattrFlags::empty();
            fuse::Tree::setxattr(&*at.tree, &who, node, b"user.slow", b"", flags).unwrap();
            at.mount().session().invalidate_node(node);
            path
        })
        .collect();
    let threads: Vec<_> = slow
        .into_iter()
        .map(|path| std::thread::spawn(move || fs::read(path).unwrap()))
        .chain((0..6).map(|index| {
            let file = File::create(at.path(&format!("sync{index}"))).unwrap();
            std::thread::spawn(move || {
                file.sync_all().unwrap();
                Vec::new()
            })
        }))
        .collect();
    std::thread::sleep(Duration::from_millis(100));
    for index in 0..100 {
        fs::write(at.path(&format!("quick{index}")), b"data").unwrap();
    }
    assert!(threads.iter().all(|thread| !thread.is_finished()));
    at.tree.delay_ms.store(0, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn one_write_can_be_durable() {
    use rustix::io::{ReadWriteFlags, pwritev2};
    use std::io::IoSlice;
    let Some(at) = Mounted::plain() else { return };
    let durable = || at.tree.durable_writes.load(Ordering::Relaxed);
    let mut file = File::create(at.path("f")).unwrap();
    file.write_all(b"soon").unwrap();
    assert_eq!(durable(), 0);
    let slice = [IoSlice::new(b"now")];
    pwritev2(&file, &slice, 0, ReadWriteFlags::DSYNC).unwrap();
    assert_eq!(durable(), 1);
    pwritev2(&file, &slice, 0, ReadWriteFlags::SYNC).unwrap();
    assert_eq!(durable(), 2);
    file.write_all(b"soon").unwrap();
    assert_eq!(durable(), 2);
}

#[test]
fn pages_read_during_a_direct_write_go_before_it_ends() {
    use rustix::fs::{XattrFlags, fsetxattr};
    let Some(at) = Mounted::plain() else { return };
    let path = at.path("f");
    let writer = File::create(&path).unwrap();
    writer.write_all_at(b"old", 0).unwrap();
    let reader = File::open(&path).unwrap();
    at.tree.delay_ms.store(300, Ordering::Relaxed);
    fsetxattr(&reader, "user.slow-writes", b"", XattrFlags::empty()).unwrap();
    let told = || {
        let all = base::metrics::registry().snapshot();
        let found = all.iter().find(|one| one.name == "fuse.notifications");
        found.map(|one| format!("{:?}", one.value))
    };
    let before = told();
    let read = || {
        let mut bytes = [0; 3];
        reader.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| writer.write_all_at(b"new", 0).unwrap());
        // The kernel has dropped the page by now; this brings the old one back.
        std::thread::sleep(Duration::from_millis(100));
        let _either = read();
        writing.join().unwrap();
        assert_eq!(&read(), b"new");
    });
    // Newer kernels drop the page once more by themselves, if the writer waits.
    assert_ne!(told(), before, "the kernel is told");
}

#[test]
fn extended_attributes_pass() {
    let Some(at) = Mounted::plain() else { return };
    let file = at.path("f");
    fs::write(&file, b"").unwrap();
    use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
    setxattr(&file, "user.colour", b"blue", XattrFlags::CREATE).unwrap();
    assert!(setxattr(&file, "user.colour", b"red", XattrFlags::CREATE).is_err());
    let mut value = [0; 100];
    let len = getxattr(&file, "user.colour", &mut value).unwrap();
    assert_eq!(&value[..len], b"blue");
    assert_eq!(
        getxattr(&file, "user.colour", &mut [0; 2]),
        Err(rustix::io::Errno::RANGE)
    );
    let len = listxattr(&file, &mut value).unwrap();
    assert_eq!(&value[..len], b"user.colour\0");
    removexattr(&file, "user.colour").unwrap();
    assert_eq!(
        getxattr(&file, "user.colour", &mut value),
        Err(rustix::io::Errno::NODATA)
    );
}

#[test]
fn read_only_mounts_refuse() {
    let Some(at) = Mounted::new(&MountOptions {
        read_only: true,
        ..options()
    }) else {
        return;
    };
    assert_eq!(
        fs::write(at.path("f"), b"").unwrap_err().kind(),
        ErrorKind::ReadOnlyFilesystem
    );
}

#[test]
fn a_dead_mount_is_replaced() {
    // Leaves early where nothing can be mounted.
    let Some(_probe) = Mounted::plain() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let mut server = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "serve", "--ignored"])
        .env("MILLPOND_FUSE_SERVE", directory.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let is_mounted = || {
        let entries = sys::mounted_entries().unwrap();
        entries.iter().any(|entry| entry.path == directory.path())
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while !(is_mounted() && fs::write(directory.path().join("f"), b"x").is_ok()) {
        assert!(Instant::now() < deadline, "the server does not come up");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!sys::is_dead_mount(directory.path()));
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(sys::is_dead_mount(directory.path()));
    let mount = Mount::start(directory.path(), Memory::new(), &options()).unwrap();
    fs::write(directory.path().join("f"), b"x").unwrap();
    mount.unmount(UnmountMode::IfIdle).unwrap();
    assert!(!is_mounted());
}

#[test]
fn trees_inside_of_trees() {
    let Some(probe) = Mounted::plain() else {
        return;
    };
    drop(probe);
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let (first, second, third) = (Memory::new(), Memory::new(), Memory::new());
    let multiplexer = MountMultiplexer::new(first);
    let mount = Mount::start(directory.path(), multiplexer.clone(), &options()).unwrap();
    let session = mount.session();
    fs::create_dir_all(at("a/b")).unwrap();
    fs::write(at("a/b/covered"), b"covered").unwrap();
    fs::write(at("a/beside"), b"beside").unwrap();
    let root = TreeTag::FIRST;
    let missing = multiplexer.add(root, &[b"a", b"x"], second.clone(), session);
    assert_eq!(missing, Err(Errno::ENOENT));
    let inner = multiplexer
        .add(root, &[b"a", b"b"], second, session)
        .unwrap();
    assert_eq!(fs::read_dir(at("a/b")).unwrap().count(), 0);
    fs::write(at("a/b/f"), b"second").unwrap();
    fs::create_dir(at("a/b/c")).unwrap();
    let inmost = multiplexer.add(inner, &[b"c"], third, session).unwrap();
    fs::write(at("a/b/c/f"), b"third").unwrap();
    let seen = |name: &str| {
        let entries = fs::read_dir(at(name)).unwrap().map(|entry| {
            let entry = entry.unwrap();
            entry.metadata().unwrap();
            entry.file_name().into_string().unwrap()
        });
        let mut entries: Vec<_> = entries.collect();
        entries.sort();
        entries
    };
    for _ in 0..2 {
        assert_eq!(seen("a"), ["b", "beside"]);
        assert_eq!(seen("a/b"), ["c", "f"]);
        assert_eq!(seen("a/b/c"), ["f"]);
    }
    assert_eq!(fs::read(at("a/b/f")).unwrap(), b"second");
    assert_eq!(fs::read(at("a/b/c/../c/f")).unwrap(), b"third");
    let mut inodes = ["", "a", "a/b", "a/b/c", "a/b/f", "a/b/c/f", "a/beside"]
        .map(|name| fs::metadata(at(name)).unwrap().ino());
    inodes.sort_unstable();
    assert!(inodes.windows(2).all(|pair| pair[0] != pair[1]));
    let crossed = fs::rename(at("a/beside"), at("a/b/beside")).unwrap_err();
    assert_eq!(crossed.kind(), ErrorKind::CrossesDevices);
    assert_eq!(
        fs::hard_link(at("a/b/f"), at("a/f")).unwrap_err().kind(),
        ErrorKind::CrossesDevices
    );
    assert_eq!(
        fs::rename(at("a/b"), at("a/z")).unwrap_err().kind(),
        ErrorKind::ResourceBusy
    );
    assert_eq!(
        fs::remove_dir(at("a/b/c")).unwrap_err().kind(),
        ErrorKind::ResourceBusy
    );
    fs::copy(at("a/beside"), at("a/b/c/copy")).unwrap();
    assert_eq!(fs::read(at("a/b/c/copy")).unwrap(), b"beside");
    assert!(multiplexer.is_host(inner));
    multiplexer.remove(inmost, session);
    assert!(!multiplexer.is_host(inner));
    assert_eq!(seen("a/b/c"), [""; 0]);
    multiplexer.remove(inner, session);
    assert_eq!(seen("a/b"), ["covered"]);
    mount.unmount(UnmountMode::IfIdle).unwrap();
}

/// Not a test: serves at `$MILLPOND_FUSE_SERVE` until it is unmounted, to measure the protocol
/// without an engine (`cargo test --release -p millpond-fuse --test mount serve -- --ignored`).
#[test]
#[ignore = "serves a mount for measurements"]
fn serve() {
    let Some(path) = std::env::var_os("MILLPOND_FUSE_SERVE") else {
        println!("skipped: MILLPOND_FUSE_SERVE is not set");
        return;
    };
    let mount = Mount::start(Path::new(&path), Memory::new(), &options()).unwrap();
    while !mount.session().wait_ended(Duration::from_secs(3600)) {}
}
