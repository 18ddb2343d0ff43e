//! What looks like one thing on a command line, and is another.

use crate::session::{Session, path};

/// Words that stand for a layout or a class of devices are never names of files, and a pool is mounted below no
/// directory that depends on where the command was run.
#[test]
fn words_of_layouts_are_no_files() {
    let Some(session) = Session::new() else {
        return;
    };
    let images = session.images();
    for name in ["raidz", "cache", "spare", "mirror", "log", "a", "b", "c"] {
        let file = std::fs::File::create(images.join(name)).expect("made");
        file.set_len(64 << 20).expect("long enough");
    }
    let mounts = session.mounts();
    let within = |words: &str| {
        let script = format!("cd \"$1\" && \"$0\" zpool create -R \"$2\" {words}");
        session.shell(&script, &[path(&images), path(&mounts)])
    };
    let made = within("one raidz \"$1/a\" \"$1/b\" \"$1/c\"");
    assert!(made.status.success(), "{made:?}");
    let status = session.ok(&["zpool", "status", "one"]);
    assert!(status.contains("raidz1-0"), "{status}");
    session.ok(&["zpool", "destroy", "one"]);
    for words in [
        "two mirror",
        "two raidz",
        "two \"$1/a\" log",
        "two \"$1/a\" cache raidz",
    ] {
        let refused = within(words);
        assert!(!refused.status.success(), "{words}: {refused:?}");
    }
    let image = images.join("a");
    let relative = ["zpool", "create", "-R", "mounts", "two", path(&image)];
    let said = session.refused(&relative);
    assert_eq!(
        said,
        "cannot create 'two': 'altroot' must be an absolute path\n"
    );
    assert!(session.daemons().is_empty(), "no pool was made");
}

/// Where metrics are to be offered, nothing is taken away but a socket that nobody listens on.
#[test]
fn a_file_is_no_place_for_metrics() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 64, &[]);
    session.export("tank");
    let (images, file) = (session.images(), session.images().join("precious"));
    std::fs::write(&file, "precious").expect("written");
    let said = session.refused(&[
        "serve",
        "-d",
        path(&images),
        "--metrics",
        path(&file),
        "tank",
    ]);
    let reason = "it is there already, and is no socket";
    assert_eq!(
        said,
        format!("cannot offer metrics at '{}': {reason}\n", path(&file))
    );
    assert_eq!(
        std::fs::read_to_string(&file).expect("still there"),
        "precious"
    );
}

/// `ps` tells whose daemon a process is.
#[test]
fn a_daemon_has_the_name_of_its_pool() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 64, &[]);
    let daemons = session.daemons();
    let [daemon] = &daemons[..] else {
        panic!("one daemon: {daemons:?}");
    };
    let line = std::fs::read(format!("/proc/{daemon}/cmdline")).expect("it runs");
    assert!(
        line.starts_with(b"millpond: tank"),
        "{}",
        line.escape_ascii()
    );
    session.export("tank");
}
