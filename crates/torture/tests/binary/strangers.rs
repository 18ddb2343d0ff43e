//! Pools that somebody else may have made: what they mount covers nothing unasked, and gives nobody rights.

use crate::session::{Session, path};
use format::config::keys;
use format::label;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

/// A user of no system.
const SOMEBODY: u32 = 54_321;

/// What the kernel says of the mount at a path.
fn flags(at: &Path) -> String {
    let table = fs::read_to_string("/proc/self/mountinfo").expect("a mount table");
    let line = table
        .lines()
        .find(|line| line.split(' ').nth(4) == Some(path(at)));
    line.and_then(|line| line.split(' ').nth(5))
        .unwrap_or("not mounted")
        .to_owned()
}

/// Imports the pool `tank`; what was said of it.
fn import(session: &Session, options: &[&str]) -> String {
    let (images, mounts) = (session.images(), session.mounts());
    let mut arguments = vec!["zpool", "import", "-d", path(&images), "-R", path(&mounts)];
    arguments.extend(options);
    arguments.push("tank");
    let output = session.run(&arguments);
    assert!(output.status.success(), "{output:?}");
    // Nobody asked for anything: what is to be known is a notice.
    assert_eq!(output.stdout, b"", "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn an_image_of_another_user_gives_no_rights_and_covers_nothing() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    let image = session.images().join("tank.img");
    if fs::metadata(&image).expect("an image").uid() != 0 {
        println!("skipped: only root gives images away");
        return;
    }
    let mount = session.mount("tank");
    session.ok(&["zfs", "create", "tank/child"]);
    session.ok(&["zfs", "unmount", "tank/child"]);
    // Where the child's mount point is there is a way out.
    let outside = session.mounts().join("outside");
    fs::create_dir(&outside).expect("made");
    fs::remove_dir(mount.join("child")).expect("removed");
    symlink(&outside, mount.join("child")).expect("linked");
    session.export("tank");
    let own = import(&session, &[]);
    assert!(!own.contains("if you trust it"), "{own}");
    assert!(!flags(&mount).contains("nosuid"), "{}", flags(&mount));
    assert!(own.contains("leads through a symbolic link"), "{own}");
    assert_eq!(flags(&outside), "not mounted");
    session.ok(&["zpool", "export", "tank"]);

    std::os::unix::fs::chown(&image, Some(SOMEBODY), Some(SOMEBODY)).expect("given away");
    let strange = import(&session, &[]);
    assert!(strange.contains("if you trust it"), "{strange}");
    let options = flags(&mount);
    assert!(
        options.contains("nosuid") && options.contains("nodev"),
        "{options}"
    );
    // A change of properties does not lift that.
    session.ok(&["zfs", "set", "setuid=on", "devices=on", "tank"]);
    assert_eq!(flags(&mount), options);
    // What comes to lie over files of this system is refused, unless somebody says so.
    let full = session.mounts().join("full");
    fs::create_dir(&full).expect("made");
    fs::write(full.join("file"), "").expect("written");
    let output = session.run(&["zfs", "create", "-o", "mountpoint=/full", "tank/full"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("is not empty") && said.contains("zfs mount -O tank/full"),
        "{said}"
    );
    assert_eq!(flags(&full), "not mounted");
    session.ok(&["zfs", "mount", "-O", "tank/full"]);
    assert!(flags(&full).contains("nosuid"));
    // Below the pool's own file systems it may cover what they have.
    session.ok(&["zfs", "create", "-o", "canmount=noauto", "tank/inner"]);
    fs::create_dir_all(mount.join("inner/folder")).expect("made");
    session.ok(&["zfs", "mount", "tank/inner"]);
    session.ok(&["zpool", "export", "tank"]);

    let trusted = import(&session, &["-o", "setuid,devices"]);
    assert!(!trusted.contains("if you trust it"), "{trusted}");
    let options = flags(&mount);
    assert!(
        !options.contains("nosuid") && !options.contains("nodev"),
        "{options}"
    );
    session.ok(&["zpool", "export", "tank"]);
}

#[test]
fn a_copy_gives_no_rights_that_nobody_asked_for() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    let image = session.images().join("tank.img");
    if fs::metadata(&image).expect("an image").uid() != 0 {
        println!("skipped: only root could give rights away");
        return;
    }
    let program = session.mount("tank").join("program");
    fs::write(&program, "#!/bin/sh").expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o6755)).expect("set");
    let node = session.mount("tank").join("null");
    let made = session.shell("mknod \"$1\" c 1 3", &[path(&node)]);
    assert!(made.status.success(), "{made:?}");
    session.export("tank");
    let from = format!("{}:", path(&image));
    let out = session.mounts().join("out");
    let said = session.refused(&["cp", "-r", &from, path(&out)]);
    assert!(
        said.contains("a device node is left out (--trust makes it)"),
        "{said}"
    );
    assert!(
        said.contains("set-id bits are left out (--trust keeps them)"),
        "{said}"
    );
    let mode = |path: &Path| fs::metadata(path).map(|found| found.mode() & 0o7777).ok();
    assert_eq!(mode(&out.join("program")), Some(0o755));
    assert_eq!(mode(&out.join("null")), None);
    let trusted = session.mounts().join("trusted");
    session.ok(&["cp", "-r", "--trust", &from, path(&trusted)]);
    assert_eq!(mode(&trusted.join("program")), Some(0o6755));
    assert!(mode(&trusted.join("null")).is_some());
}

