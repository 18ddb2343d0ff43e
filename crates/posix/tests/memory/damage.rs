//! Blocks that cannot be read any more at any one moment of an operation: it has happened, or nothing has.

use std::collections::{BTreeMap, HashMap};

use base::ObjectId;
use millpond_posix::{
    AccessTime, AclKind, AllocateMode, Attributes, DatasetProperties, FileType, MountOptions,
    NewFileSystem, OpenFile, PosixError, QuotaKind, QuotaUnit, RenameMode, Result, SetAttributes,
    Visit, WriteOptions, XattrMode, XattrStore,
};

use crate::store::MemoryPool;
use crate::xattrs::{ACCESS, DEFAULT, acl};
use crate::{READ_WRITE, node, root};

/// So often no operation here reads.
const READS_MAX: u64 = 400;

/// What users see of a file.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    attributes: Attributes,
    contents: Vec<u8>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// What users see of a file system, and its objects.
#[derive(Debug, PartialEq)]
struct Picture {
    files: BTreeMap<String, Seen>,
    unlinked: u64,
    objects: Vec<u64>,
}

fn picture(pool: &MemoryPool) -> Picture {
    let fs = &pool.fs;
    let mut files: BTreeMap<String, Seen> = BTreeMap::new();
    let mut paths = HashMap::new();
    let mut waiting = vec![(String::new(), fs.root())];
    while let Some((path, object)) = waiting.pop() {
        if let Some(other) = paths.insert(object, path.clone()) {
            let seen = files[&other].clone();
            files.insert(path, seen);
            continue;
        }
        let mut attributes = fs.getattr(object).unwrap();
        // As of the last sync.
        attributes.blocks = 0;
        let mut contents = Vec::new();
        match attributes.file_type {
            FileType::Directory => {
                let mut add = |entry: &millpond_posix::DirectoryEntry<'_>| {
                    if !entry.name.starts_with(b".") {
                        let name = String::from_utf8_lossy(entry.name);
                        waiting.push((format!("{path}/{name}"), entry.object));
                    }
                    Visit::Continue
                };
                fs.readdir(&root(), object, 0, &mut add).unwrap();
            }
            FileType::Symlink => contents = fs.readlink(object).unwrap(),
            FileType::Regular => {
                let file = fs.open(&root(), object, READ_WRITE).unwrap();
                contents = vec![0; attributes.size as usize];
                assert_eq!(file.read(0, &mut contents).unwrap(), contents.len());
            }
            FileType::Fifo
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Socket => {}
        }
        let names = fs.listxattr(&root(), object).unwrap();
        let value = |name: Vec<u8>| {
            let value = fs.getxattr(&root(), object, &name).unwrap();
            (name, value)
        };
        let xattrs = names.into_iter().map(value).collect();
        let seen = Seen {
            attributes,
            contents,
            xattrs,
        };
        files.insert(path, seen);
    }
    let (objects, mut all, mut last) = (pool.objects(), Vec::new(), ObjectId(0));
    while let Some(next) = objects.next_object(last).unwrap() {
        all.push(next.0);
        last = next;
    }
    Picture {
        files,
        unlinked: fs.unlinked().unwrap(),
        objects: all,
    }
}

/// An operation, with what it needs open.
struct Case {
    name: &'static str,
    open: &'static [&'static str],
    does: fn(&MemoryPool, &[OpenFile]) -> Result<()>,
}

/// A new file system with one of everything, of which nothing is in memory.
fn pool(properties: DatasetProperties) -> MemoryPool {
    let options = MountOptions {
        access_time: Some(AccessTime::Off),
        ..MountOptions::default()
    };
    let mut pool = MemoryPool::new(NewFileSystem::default(), properties, options);
    fill(&pool);
    pool.remount(true);
    pool
}

/// More than a dnode has room for.
const LONG: [u8; 600] = [3; 600];
/// More than the attributes have room for.
static FAR_TOO_LONG: [u8; 40_000] = [4; 40_000];

/// So many long names that one more splits a leaf.
const MANY: u32 = 79;

fn long_name(number: u32) -> Vec<u8> {
    format!("{number:0>120}").into_bytes()
}

fn set(pool: &MemoryPool, path: &str, name: &[u8], value: &[u8]) -> Result<()> {
    let object = find(pool, path)?;
    pool.fs
        .setxattr(&root(), object, name, value, XattrMode::Either)
}

