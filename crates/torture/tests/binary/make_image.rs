//! `millpond mkimage`: what is in the image, the same bytes twice, and what it refuses.

use crate::session::{Session, path};
use base::random::{Rng, SeededRng};
use golden::describe_tree;
use rustix::fs::{CWD, FileType, Mode, XattrFlags, chownat, lsetxattr, mknodat};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

/// A POSIX access list as Linux passes it: version 2, then tag, permissions and id of each entry.
fn access_list() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] = [
        (0x01, 6, u32::MAX),
        (0x02, 6, 1234),
        (0x04, 4, u32::MAX),
        (0x10, 6, u32::MAX),
        (0x20, 4, u32::MAX),
    ];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

pub(crate) fn random(bytes: usize, seed: u64) -> Vec<u8> {
    let mut data = vec![0; bytes];
    SeededRng::new(seed).fill(&mut data);
    data
}

pub(crate) fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

/// A tree with one of everything that a user may make, and of everything that root may.
pub(crate) fn make_tree(session: &Session, name: &str) -> PathBuf {
    let tree = session.mounts().join(name);
    for folder in ["a/b/empty", "many", "with space"] {
        fs::create_dir_all(tree.join(folder)).expect("a folder");
    }
    fs::write(tree.join("a/x"), "hello\n").expect("written");
    fs::hard_link(tree.join("a/x"), tree.join("many/again")).expect("linked");
    symlink("../x", tree.join("a/b/link")).expect("a link");
    symlink("nowhere", tree.join("dangling")).expect("a link");
    fs::write(tree.join("large"), random(3 << 20, 1)).expect("written");
    fs::write(tree.join("zeros"), [vec![0; 1 << 20], vec![1]].concat()).expect("written");
    // Read after it was changed, which setting these times is as well: reading it again today leaves the access time
    // alone.
    let read = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    let changed = read - std::time::Duration::from_secs(3600);
    let empty = fs::File::create(tree.join("empty")).expect("made");
    empty
        .set_times(
            fs::FileTimes::new()
                .set_accessed(read)
                .set_modified(changed),
        )
        .expect("times");
    fs::write(tree.join("ümläut\n"), "odd").expect("written");
    for index in 0..300 {
        fs::write(tree.join(format!("many/{index}")), random(index, 2)).expect("written");
    }
    let sparse = fs::File::create(tree.join("sparse")).expect("made");
    sparse
        .write_all_at(&random(9000, 3), 3 << 20)
        .expect("written");
    sparse.write_all_at(b"x", 40 << 20).expect("written");
    sparse.set_len(64 << 20).expect("extended");
    let set = |name: &str, attribute: &str, value: &[u8]| {
        let outcome = lsetxattr(tree.join(name), attribute, value, XattrFlags::empty());
        // Not every file system that a test runs on has them.
        if let Err(error) = outcome {
            println!("{name}: no {attribute}: {error}");
        }
    };
    set("a/x", "user.one", b"1");
    set("a/x", "user.more", &random(2000, 4));
    set("a", "user.folder", b"of a folder");
    set("zeros", "system.posix_acl_access", &access_list());
    set("a/b", "system.posix_acl_default", &access_list());
    mknodat(CWD, tree.join("pipe"), FileType::Fifo, Mode::from(0o640), 0).expect("a pipe");
    drop(std::os::unix::net::UnixListener::bind(tree.join("socket")));
    if is_root() {
        add_what_root_may(&tree);
    }
    for (name, mode) in [("a/x", 0o4755), ("many", 0o2775), ("with space", 0o1777)] {
        fs::set_permissions(tree.join(name), fs::Permissions::from_mode(mode)).expect("chmod");
    }
    tree
}

