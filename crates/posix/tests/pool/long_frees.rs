//! The thread that frees long files without names.

use millpond_posix::{
    Credentials, DatasetProperties, FileSystem, FileType, MountOptions, NewFileSystem, NewNode,
    OpenOptions,
};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
const BLOCKS: usize = 64;

/// Of the fields of a thread's `stat` that follow its name: the number of its policy.
const POLICY: usize = 38;
const SCHED_BATCH: &str = "3";

/// The policy of this process's thread of that name.
fn policy(name: &str) -> Option<String> {
    let stat_of = |folder: PathBuf| {
        // A thread may have ended meanwhile.
        let its_name = std::fs::read_to_string(folder.join("comm")).ok()?;
        let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
        let (_, fields) = stat.rsplit_once(") ")?;
        let policy = fields.split(' ').nth(POLICY)?;
        (its_name.trim_end() == name).then(|| policy.to_owned())
    };
    let mut tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks.find_map(|task| stat_of(task.unwrap().path()))
}

fn soon(is_so: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !is_so() && begun.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    is_so()
}

/// It waits for the next txg, as this one may free no more and does not end.
#[test]
fn long_files_are_freed_in_the_background() {
    let folder = tempfile::tempdir().unwrap();
    let pool = super::create(folder.path(), NewFileSystem::default());
    let properties = DatasetProperties {
        record_size: 512,
        ..DatasetProperties::default()
    };
    let options = MountOptions {
        frees_in_background: true,
        ..MountOptions::default()
    };
    let fs = FileSystem::mount(super::source(&pool, "pond", properties).0, options).unwrap();
    let root = Credentials::root();
    let node = NewNode {
        file_type: FileType::Regular,
        permissions: 0o644,
        umask: 0o022,
        device: (0, 0),
    };
    let made = fs.mknod(&root, fs.root(), b"long", &node).unwrap();
    let options = OpenOptions {
        write: true,
        ..OpenOptions::default()
    };
    let file = fs.open(&root, made.object, options).unwrap();
    file.write(0, &[7; BLOCKS * 512], Default::default())
        .unwrap();
    fs.sync().unwrap();
    drop(fs.unlink(&root, fs.root(), b"long").unwrap());
    let hold = pool.engine().unwrap().hold().unwrap();
    let limits = [
        &dmu::tunables::FREE_BLOCKS_PIECE,
        &dmu::tunables::FREE_BLOCKS_TXG,
    ];
    limits.iter().for_each(|limit| limit.set(4));
    drop(file);
    let is_in_background = soon(|| policy("unlinked").is_some_and(|policy| policy == SCHED_BATCH));
    limits.iter().for_each(|limit| limit.reset());
    drop(hold);
    assert!(is_in_background);
    assert!(soon(|| fs.unlinked().unwrap() == 0));
    fs.unmount().unwrap();
    pool.export().unwrap();
}
