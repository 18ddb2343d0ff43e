//! `millpond mkimage - IMAGE`: images from tar archives of all kinds, and as small as they can be.

use crate::make_image::{assert_same, is_root, make_tree, random, same_bytes};
use crate::session::{Session, path};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Makes an archive of a tree with the `tar` of this machine.
fn archive(session: &Session, tree: &Path, options: &str, to: &Path) {
    let script = format!("exec tar -C \"$1\" {options} -cf \"$2\" .");
    let made = session.shell(&script, &[path(tree), path(to)]);
    assert!(made.status.success(), "{options}: {made:?}");
}

fn from_pipe(session: &Session, archive: &Path, options: &str, image: &Path) -> (bool, String) {
    let script = format!("cat \"$1\" | \"$0\" mkimage {options} - \"$2\"");
    let made = session.shell(&script, &[path(archive), path(image)]);
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    (made.status.success(), said)
}

#[test]
fn an_archive_gives_the_image_that_its_directory_gives() {
    let Some(session) = Session::new() else {
        return;
    };
    let tree = make_tree(&session, "tree");
    fs::remove_file(tree.join("socket")).expect("archives have no sockets");
    let deep = tree
        .join("deep")
        .join("d".repeat(120))
        .join("e".repeat(200));
    fs::create_dir_all(&deep).expect("folders");
    fs::write(deep.join("f".repeat(250)), "long names").expect("written");
    std::os::unix::fs::symlink("t".repeat(300), deep.join("link")).expect("a link");
    fs::hard_link(deep.join("f".repeat(250)), deep.join("again")).expect("linked");
    let wanted = session.images().join("wanted.img");
    let how = ["--reproducible", "-n", "pond", "-O", "acltype=posix"];
    session.ok(&[&["mkimage"][..], &how, &[path(&tree), path(&wanted)]].concat());
    let how = how.join(" ");
    for options in [
        "--format=posix --xattrs --xattrs-include='*' --acls --numeric-owner",
        "--format=posix --xattrs --xattrs-include='*' --sparse --sort=name",
        "--format=posix --xattrs --xattrs-include='*' --sparse --sparse-version=0.0",
        "--format=posix --xattrs --xattrs-include='*' --sparse --sparse-version=0.1",
    ] {
        let from = session.images().join("tree.tar");
        archive(&session, &tree, options, &from);
        let image = session.images().join("made.img");
        let made = from_pipe(&session, &from, &how, &image);
        assert_eq!(made, (true, String::new()), "{options}");
        assert!(same_bytes(&wanted, &image), "{options}");
        fs::remove_file(&image).expect("removed");
        // A file that stands as the standard input is read where it is.
        let script = format!("exec \"$0\" mkimage {how} - \"$2\" < \"$1\"");
        let made = session.shell(&script, &[path(&from), path(&image)]);
        assert!(made.status.success(), "{made:?}");
        assert!(same_bytes(&wanted, &image), "{options}, as a file");
        fs::remove_file(&image).expect("removed");
    }
    // Older formats have whole seconds and no attributes: what remains is compared as files.
    for options in [
        "--format=gnu",
        "--format=gnu --sparse",
        "--format=oldgnu --sparse",
    ] {
        let from = session.images().join("tree.tar");
        archive(&session, &tree, options, &from);
        let image = session.images().join("made.img");
        let made = from_pipe(&session, &from, "", &image);
        assert_eq!(made, (true, String::new()), "{options}");
        let copied = session.mounts().join("copied");
        let unpacked = session.mounts().join("unpacked");
        fs::create_dir(&unpacked).expect("a folder");
        let told = session.shell(
            "exec tar -C \"$1\" -xpf \"$2\"",
            &[path(&unpacked), path(&from)],
        );
        assert!(told.status.success(), "{told:?}");
        let place = format!("{}:", image.display());
        session.ok(&["cp", "-r", "--trust", &place, path(&copied)]);
        assert_same(&unpacked, &copied);
        for gone in [&copied, &unpacked] {
            fs::remove_dir_all(gone).expect("removed");
        }
        fs::remove_file(&image).expect("removed");
    }
    let left = fs::read_dir(session.images()).expect("a folder").count();
    assert_eq!(
        left, 2,
        "nothing but the archive and the first image is left"
    );
}