/// Devices, and files that are others'.
fn add_what_root_may(tree: &Path) {
    let device = rustix::fs::makedev(1, 300);
    let mode = Mode::from(0o600);
    mknodat(
        CWD,
        tree.join("character"),
        FileType::CharacterDevice,
        mode,
        device,
    )
    .expect("a device");
    mknodat(CWD, tree.join("block"), FileType::BlockDevice, mode, device).expect("a device");
    for (name, user) in [("a/x", 1000), ("many", 1001), ("dangling", 70_000)] {
        let (user, group) = (
            rustix::fs::Uid::from_raw(user),
            rustix::fs::Gid::from_raw(user + 1),
        );
        chownat(
            CWD,
            tree.join(name),
            Some(user),
            Some(group),
            rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
        )
        .expect("given away");
    }
}

pub(crate) fn assert_same(wanted: &Path, found: &Path) {
    let differences = describe_tree(wanted).differences(&describe_tree(found));
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn an_image_has_what_the_directory_has() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let tree = make_tree(&session, "tree");
    let image = session.images().join("made.img");
    let arguments = ["-O", "acltype=posix", path(&tree), path(&image)];
    let said = session.ok(&[&["mkimage"][..], &arguments].concat());
    assert_eq!(said, "", "a pipe is told nothing");
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(&session.images(), "made");
    }
    let length = fs::metadata(&image).expect("the image").len();
    let allocated = fs::metadata(&image).expect("the image").blocks() * 512;
    assert!(allocated < 16 << 20 && length > 100 << 20, "it is sparse");
    let copied = session.mounts().join("copied");
    let from = format!("{}:", image.display());
    session.ok(&["cp", "-r", "--trust", &from, path(&copied)]);
    assert_same(&tree, &copied);

    session.import("made", &[]);
    let root = session.mount("made");
    assert_same(&tree, &root);
    let sparse = fs::metadata(root.join("sparse")).expect("the sparse file");
    assert!(sparse.blocks() * 512 < 1 << 20, "holes stay holes");
    let accessed = |tree: &Path| {
        let found = fs::metadata(tree.join("empty")).expect("a file");
        (found.atime(), found.atime_nsec())
    };
    assert_eq!(accessed(&root), accessed(&tree));
    let history = session.ok(&["zpool", "history", "made"]);
    assert!(history.contains("mkimage"), "{history}");
    session.export_clean("made");
}

/// Opens the session's folder to others, and says whether nobody can run the binary.
fn nobody_can_run_it(session: &Session) -> bool {
    let open = fs::Permissions::from_mode(0o755);
    let images = session.images();
    let folder = images.parent().expect("the session's folder");
    fs::set_permissions(folder, open).expect("chmod");
    let able = is_root() && as_nobody(session, &["--version"]).status.success();
    if !able {
        println!("skipped: the binary cannot be run as nobody");
    }
    able
}

fn as_nobody(session: &Session, arguments: &[&str]) -> Output {
    const DROP: &str = "exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$0\" \"$@\"";
    session.shell(DROP, arguments)
}

pub(crate) fn same_bytes(one: &Path, other: &Path) -> bool {
    fs::read(one).expect("an image") == fs::read(other).expect("an image")
}

/// Other places, hosts and users from which an image is made: what each is, and a script for the binary.
const ELSEWHERE: [(&str, &str); 2] = [
    (
        "one CPU, few files open",
        "ulimit -n 128; exec taskset -c 0 \"$0\" \"$@\"",
    ),
    (
        "nobody on another host",
        "exec unshare --uts sh -c 'hostname elsewhere; umask 077; exec env -i TZ=Asia/Kathmandu LC_ALL=de_DE.UTF-8 \
         HOME=/nowhere setpriv --reuid 65534 --regid 65534 --clear-groups \"$0\" \"$@\"' \"$0\" \"$@\"",
    ),
];