fn fill(pool: &MemoryPool) {
    let fs = &pool.fs;
    for directory in ["few", "many", "handing", "empty", "empty2", "marked"] {
        pool.directory(directory);
    }
    let (many, manifold) = (find(pool, "many").unwrap(), pool.file("manifold"));
    for number in 0..MANY {
        let name = long_name(number);
        fs.link(&root(), manifold.object(), many, &name).unwrap();
    }
    set(
        pool,
        "handing",
        DEFAULT,
        &acl(&[(1, 7, !0), (2, 5, 4), (4, 5, !0), (16, 5, !0), (32, 0, !0)]),
    )
    .unwrap();
    set(pool, "marked", b"user.note", &LONG).unwrap();
    for name in ["plain", "short", "linked", "spilled", "hidden", "listed"] {
        let file = pool.file(name);
        file.write(0, &[7; 10_000], WriteOptions::default())
            .unwrap();
        let owner = SetAttributes {
            permissions: Some(0o4755),
            ..SetAttributes::default()
        };
        fs.setattr(&root(), file.object(), &owner).unwrap();
    }
    fs.link(&root(), find(pool, "linked").unwrap(), fs.root(), b"link")
        .unwrap();
    set(pool, "spilled", b"user.note", &LONG).unwrap();
    set(pool, "hidden", b"user.note", &FAR_TOO_LONG).unwrap();
    set(pool, "hidden", b"user.other", b"short").unwrap();
    set(
        pool,
        "listed",
        ACCESS,
        &acl(&[(1, 7, !0), (2, 5, 4), (4, 5, !0), (16, 5, !0), (32, 0, !0)]),
    )
    .unwrap();
    // Layouts that only some of the operations need are there.
    drop(pool.file("gone"));
    set(pool, "gone", b"user.note", &FAR_TOO_LONG).unwrap();
    set(pool, "gone", b"user.other", &LONG).unwrap();
    fs.unlink(&root(), fs.root(), b"gone").unwrap();
    let (link, device) = (b"to/where/it/goes", node(FileType::Fifo, 0o600));
    fs.symlink(&root(), fs.root(), b"symlink", link).unwrap();
    fs.mknod(&root(), fs.root(), b"fifo", &device).unwrap();
    fs.set_quota(QuotaKind::User, QuotaUnit::Bytes, 5, 1 << 40)
        .unwrap();
    pool.sync();
}

fn find(pool: &MemoryPool, path: &str) -> Result<ObjectId> {
    let mut at = pool.fs.root();
    for name in path.split('/') {
        at = pool.fs.lookup(&root(), at, name.as_bytes())?.object;
    }
    Ok(at)
}

fn make(pool: &MemoryPool, directory: &str, name: &[u8], kind: FileType) -> Result<()> {
    let (at, fs) = (find(pool, directory)?, &pool.fs);
    let made = match kind {
        FileType::Directory => fs.mkdir(&root(), at, name, &node(kind, 0o755)),
        FileType::Symlink => fs.symlink(&root(), at, name, b"target"),
        FileType::Regular
        | FileType::Fifo
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Socket => fs.mknod(&root(), at, name, &node(kind, 0o644)),
    };
    made.map(drop)
}

fn rename(
    pool: &MemoryPool,
    from: (&str, &[u8]),
    to: (&str, &[u8]),
    mode: RenameMode,
) -> Result<()> {
    let at = |path| match path {
        "" => Ok(pool.fs.root()),
        path => find(pool, path),
    };
    let (from, to) = ((at(from.0)?, from.1), (at(to.0)?, to.1));
    pool.fs.rename(&root(), from, to, mode).map(drop)
}

fn change(pool: &MemoryPool, path: &str, change: SetAttributes) -> Result<()> {
    let object = find(pool, path)?;
    pool.fs.setattr(&root(), object, &change).map(drop)
}

fn unlink(pool: &MemoryPool, name: &[u8]) -> Result<()> {
    pool.fs.unlink(&root(), pool.fs.root(), name).map(drop)
}

fn case(
    name: &'static str,
    open: &'static [&'static str],
    does: fn(&MemoryPool, &[OpenFile]) -> Result<()>,
) -> Case {
    Case { name, open, does }
}