#[test]
fn layers_and_odd_entries_of_archives() {
    let Some(session) = Session::new() else {
        return;
    };
    let tree = session.mounts().join("tree");
    fs::create_dir_all(tree.join("etc")).expect("folders");
    fs::write(tree.join("etc/one"), "first").expect("written");
    fs::write(tree.join("etc/.wh.gone"), "").expect("written");
    fs::write(tree.join("etc/.wh..wh..opq"), "").expect("written");
    let from = session.images().join("layer.tar");
    let make = |script: &str| {
        let made = session.shell(script, &[path(&tree), path(&from)]);
        assert!(made.status.success(), "{made:?}");
    };
    // No directories of their own, names that begin with a slash, and a later entry of the same name.
    make("cd \"$1\" && tar -cPf \"$2\" --transform 's,^,/,' etc/one etc/.wh.gone etc/.wh..wh..opq");
    fs::write(tree.join("etc/one"), "second").expect("written");
    make("cd \"$1\" && tar -rf \"$2\" etc/one");
    if is_root() {
        make("cd \"$1\" && mknod white c 0 0 && tar -rf \"$2\" white");
    }
    let image = session.images().join("layer.img");
    let made = from_pipe(&session, &from, "", &image);
    assert_eq!(made, (true, String::new()));
    let copied = session.mounts().join("copied");
    session.ok(&[
        "cp",
        "-r",
        "--trust",
        &format!("{}:", image.display()),
        path(&copied),
    ]);
    assert_eq!(fs::read(copied.join("etc/one")).expect("read"), b"second");
    assert!(copied.join("etc/.wh.gone").exists() && copied.join("etc/.wh..wh..opq").exists());
    let folder = fs::metadata(copied.join("etc")).expect("a folder");
    assert_eq!((folder.mode() & 0o7777, folder.uid()), (0o755, 0));
    if is_root() {
        let white = fs::symlink_metadata(copied.join("white")).expect("a whiteout");
        assert!(white.file_type().is_char_device() && white.rdev() == 0);
    }
    fs::remove_file(&image).expect("removed");

    // What leads out of the image, and links to nothing, are told and left out.
    make(
        "cd \"$1\" && ln etc/one etc/two && tar -cPf \"$2\" --transform 's,^etc/two,../two,' etc/one etc/two",
    );
    let (done, said) = from_pipe(&session, &from, "", &image);
    assert!(!done && said.contains("leads out of the archive"), "{said}");
    let listed = session.ok(&["ls", "-R", &format!("{}:", image.display())]);
    assert!(
        listed.contains("one") && !listed.contains("two"),
        "{listed}"
    );
}

#[test]
fn what_is_no_whole_archive_makes_no_image() {
    let Some(session) = Session::new() else {
        return;
    };
    let tree = session.mounts().join("tree");
    fs::create_dir(&tree).expect("a folder");
    fs::write(tree.join("large"), random(100_000, 7)).expect("written");
    fs::write(tree.join("more"), random(100_000, 8)).expect("written");
    let from = session.images().join("a.tar");
    let image = session.images().join("a.img");
    let refused = |bytes: &[u8], options: &str, reason: &str| {
        fs::write(&from, bytes).expect("written");
        let (done, said) = from_pipe(&session, &from, options, &image);
        assert!(!done && said.contains(reason), "{said}");
        let left = fs::read_dir(session.images()).expect("a folder").count();
        assert_eq!(left, 1, "{reason}: something is left");
    };
    archive(&session, &tree, "", &from);
    let whole = fs::read(&from).expect("read");
    refused(&whole[..150_000], "", "cut off");
    refused(&[], "", "not a tar archive");
    refused(&random(20_000, 9), "", "not a tar archive");
    refused(
        &[&[0x1f, 0x8b][..], &random(20_000, 9)].concat(),
        "",
        "gzip -dc",
    );
    let mut damaged = whole.clone();
    let second = damaged
        .windows(6)
        .rposition(|found| found == b"./more" || found == b"./larg");
    damaged[second.expect("a header")] ^= 1;
    refused(&damaged, "", "is damaged");
    refused(&whole, "--reproducible", "name the pool with '-n NAME'");
    // Not the archive is at fault where it cannot be kept.
    let (done, said) = from_pipe(&session, &from, "", Path::new("/proc/a.img"));
    let reason = "cannot make '/proc/a.img': the archive cannot be kept beside it: ";
    assert!(!done && said.contains(reason), "{said}");
}

#[test]
fn the_least_image_holds_its_files_and_little_else() {
    let Some(session) = Session::new() else {
        return;
    };
    for (name, megabytes) in [("small", 3), ("larger", 150)] {
        let tree = session.mounts().join(name);
        fs::create_dir(&tree).expect("a folder");
        fs::write(tree.join("noise"), random(megabytes << 20, 10)).expect("written");
        let image = session.images().join(format!("{name}.img"));
        session.ok(&["mkimage", "--size", "min", path(&tree), path(&image)]);
        let length = fs::metadata(&image).expect("the image").len() >> 20;
        // Half of a small pool is kept back, 128 MB of a larger one; no device has less than 64 MB.
        let bounds = match megabytes {
            3 => 64..=64,
            _ => 270..=310,
        };
        assert!(bounds.contains(&length), "{name}: {length} MB");
        if let Some(zdb) = golden::Zdb::from_environment() {
            zdb.assert_clean(&session.images(), name);
        }
        let copied = session.mounts().join(format!("{name}-copied"));
        session.ok(&[
            "cp",
            "-r",
            "--trust",
            &format!("{}:", image.display()),
            path(&copied),
        ]);
        assert_same(&tree, &copied);
    }
}