/// A copy of the tree on another file system, whose listings have another order; else beside it.
fn copy_elsewhere(session: &Session, tree: &Path) -> (PathBuf, Option<tempfile::TempDir>) {
    // Attributes that the place does not take make cp fail.
    const COPY: &str = "cp -a --preserve=xattr --sparse=never \"$1\" \"$2\"";
    let copy = |place: &Path| session.shell(COPY, &[path(tree), path(place)]);
    if let Ok(memory) = tempfile::tempdir_in("/dev/shm") {
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(memory.path(), open).expect("chmod");
        let place = memory.path().join("copy");
        if copy(&place).status.success() {
            return (place, Some(memory));
        }
    }
    let place = session.mounts().join("elsewhere");
    let copied = copy(&place);
    assert!(copied.status.success(), "{copied:?}");
    (place, None)
}

#[test]
fn the_same_contents_give_the_same_bytes() {
    let Some(session) = Session::new() else {
        return;
    };
    let tree = make_tree(&session, "tree");
    let name = std::ffi::OsStr::from_bytes(b"not\xffutf8");
    fs::write(tree.join(name), "odd").expect("written");
    let (second, _folder) = copy_elsewhere(&session, &tree);
    let open = session.mounts().join("open");
    fs::create_dir(&open).expect("a folder");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("chmod");
    let places = match nobody_can_run_it(&session) {
        true => &ELSEWHERE[..],
        false => &ELSEWHERE[..1],
    };
    for options in [
        &["-O", "acltype=posix"][..],
        &[
            "-O",
            "acltype=posix",
            "-O",
            "compression=off",
            "-O",
            "recordsize=8K",
            "-o",
            "ashift=12",
            "--size",
            "200M",
        ],
    ] {
        let make = |script: &str, tree: &Path, image: &Path| {
            let start = ["mkimage", "--reproducible", "-f", "-n", "pond"];
            let words = [&start[..], options, &[path(tree), path(image)]].concat();
            let output = session.shell(script, &words);
            assert!(output.status.success(), "{output:?}");
        };
        let first = session.images().join("pond.img");
        make("exec \"$0\" \"$@\"", &tree, &first);
        if let Some(zdb) = golden::Zdb::from_environment() {
            zdb.assert_clean(&session.images(), "pond");
        }
        // Another second, other access times.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        for (what, script) in places {
            for tree in [&tree, &second] {
                let other = open.join("other.img");
                make(script, tree, &other);
                assert!(
                    same_bytes(&first, &other),
                    "{options:?}, {what}, {}",
                    tree.display()
                );
                fs::remove_file(&other).expect("removed");
            }
        }
    }
}

#[test]
fn no_file_is_younger_than_the_epoch() {
    let Some(session) = Session::new() else {
        return;
    };
    let mut images = Vec::new();
    for (name, nanoseconds) in [
        ("one", 1_700_000_000_000_000_001_u64),
        ("two", 1_800_000_000_000_000_000),
    ] {
        let tree = session.mounts().join(name);
        fs::create_dir(&tree).expect("a folder");
        let file = fs::File::create(tree.join("file")).expect("a file");
        let old = fs::File::create(tree.join("old")).expect("a file");
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(nanoseconds);
        file.set_modified(time).expect("a time");
        old.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_nanos(5_000_000_007))
            .expect("a time");
        let image = session.images().join(format!("{name}.img"));
        let script =
            "SOURCE_DATE_EPOCH=1600000000 exec \"$0\" mkimage --reproducible -n pond \"$1\" \"$2\"";
        let output = session.shell(script, &[path(&tree), path(&image)]);
        assert!(output.status.success(), "{output:?}");
        images.push(image);
    }
    assert!(same_bytes(&images[0], &images[1]));
    let copied = session.mounts().join("copied");
    let from = format!("{}:", images[0].display());
    session.ok(&["cp", "-r", "--trust", &from, path(&copied)]);
    let time = |name: &str| {
        let found = fs::metadata(copied.join(name)).expect("a file");
        (found.mtime(), found.mtime_nsec())
    };
    assert_eq!(time("file"), (1_600_000_000, 0));
    assert_eq!(time("old"), (5, 7));
}