fn cases_of_new_names() -> Vec<Case> {
    vec![
        case("create", &[], |pool, _| {
            make(pool, "few", b"new", FileType::Regular)
        }),
        case("mkdir", &[], |pool, _| {
            make(pool, "few", b"new", FileType::Directory)
        }),
        case("symlink", &[], |pool, _| {
            make(pool, "few", b"new", FileType::Symlink)
        }),
        case("create under a long name", &[], |pool, _| {
            make(pool, "few", &long_name(1), FileType::Regular)
        }),
        case("create with access lists", &[], |pool, _| {
            make(pool, "handing", b"new", FileType::Directory)
        }),
        case("create in a spilled directory", &[], |pool, _| {
            make(pool, "marked", b"new", FileType::Regular)
        }),
        case("create without a name", &[], |pool, _| {
            let options = node(FileType::Regular, 0o644);
            let root_directory = pool.fs.root();
            let made = pool
                .fs
                .create_unnamed(&root(), root_directory, &options, READ_WRITE);
            made.map(drop)
        }),
        case("link", &[], |pool, _| {
            let (object, at) = (find(pool, "plain")?, find(pool, "few")?);
            pool.fs.link(&root(), object, at, b"new").map(drop)
        }),
        case("link of a spilled file", &[], |pool, _| {
            let (object, at) = (find(pool, "spilled")?, find(pool, "many")?);
            let name = long_name(10_000);
            pool.fs.link(&root(), object, at, &name).map(drop)
        }),
    ]
}

fn cases_of_removals() -> Vec<Case> {
    vec![
        case("unlink", &[], |pool, _| unlink(pool, b"plain")),
        case("unlink of an open file", &["plain"], |pool, _| {
            unlink(pool, b"plain")
        }),
        case("unlink of one link", &[], |pool, _| unlink(pool, b"link")),
        case("unlink of a spilled file", &["spilled"], |pool, _| {
            unlink(pool, b"spilled")
        }),
        case(
            "unlink of an open file with attributes",
            &["hidden"],
            |pool, _| unlink(pool, b"hidden"),
        ),
        case("unlink among many", &[], |pool, _| {
            let many = find(pool, "many")?;
            let name = long_name(3);
            pool.fs.unlink(&root(), many, &name).map(drop)
        }),
        case("rmdir", &[], |pool, _| {
            pool.fs.rmdir(&root(), pool.fs.root(), b"empty").map(drop)
        }),
    ]
}

fn cases_of_renames() -> Vec<Case> {
    use RenameMode::{Exchange, Replace, Whiteout};
    vec![
        case("rename", &[], |pool, _| {
            rename(pool, ("", b"plain"), ("", b"new"), Replace)
        }),
        case("rename elsewhere", &[], |pool, _| {
            rename(pool, ("", b"plain"), ("few", b"new"), Replace)
        }),
        case("rename among many", &[], |pool, _| {
            rename(
                pool,
                ("many", &long_name(3)),
                ("many", &long_name(3000)),
                Replace,
            )
        }),
        case("rename of a spilled file", &[], |pool, _| {
            rename(pool, ("", b"spilled"), ("marked", b"new"), Replace)
        }),
        case("rename of a directory", &[], |pool, _| {
            rename(pool, ("", b"empty"), ("few", b"new"), Replace)
        }),
        case("rename onto a file", &[], |pool, _| {
            rename(pool, ("", b"plain"), ("", b"short"), Replace)
        }),
        case("rename onto an open file", &["short"], |pool, _| {
            rename(pool, ("", b"plain"), ("", b"short"), Replace)
        }),
        case("rename onto one among many", &[], |pool, _| {
            rename(pool, ("", b"plain"), ("many", &long_name(3)), Replace)
        }),
        case("rename onto a directory", &[], |pool, _| {
            rename(pool, ("", b"empty"), ("", b"empty2"), Replace)
        }),
        case("exchange", &[], |pool, _| {
            rename(pool, ("", b"plain"), ("many", &long_name(3)), Exchange)
        }),
        case("exchange with a directory", &[], |pool, _| {
            rename(pool, ("", b"empty"), ("many", &long_name(3)), Exchange)
        }),
        case("whiteout", &[], |pool, _| {
            rename(pool, ("many", &long_name(3)), ("few", b"new"), Whiteout)
        }),
    ]
}

