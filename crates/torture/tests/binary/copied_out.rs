//! `millpond cp -r` and `ls` of images that hold several datasets, and `cp` into them.

use crate::session::{Session, path};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A pool `tank` with file systems `a` and `a/b`, a file in each, and a snapshot `s` of all; exported.
fn pool(session: &mut Session) {
    session.create("tank", 96, &[]);
    session.ok(&["zfs", "create", "-p", "tank/a/b"]);
    for place in ["", "a", "a/b"] {
        let file = session.mount("tank").join(place).join("file");
        fs::write(file, format!("in tank/{place}")).expect("written");
    }
    session.ok(&["zfs", "snapshot", "-r", "tank@s"]);
    fs::write(session.mount("tank/a").join("later"), "").expect("written");
}

fn assert_whole(copy: &Path) {
    for place in ["", "a", "a/b"] {
        let text = fs::read_to_string(copy.join(place).join("file"));
        assert_eq!(text.expect("copied"), format!("in tank/{place}"));
    }
}

#[test]
fn a_recursive_copy_has_the_datasets_below() {
    let Some(mut session) = Session::new() else {
        return;
    };
    pool(&mut session);
    session.export("tank");
    let out = session.mounts().join("out");
    let image = session.images().join("tank.img");
    let from = |place: &str| format!("{}:{place}", path(&image));
    session.ok(&["cp", "-r", &from(""), path(&out)]);
    assert_whole(&out);
    assert!(out.join("a/later").exists());
    // Into a directory that is there, from a snapshot.
    session.ok(&["cp", "-r", &from("tank@s"), path(&session.mounts())]);
    let copy = session.mounts().join("tank@s");
    assert_whole(&copy);
    assert!(!copy.join("a/later").exists());
    let alone = session.mounts().join("alone");
    session.ok(&["cp", "-rx", &from(""), path(&alone)]);
    assert!(alone.join("file").exists() && !alone.join("a/file").exists());
    // Only what is below what is named; a directory has nothing below it.
    let part = session.mounts().join("part");
    session.ok(&["cp", "-r", &from("tank/a"), path(&part)]);
    assert!(part.join("b/file").exists());

    let listed = session.run(&["ls", &from("/a")]);
    let said = String::from_utf8_lossy(&listed.stderr);
    assert!(listed.status.success(), "{listed:?}");
    assert!(
        said.contains("a mount point; what is in the dataset is listed as IMAGE:tank/a"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_copied_along_makes_the_copy_fail() {
    let Some(mut session) = Session::new() else {
        return;
    };
    pool(&mut session);
    // Where a mount point would be there is a link out of the copy.
    let outside = session.mounts().join("outside");
    fs::create_dir(&outside).expect("made");
    session.ok(&["zfs", "unmount", "tank/a"]);
    let place = session.mount("tank").join("a");
    fs::remove_dir(&place).expect("removed");
    symlink(&outside, &place).expect("linked");
    session.export("tank");
    let out = session.mounts().join("out");
    let from = format!("{}:", path(&session.images().join("tank.img")));
    let refused = session.refused(&["cp", "-r", &from, path(&out)]);
    assert!(refused.contains("out/a"), "{refused}");
    assert_eq!(fs::read_dir(&outside).expect("read").count(), 0);
    let file = fs::read_to_string(out.join("file"));
    assert_eq!(file.expect("the rest is copied"), "in tank/");
}

/// The image of a whole disk: a table of partitions, and the image of a pool in one of them.
fn disk(pool: &[u8], table: impl Fn(&mut [u8], u64)) -> Vec<u8> {
    const START: usize = 1 << 20;
    let mut disk = vec![0; START];
    table(&mut disk, (pool.len() / 512) as u64);
    disk.extend_from_slice(pool);
    disk.resize(disk.len() + START, 0);
    disk
}

fn put(disk: &mut [u8], at: usize, bytes: &[u8]) {
    disk[at..at + bytes.len()].copy_from_slice(bytes);
}

#[test]
fn pools_in_partitions_of_an_image_are_found() {
    let Some(session) = Session::new() else {
        return;
    };
    let tree = session.images().join("docs");
    fs::create_dir(&tree).expect("made");
    fs::write(tree.join("file"), "text").expect("written");
    let image = session.images().join("docs.img");
    session.ok(&["mkimage", "--size", "64M", path(&tree), path(&image)]);
    let pool = fs::read(&image).expect("read");
    let mbr = |disk: &mut [u8], sectors: u64| {
        put(disk, 446 + 4, &[0xBF]);
        put(disk, 446 + 8, &2048_u32.to_le_bytes());
        put(disk, 446 + 12, &(sectors as u32).to_le_bytes());
        put(disk, 510, &[0x55, 0xAA]);
    };
    let gpt = |disk: &mut [u8], sectors: u64| {
        put(disk, 510, &[0x55, 0xAA]);
        put(disk, 512, b"EFI PART");
        put(disk, 512 + 72, &2_u64.to_le_bytes());
        put(disk, 512 + 80, &128_u32.to_le_bytes());
        put(disk, 512 + 84, &128_u32.to_le_bytes());
        // The second of the table; the first is not a pool's.
        for (entry, first, last) in [(0, 40, 60), (1, 2048, 2047 + sectors)] {
            put(disk, 1024 + entry * 128, &[7; 16]);
            put(disk, 1024 + entry * 128 + 32, &u64::to_le_bytes(first));
            put(disk, 1024 + entry * 128 + 40, &u64::to_le_bytes(last));
        }
    };
    // In an extended partition, behind another one.
    let extended = |disk: &mut [u8], sectors: u64| {
        let entry = |disk: &mut [u8], at: usize, kind: u8, first: u32, count: u32| {
            put(disk, at + 4, &[kind]);
            put(disk, at + 8, &first.to_le_bytes());
            put(disk, at + 12, &count.to_le_bytes());
        };
        entry(disk, 446, 5, 64, 1 << 20);
        entry(disk, 64 * 512 + 446, 0x83, 1, 8);
        entry(disk, 64 * 512 + 446 + 16, 5, 64, 1 << 20);
        entry(disk, 128 * 512 + 446, 0xBF, 2048 - 128, sectors as u32);
        for table in [0, 64, 128] {
            put(disk, table * 512 + 510, &[0x55, 0xAA]);
        }
    };
    let place = session.images().join("disk.img");
    for whole in [disk(&pool, mbr), disk(&pool, gpt), disk(&pool, extended)] {
        fs::write(&place, whole).expect("written");
        let file = session.ok(&["cat", &format!("{}:docs/file", path(&place))]);
        assert_eq!(file, "text");
        session.ok(&["inspect", "--verify", path(&place)]);
    }
}

#[test]
fn files_are_copied_into_an_image() {
    let Some(mut session) = Session::new() else {
        return;
    };
    pool(&mut session);
    session.ok(&["zfs", "set", "acltype=posix", "tank"]);
    session.export("tank");
    let tree = crate::make_image::make_tree(&session, "tree");
    let image = session.images().join("tank.img");
    let at = |place: &str| format!("{}:{place}", path(&image));
    let out = |session: &Session, place: &str| {
        let out = session.mounts().join("out");
        let _ = fs::remove_dir_all(&out);
        session.ok(&["cp", "-rx", "--trust", &at(place), path(&out)]);
        out
    };
    let one = tree.join("a/x");
    // Under its own name into a directory, or under another.
    session.ok(&["cp", path(&one), &at("")]);
    session.ok(&["cp", path(&one), &at("tank/a/b/other")]);
    assert_eq!(session.ok(&["cat", &at("/x")]), "hello\n");
    assert_eq!(session.ok(&["cat", &at("tank/a/b/other")]), "hello\n");
    // Whole trees, and what is in them.
    session.ok(&["cp", "-r", path(&tree), &at("tank/a")]);
    crate::make_image::assert_same(&tree, &out(&session, "tank/a/tree"));
    session.ok(&[
        "zpool",
        "import",
        "-d",
        path(&session.images()),
        "-N",
        "tank",
    ]);
    session.ok(&["zfs", "create", "tank/c"]);
    // An image that is imported is somebody's.
    let said = session.refused(&["cp", path(&one), &at("/y")]);
    assert!(said.contains("in use"), "{said}");
    session.export_clean("tank");
    session.ok(&["cp", "-r", &format!("{}/.", path(&tree)), &at("tank/c")]);
    crate::make_image::assert_same(&tree, &out(&session, "tank/c"));
    // What is there stays, unless it is to be replaced.
    fs::write(&one, "second").expect("written");
    let said = session.refused(&["cp", path(&one), &at("")]);
    assert!(said.contains("there already"), "{said}");
    session.ok(&["cp", "-f", path(&one), &at("")]);
    assert_eq!(session.ok(&["cat", &at("/x")]), "second");
    session.ok(&["cp", "-rf", path(&tree), &at("tank/a")]);
    crate::make_image::assert_same(&tree, &out(&session, "tank/a/tree"));

    for (words, reason) in [
        (&["cp", path(&tree), &at("")][..], "use '-r'"),
        (
            &["cp", path(&one), &at("tank@s/z")],
            "a snapshot does not change",
        ),
        (&["cp", path(&one), &at("tank/none/z")], "tank:/none"),
        (&["cp", path(&one), &at("lake/z")], "no such pool"),
        (&["cp", "/nowhere/at/all", &at("")], "No such file"),
        (
            &["cp", path(&one), path(&tree), &at("/x")],
            "not a directory",
        ),
    ] {
        let said = session.refused(words);
        assert!(said.contains(reason), "{words:?}: {said}");
    }
    session.import("tank", &[]);
    session.export_clean("tank");
}

/// Of what does not fit nothing is left, and what it was to replace is there.
#[test]
fn what_does_not_fit_into_an_image_leaves_nothing_and_replaces_nothing() {
    let Some(mut session) = Session::new() else {
        return;
    };
    pool(&mut session);
    let root = session.mount("tank");
    fs::write(root.join("x"), "first").expect("written");
    session.export("tank");
    let image = session.images().join("tank.img");
    let at = |place: &str| format!("{}:{place}", path(&image));
    let tree = session.images().join("tree");
    fs::create_dir(&tree).expect("made");
    fs::write(tree.join("a"), "fits").expect("written");
    let large = tree.join("too-large");
    fs::write(&large, crate::make_image::random(120 << 20, 3)).expect("written");
    for words in [
        &["cp", path(&large), &at("")][..],
        &["cp", "-f", path(&large), &at("/x")],
        &["cp", "-r", path(&tree), &at("")],
        &["cp", "-rf", path(&tree), &at("")],
    ] {
        let output = session.run(words);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        let told = format!("no space left: the copy ended at '{}'", path(&large));
        assert!(said.contains(&told), "{said}");
    }
    session.import("tank", &[]);
    assert_eq!(fs::read(root.join("x")).expect("read"), b"first");
    assert_eq!(fs::read(root.join("tree/a")).expect("read"), b"fits");
    for folder in [root.clone(), root.join("tree")] {
        let entries = fs::read_dir(&folder).expect("listed").flatten();
        let names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        let is_left = |name: &std::ffi::OsString| {
            let name = name.to_string_lossy();
            name == "too-large" || name.starts_with(".millpond")
        };
        assert!(!names.iter().any(is_left), "{names:?}");
    }
    session.export_clean("tank");
}

/// The same where files come to: a host that has no room.
#[test]
fn what_does_not_fit_outside_leaves_nothing_and_replaces_nothing() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    let root = session.mount("tank");
    fs::write(root.join("large"), crate::make_image::random(8 << 20, 3)).expect("written");
    fs::write(root.join("small"), "small").expect("written");
    session.ok(&["zfs", "create", "-s", "-V", "16M", "tank/volume"]);
    session.export("tank");
    let image = session.images().join("tank.img");
    let inside = format!(
        "{}; mount -t tmpfs -o size=1m none \"$2\" || exit 77; cd \"$2\"; mkdir new old; echo old > old/large; \
         for to in new old; do \"$0\" cp -f \"$1:/large\" \"$1:/small\" $to; echo $?; ls -A $to; done; cat old/large",
        session.let_go_of_others()
    );
    let script = "inside=$1; shift; exec unshare -m sh -c \"$inside\" \"$0\" \"$@\"";
    let place = session.mounts().join("little");
    fs::create_dir(&place).expect("made");
    let _making = Session::making_a_namespace();
    let output = session.shell(script, &[&inside, path(&image), path(&place)]);
    if output.status.code() == Some(77) {
        println!("skipped: nothing can be mounted here");
        return;
    }
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        said.matches("large: No space left on device\n").count(),
        2,
        "{said}"
    );
    let listed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(listed, "1\nsmall\n1\nlarge\nsmall\nold\n", "{said}");
}

#[test]
fn what_cannot_be_read_replaces_nothing() {
    let Some(session) = Session::new() else {
        return;
    };
    let (folder, tree) = (session.images(), session.mounts().join("tree"));
    let (image, secret) = (folder.join("tank.img"), tree.join("x"));
    fs::create_dir(&tree).expect("made");
    fs::write(&secret, "first").expect("written");
    session.ok(&["mkimage", path(&tree), path(&image)]);
    fs::write(&secret, "second").expect("written");
    for (place, mode) in [(&secret, 0o600), (&image, 0o666), (&folder, 0o777)] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(place, mode).expect("chmod");
    }
    let to = format!("{}:", path(&image));
    let Some(output) = session.as_user(65534, &["cp", "-f", path(&secret), &to]) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("Permission denied"), "{said}");
    assert_eq!(session.ok(&["cat", &format!("{to}/x")]), "first");
}

#[test]
fn the_place_in_an_image_is_what_was_named() {
    let Some(session) = Session::new() else {
        return;
    };
    let (image, tree) = (session.images().join("tank.img"), session.mounts());
    session.ok(&["mkimage", path(&tree), path(&image)]);
    let file = tree.join("mail");
    fs::write(&file, "kept").expect("written");
    let to = format!("{}:tank//me@home", path(&image));
    session.ok(&["cp", path(&file), &to]);
    assert_eq!(session.ok(&["cat", &to]), "kept");
    let of_another = format!("{}:lake//mail", path(&image));
    let said = session.refused(&["cp", path(&file), &of_another]);
    let reason = "cannot open 'lake': no such pool\npools that are there: tank\n";
    assert!(said.ends_with(reason), "{said}");
    let snapshot = format!("{}:tank@home//mail", path(&image));
    let said = session.refused(&["cp", path(&file), &snapshot]);
    assert!(said.contains("a snapshot does not change"), "{said}");
}