#[test]
fn what_cannot_be_made_leaves_nothing() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let tree = session.mounts().join("tree");
    fs::create_dir(&tree).expect("a folder");
    fs::write(tree.join("large"), random(48 << 20, 5)).expect("written");
    let image = session.images().join("pond.img");
    let (tree_text, image_text) = (path(&tree), path(&image));
    let refused = |arguments: &[&str], reason: &str| {
        let said = session.refused(&[&["mkimage"][..], arguments].concat());
        assert!(said.contains(reason), "{arguments:?}: {said}");
    };
    let left = || fs::read_dir(session.images()).expect("a folder").count();
    refused(&["/nowhere/at/all", image_text], "No such file");
    let nowhere = "'/nowhere/at/x.img': No such file or directory\n";
    refused(&[tree_text, "/nowhere/at/x.img"], nowhere);
    refused(&["--size", "64M", tree_text, image_text], "no space left");
    refused(
        &["--size", "64M", "--reproducible", tree_text, image_text],
        "no space left",
    );
    refused(&["--size", "1M", tree_text, image_text], "minimum size");
    refused(
        &["-n", "1st", tree_text, image_text],
        "must begin with a letter",
    );
    refused(&["-o", "bootfs=pond", tree_text, image_text], "bootfs");
    refused(&[tree_text, path(&tree.join("in.img"))], "inside");
    refused(&[path(&tree.join("large")), image_text], "not a directory");
    assert_eq!(left(), 0);

    fs::write(&image, "something else").expect("written");
    refused(&[tree_text, image_text], "exists");
    assert_eq!(fs::read(&image).expect("read"), b"something else");
    session.ok(&["mkimage", "-f", tree_text, image_text]);
    session.import("pond", &[]);
    let said = session.refused(&["mkimage", "-f", tree_text, image_text]);
    assert!(said.contains("is part of active pool 'pond'"), "{said}");
    assert_same(&tree, &session.mount("pond"));
    session.export_clean("pond");
    assert_eq!(fs::read_dir(session.images()).expect("a folder").count(), 1);
}

#[test]
fn of_images_that_are_made_at_once_one_has_the_name() {
    let Some(session) = Session::new() else {
        return;
    };
    let tree = session.mounts().join("tree");
    fs::create_dir(&tree).expect("a folder");
    fs::write(tree.join("file"), random(4 << 20, 7)).expect("written");
    let image = session.images().join("pond.img");
    let started = (0..4).map(|_| {
        let mut command = session.command(&["mkimage", path(&tree), path(&image)]);
        command.stderr(Stdio::piped()).stdout(Stdio::null());
        command.spawn().expect("it starts")
    });
    let started: Vec<_> = started.collect();
    let ended = started.into_iter();
    let ended = ended.map(|child| child.wait_with_output().expect("it ends"));
    let (made, refused): (Vec<_>, Vec<_>) = ended.partition(|output| output.status.success());
    assert_eq!(made.len(), 1, "{made:?} {refused:?}");
    for output in refused {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let reason = format!("cannot make '{}': it exists\n", path(&image));
        assert!(said.contains(&reason), "{said}");
    }
    assert_eq!(fs::read_dir(session.images()).expect("a folder").count(), 1);
}

#[test]
fn what_cannot_be_read_is_said_and_left_out() {
    let Some(session) = Session::new() else {
        return;
    };
    let tree = session.mounts().join("tree");
    fs::create_dir_all(tree.join("shut")).expect("a folder");
    fs::write(tree.join("shut/inside"), "x").expect("written");
    fs::write(tree.join("secret"), "x").expect("written");
    fs::write(tree.join("plain"), "x").expect("written");
    for name in ["shut", "secret"] {
        fs::set_permissions(tree.join(name), fs::Permissions::from_mode(0o000)).expect("chmod");
    }
    let images = session.images();
    fs::set_permissions(&images, fs::Permissions::from_mode(0o777)).expect("chmod");
    let image = images.join("pond.img");
    if !nobody_can_run_it(&session) {
        return;
    }
    let output = as_nobody(&session, &["mkimage", path(&tree), path(&image)]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(said.contains("tree/secret: Permission denied"), "{said}");
    assert!(said.contains("tree/shut: Permission denied"), "{said}");
    let list = session.ok(&["ls", "-R", &format!("{}:pond", image.display())]);
    assert!(list.contains("plain") && list.contains("shut"), "{list}");
    assert!(
        !list.contains("secret") && !list.contains("inside"),
        "{list}"
    );
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(&images, "pond");
    }
}

