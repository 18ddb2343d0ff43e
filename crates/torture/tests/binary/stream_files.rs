//! `millpond stream`: files of streams that lie in files, without a pool.

use crate::receiving::{assert_same, noise};
use crate::session::{Session, path};
use std::fs;
use std::os::unix::fs::FileExt;

#[test]
fn streams_in_files_are_listed_copied_verified_and_compared() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("one", 192, &["-O", "atime=off"]);
    session.ok(&["zfs", "create", "-o", "compression=lz4", "one/a"]);
    let root = session.mount("one/a");
    fs::create_dir(root.join("sub")).expect("a directory");
    fs::write(root.join("sub/big"), noise(1_000_000)).expect("written");
    fs::write(root.join("text"), "line\n".repeat(30_000)).expect("written");
    std::os::unix::fs::symlink("sub/big", root.join("link")).expect("a link");
    session.ok(&["zfs", "snapshot", "one/a@1"]);
    fs::rename(root.join("text"), root.join("sub/moved")).expect("renamed");
    fs::write(root.join("new"), "new").expect("written");
    session.ok(&["zfs", "snapshot", "one/a@2"]);
    session.ok(&["zfs", "create", "-V", "1M", "one/v"]);
    session.ok(&["zfs", "snapshot", "one/v@1"]);
    let folder = session.images().with_file_name("streams");
    fs::create_dir(&folder).expect("a folder");
    let file = |name: &str| path(&folder.join(name)).to_owned();
    let (full, step, volume) = (file("full"), file("step"), file("volume"));
    for (options, out) in [
        ("-c -L -e one/a@1", &full),
        ("-c -i @1 one/a@2", &step),
        ("one/v@1", &volume),
    ] {
        let sent = session.shell(&format!("$0 zfs send {options} > $1"), &[out]);
        assert!(sent.status.success(), "{options}");
    }
    let listed = session.ok(&["stream", "ls", &full, &format!("{step}:/sub")]);
    assert_eq!(listed, "big\nmoved\n");
    let listed = session.ok(&["stream", "ls", &full, &format!("{step}:@1")]);
    assert_eq!(listed, "link\nsub\ntext\n");
    let long = session.ok(&["stream", "ls", "-l", &full]);
    assert!(
        long.contains("link -> sub/big") && long.contains("150000"),
        "{long}"
    );
    let out = file("out");
    session.ok(&["stream", "cp", "-r", &full, &step, &out]);
    assert_same(&root, out.as_ref());
    session.ok(&["stream", "cp", &volume, &file("raw")]);
    assert_eq!(
        fs::metadata(file("raw")).expect("it is there").len(),
        1 << 20
    );
    let told = session.ok(&["stream", "diff", &full, &step]);
    assert!(told.contains("R\t/text -> /sub/moved\n"), "{told}");
    assert!(told.contains("+\t/new\n"), "{told}");
    let told = session.ok(&["stream", "diff", &step]);
    assert!(told.contains("\tobject "), "{told}");
    let alone = session.refused(&["stream", "ls", &step]);
    assert!(
        alone.contains("whose stream is in none of these files"),
        "{alone}"
    );

    let told = session.ok(&["stream", "verify", &full, &step]);
    assert_eq!(told.matches("sound").count(), 2, "{told}");
    let open = fs::File::options().write(true).open(&full).expect("a file");
    open.write_all_at(b"spoilt", 600_000).expect("written");
    let output = session.run(&["stream", "verify", &full]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("damaged in or before record"), "{told}");
    let output = session.run(&["stream", "ls", &full]);
    assert_eq!(output.status.code(), Some(1));
    session.export_clean("one");
}