fn cases_of_attributes() -> Vec<Case> {
    vec![
        case("chmod", &[], |pool, _| {
            let permissions = Some(0o640);
            change(
                pool,
                "plain",
                SetAttributes {
                    permissions,
                    ..Default::default()
                },
            )
        }),
        case("chmod of a spilled file", &[], |pool, _| {
            let permissions = Some(0o222);
            change(
                pool,
                "spilled",
                SetAttributes {
                    permissions,
                    ..Default::default()
                },
            )
        }),
        case("chmod of a file with an access list", &[], |pool, _| {
            let permissions = Some(0o640);
            change(
                pool,
                "listed",
                SetAttributes {
                    permissions,
                    ..Default::default()
                },
            )
        }),
        case("chown", &[], |pool, _| {
            let uid = Some(5);
            change(
                pool,
                "hidden",
                SetAttributes {
                    uid,
                    ..Default::default()
                },
            )
        }),
    ]
}

fn cases_of_extended_attributes() -> Vec<Case> {
    vec![
        case("an attribute", &[], |pool, _| {
            set(pool, "plain", b"user.new", b"value")
        }),
        case("a long attribute", &[], |pool, _| {
            set(pool, "plain", b"user.new", &LONG)
        }),
        case("an attribute in a file", &[], |pool, _| {
            set(pool, "plain", b"user.new", &FAR_TOO_LONG)
        }),
        case("another attribute in a file", &[], |pool, _| {
            set(pool, "hidden", b"user.new", &FAR_TOO_LONG)
        }),
        case("another value in a file", &[], |pool, _| {
            set(pool, "hidden", b"user.note", &[1; 36_000])
        }),
        case("an attribute that moves inside", &[], |pool, _| {
            set(pool, "hidden", b"user.note", b"short")
        }),
        case("an attribute that moves outside", &[], |pool, _| {
            set(pool, "spilled", b"user.note", &FAR_TOO_LONG)
        }),
        case("an attribute that goes", &[], |pool, _| {
            let object = find(pool, "spilled")?;
            pool.fs.removexattr(&root(), object, b"user.note")
        }),
        case("an attribute in a file that goes", &[], |pool, _| {
            let object = find(pool, "hidden")?;
            pool.fs.removexattr(&root(), object, b"user.note")
        }),
        case("an access list", &[], |pool, _| {
            let list = acl(&[(1, 7, !0), (2, 1, 4), (4, 5, !0), (16, 7, !0), (32, 0, !0)]);
            set(pool, "spilled", ACCESS, &list)
        }),
        case("a limit", &[], |pool, _| {
            pool.fs
                .set_quota(QuotaKind::User, QuotaUnit::Bytes, 6, 1 << 30)
        }),
    ]
}

fn cases_of_contents() -> Vec<Case> {
    fn open(pool: &MemoryPool, name: &str) -> Result<OpenFile> {
        pool.fs.open(&root(), find(pool, name)?, READ_WRITE)
    }
    const KILLS: WriteOptions = WriteOptions {
        kill_set_id: true,
        append: false,
        at_offset: false,
        was_stored: false,
        keeps_times: false,
        was_promised: false,
        drop_capability: false,
        sync: false,
        uncommitted: false,
    };
    vec![
        case("a write", &[], |pool, _| {
            open(pool, "plain")?.write(5000, &[1; 100], KILLS).map(drop)
        }),
        case("a longer write", &[], |pool, _| {
            open(pool, "plain")?
                .write(5000, &[1; 9_000], KILLS)
                .map(drop)
        }),
        case("a write to a spilled file", &[], |pool, _| {
            open(pool, "spilled")?
                .write(9000, &[1; 9_000], KILLS)
                .map(drop)
        }),
        case("a truncation", &[], |pool, _| {
            let size = Some(5000);
            change(
                pool,
                "spilled",
                SetAttributes {
                    size,
                    kill_set_id: true,
                    ..Default::default()
                },
            )
        }),
        case("an extension", &[], |pool, _| {
            let size = Some(50_000);
            change(
                pool,
                "spilled",
                SetAttributes {
                    size,
                    ..Default::default()
                },
            )
        }),
        case("a hole", &[], |pool, _| {
            open(pool, "spilled")?.allocate(AllocateMode::PunchHole, 3000..9_000)
        }),
        case("a copy", &[], |pool, _| {
            let (from, to) = (open(pool, "plain")?, open(pool, "spilled")?);
            to.copy_from(&from, 0..10_000, 4096, KILLS).map(drop)
        }),
    ]
}