#[test]
fn an_image_is_as_large_as_it_needs_to_be() {
    let Some(session) = Session::new() else {
        return;
    };
    let tree = session.mounts().join("tree");
    fs::create_dir(&tree).expect("a folder");
    fs::write(tree.join("large"), random(24 << 20, 6)).expect("written");
    for index in 0..2000 {
        let file = tree.join(format!("{index}"));
        fs::write(&file, random(100, index)).expect("written");
        let _ = lsetxattr(&file, "user.name", b"value", XattrFlags::empty());
    }
    for (index, options) in [
        &[
            "-o",
            "ashift=12",
            "-O",
            "recordsize=512",
            "-O",
            "compression=off",
        ][..],
        &[
            "-o",
            "ashift=13",
            "-O",
            "copies=3",
            "-O",
            "xattr=dir",
            "-O",
            "dnodesize=16k",
        ],
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("pond{index}");
        let image = session.images().join(format!("{name}.img"));
        let places = [path(&tree), path(&image)];
        session.ok(&[&["mkimage"][..], options, &places].concat());
        if let Some(zdb) = golden::Zdb::from_environment() {
            zdb.assert_clean(&session.images(), &name);
        }
    }
}

#[test]
fn a_reproducible_image_does_not_know_its_own_name() {
    let Some(session) = Session::new() else {
        return;
    };
    let tree = session.images().join("docs");
    fs::create_dir(&tree).expect("made");
    fs::write(tree.join("file"), "text").expect("written");
    let made: Vec<Vec<u8>> = ["one.img", "two.img"]
        .map(|name| {
            let image = session.images().join(name);
            session.ok(&["mkimage", "--reproducible", path(&tree), path(&image)]);
            fs::read(image).expect("read")
        })
        .into();
    assert!(made[0] == made[1], "the bytes differ");
    let listed = session.ok(&[
        "tree",
        "-d",
        &format!("{}:", path(&session.images().join("two.img"))),
    ]);
    assert!(listed.starts_with("docs"), "{listed}");
}

#[test]
fn an_image_is_encrypted_with_the_key_that_is_given() {
    let Some(session) = Session::new() else {
        return;
    };
    let tree = make_tree(&session, "tree");
    let key = session.mounts().join("key");
    fs::write(&key, random(32, 77)).expect("a key");
    let location = format!("keylocation=file://{}", path(&key));
    let image = session.images().join("sealed.img");
    let sealed = [
        "-O",
        "encryption=on",
        "-O",
        "keyformat=raw",
        "-O",
        &location,
        "-O",
        "acltype=posix",
    ];
    let line = [&["mkimage"][..], &sealed, &[path(&tree), path(&image)]].concat();
    session.ok(&line);
    let place = format!("{}:", path(&image));
    let told = session.refused(&["cat", &format!("{place}/a/x")]);
    assert!(told.contains("encrypted"), "{told}");
    let keys = format!("file://{}", path(&key));
    let read = session.ok(&["cat", "--keys", &keys, &format!("{place}/a/x")]);
    assert_eq!(read, "hello\n");
    // The same bytes twice it cannot be, nor can the key come from where the archive does.
    let again = [
        &["mkimage", "-f", "--reproducible"][..],
        &sealed,
        &line[line.len() - 2..],
    ]
    .concat();
    assert!(session.refused(&again).contains("differs each time"));
    let typed = ["-O", "encryption=on", "-O", "keyformat=passphrase"];
    let archived = [&["mkimage", "-f"][..], &typed, &["-", path(&image)]].concat();
    let told = session.given("no archive", &archived);
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.contains("has the archive, not the key"), "{told}");
}