/// What an image or a command line says is text to a terminal, and nothing else.
#[test]
fn names_do_nothing_to_a_terminal() {
    const ESCAPE: &str = "\x1b[31m";
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    let property = format!("user:x={ESCAPE}");
    session.ok(&["zfs", "set", &property, "tank"]);
    let device = session.images().join(format!("second{ESCAPE}.img"));
    let file = fs::File::create(&device).and_then(|file| file.set_len(96 << 20));
    file.expect("a file");
    session.ok(&["zpool", "add", "tank", path(&device)]);
    fs::write(session.mount("tank").join(format!("file{ESCAPE}")), "").expect("written");
    let mut lines = vec![
        "zfs get user:x tank",
        "zfs list -o name,user:x tank",
        "zpool status tank",
        "zpool list -v tank",
        "zpool iostat -v tank",
        "zpool history tank",
    ];
    let images = session.images();
    let offline = [
        format!("zpool import -d {}", path(&images)),
        format!("inspect -p {} -e -dddd tank", path(&images)),
        format!("ls {}:", path(&images)),
        format!("tree {}:", path(&images)),
    ];
    let is_clean = |session: &Session, line: &str| {
        let Some(text) = crate::progress::on_a_terminal(session, &[line]) else {
            println!("skipped: there is no script(1)");
            return;
        };
        assert!(text.contains("?[31m"), "{line}: {text:?}");
        assert!(!text.contains(ESCAPE), "{line}: {text:?}");
    };
    lines.drain(..).for_each(|line| is_clean(&session, line));
    // Programs get what was set; messages are for people, wherever they go.
    let value = session.ok(&["zfs", "get", "-Ho", "value", "user:x", "tank"]);
    assert_eq!(value, format!("{ESCAPE}\n"));
    for words in [
        ["zfs", "list", &format!("tank/{ESCAPE}")],
        ["zpool", "list", ESCAPE],
        ["zfs", "unmount", &format!("/{ESCAPE}")],
    ] {
        let said = session.refused(&words);
        assert!(said.contains("?[31m") && !said.contains(ESCAPE), "{said:?}");
    }
    session.export("tank");
    offline.iter().for_each(|line| is_clean(&session, line));
}

/// Has the labels of an image say that a vdev is of another type: the top-level one, or a device below.
fn retype(image: &Path, is_top: bool, kind: &str) {
    let device = fs::File::options().read(true).write(true).open(image);
    let device = device.expect("an image");
    let size = device.metadata().expect("its size").len();
    for label in 0..label::COUNT {
        let at = label::offset(size, label).expect("a label") + label::CONFIG_OFFSET;
        let mut piece = vec![0; label::CONFIG_SIZE];
        device.read_exact_at(&mut piece, at).expect("read");
        let mut config = label::decode_config(&piece, at).expect("a configuration");
        let mut tree = config.list(keys::VDEV_TREE).expect("a tree").clone();
        if is_top {
            tree.set(keys::TYPE, kind);
        } else {
            let mut children = tree.lists(keys::CHILDREN).to_vec();
            children[1].set(keys::TYPE, kind);
            tree.set(keys::CHILDREN, children);
        }
        config.set(keys::VDEV_TREE, tree);
        let piece = label::encode_config(&config, at).expect("it fits");
        device.write_all_at(&piece, at).expect("written");
    }
}

#[test]
fn vdevs_of_a_type_that_nobody_knows_cost_a_message() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let all = ["a", "b"].map(|name| session.images().join(name));
    for image in &all {
        let file = fs::File::create(image).expect("an image");
        file.set_len(96 << 20).expect("its size");
    }
    let [a, b] = [0, 1].map(|at: usize| path(&all[at]));
    session.create_of("tank", &["mirror", a, b], &[]);
    fs::write(session.mounts().join("tank/file"), "contents").expect("written");
    session.export("tank");
    let images = session.images();
    let find = ["zpool", "import", "-d", path(&images)];
    for (is_top, kind, said) in [(true, "cube", "cube"), (false, "tape", "mirror")] {
        all.iter().for_each(|image| retype(image, is_top, kind));
        let wanted = format!("{said} vdevs are not supported");
        assert!(session.ok(&find).contains(&format!("{said}-0")), "{kind}");
        for options in [
            &["tank"][..],
            &["-o", "readonly=on", "tank"],
            &["-f", "tank"],
        ] {
            let refused = session.refused(&[&find[..], options].concat());
            assert!(refused.contains(&wanted), "{refused}");
        }
        let root = format!("{}:", path(&images));
        for verb in [["inspect", "--verify", path(&images)], ["ls", "-l", &root]] {
            let output = session.run(&verb);
            let text = String::from_utf8_lossy(&output.stderr);
            let is_told = text.contains(kind) && !text.contains("panicked");
            assert!(is_told && !output.status.success(), "{verb:?}: {output:?}");
        }
        let labels = session.ok(&["inspect", "-l", path(&all[0])]);
        assert!(labels.contains(kind), "{labels}");
        all.iter()
            .for_each(|image| retype(image, is_top, if is_top { "mirror" } else { "file" }));
    }
    session.import("tank", &[]);
    let contents = fs::read(session.mounts().join("tank/file")).expect("read");
    assert_eq!(contents, b"contents");
}