/// Has reads fail from every one on that an operation makes, and then lets it succeed.
fn try_all(properties: DatasetProperties, cases: Vec<Case>) {
    let mut faults = Vec::new();
    for case in cases {
        let mut pool = pool(properties);
        let before = picture(&pool);
        for reads in 0.. {
            assert!(reads < READS_MAX, "{} reads without end", case.name);
            pool.remount(false);
            let open: Vec<OpenFile> = case
                .open
                .iter()
                .filter_map(|name| {
                    let object = find(&pool, name).ok()?;
                    Some(pool.fs.open(&root(), object, READ_WRITE).unwrap())
                })
                .collect();
            pool.diary.take();
            pool.let_be_read(reads);
            let done = (case.does)(&pool, &open);
            pool.let_be_read(u64::MAX);
            let told = pool.diary.take();
            let Err(error) = done else {
                break;
            };
            assert!(
                error.is_damage() || matches!(error, PosixError::Stale),
                "{error}"
            );
            drop(open);
            let live = picture(&pool);
            pool.sync();
            pool.remount(false);
            let kept = picture(&pool);
            // What was taken back was told twice.
            let told: Vec<_> = told
                .into_iter()
                .filter(|all| *all != ["SetAttributes"])
                .collect();
            if !told.is_empty() || live != before || kept != before {
                let what = [(live != before, "live"), (kept != before, "kept")];
                let what: Vec<_> = what.iter().filter(|(is, _)| *is).collect();
                faults.push(format!(
                    "{}: {reads}: {told:?} {what:?}: {}",
                    case.name,
                    difference(&before, &kept)
                ));
                break;
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn difference(before: &Picture, after: &Picture) -> String {
    let mut all = String::new();
    let short = |seen: &Seen| {
        let of = &seen.attributes;
        format!(
            "{:o} {} {} {:?} {:?}",
            of.permissions, of.links, of.size, of.ctime, of.parent
        )
    };
    for (name, seen) in &before.files {
        match after.files.get(name) {
            None => all += &format!(" {name} is gone;"),
            Some(now) if now.attributes != seen.attributes => {
                all += &format!(" {name}: {} != {};", short(seen), short(now));
            }
            Some(now) if now != seen => all += &format!(" {name} differs;"),
            Some(_) => {}
        }
    }
    for name in after
        .files
        .keys()
        .filter(|name| !before.files.contains_key(*name))
    {
        all += &format!(" {name} is new;");
    }
    if before.objects != after.objects {
        let new = after
            .objects
            .iter()
            .filter(|id| !before.objects.contains(id));
        all += &format!(" objects {:?};", new.collect::<Vec<_>>());
    }
    all + &format!(" unlinked {} != {}", before.unlinked, after.unlinked)
}

fn properties(xattr: XattrStore) -> DatasetProperties {
    DatasetProperties {
        acl: AclKind::Posix,
        long_names: true,
        record_size: 4096,
        xattr,
        ..DatasetProperties::default()
    }
}

#[test]
fn new_names_are_there_whole_or_not_at_all() {
    try_all(
        properties(XattrStore::SystemAttribute),
        cases_of_new_names(),
    );
}

#[test]
fn removals_happen_whole_or_not_at_all() {
    try_all(properties(XattrStore::SystemAttribute), cases_of_removals());
}

#[test]
fn renames_happen_whole_or_not_at_all() {
    try_all(properties(XattrStore::SystemAttribute), cases_of_renames());
}

#[test]
fn attributes_change_whole_or_not_at_all() {
    let mut cases = cases_of_attributes();
    cases.extend(cases_of_extended_attributes());
    try_all(properties(XattrStore::SystemAttribute), cases);
}

#[test]
fn attributes_in_directories_change_whole_or_not_at_all() {
    let mut cases = cases_of_attributes();
    cases.extend(cases_of_extended_attributes());
    cases.extend(cases_of_new_names());
    try_all(properties(XattrStore::Directory), cases);
}

#[test]
fn contents_change_whole_or_not_at_all() {
    try_all(properties(XattrStore::SystemAttribute), cases_of_contents());
}
