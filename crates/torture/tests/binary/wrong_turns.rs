//! What looks like one thing on a command line, and is another.

use crate::host_mount::HostMount;
use crate::patience::until;
use crate::session::{Session, path};
use std::path::Path;
use std::process::Output;

/// No pool was made. The daemon of one that was destroyed, or not made after all, ends a moment after the command.
fn no_daemon_is_left(session: &Session) {
    until("no pool was made", || session.daemons().is_empty());
}

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
    no_daemon_is_left(&session);
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

/// A file system that nothing can be written to is called that, not a lack of permission.
#[test]
fn a_read_only_file_system_is_called_so() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let folder = session.images().join("still");
    std::fs::create_dir(&folder).expect("made");
    let Some(host) = HostMount::memory(&folder, 100) else {
        return;
    };
    let image = folder.join("tank.img");
    let file = std::fs::File::create(&image).and_then(|file| file.set_len(96 << 20));
    file.expect("a file");
    session.create_of("tank", &[path(&image)], &[]);
    session.export("tank");
    host.remount("ro");
    let import = ["zpool", "import", "-N", "-d", path(&folder)];
    let said = session.refused(&[&import[..], &["tank"]].concat());
    let reason = "read-only, or on a file system that is";
    assert!(said.contains(reason), "{said}");
    assert!(
        said.ends_with("imported using '-o readonly=on'.\n"),
        "{said}"
    );
    let new = folder.join("new.img");
    let from = session.mounts();
    let to = format!("{}:", path(&image));
    let create = ["zpool", "create", "--size", "64M", "-m", "none", "new"];
    for words in [
        [&create[..], &[path(&new)]].concat(),
        vec!["mkimage", path(&from), path(&new)],
        vec!["cp", path(Path::new("/proc/self/comm")), &to],
        vec!["zpool", "labelclear", "-f", path(&image)],
    ] {
        let said = session.refused(&words);
        assert!(said.contains(reason), "{words:?}: {said}");
        assert!(!said.contains("ermission"), "{words:?}: {said}");
    }
    session.ok(&[&import[..], &["-o", "readonly=on", "tank"]].concat());
    session.ok(&["zpool", "export", "tank"]);
    host.unmount();
}

/// Who looks for a pool that runs is told that it does.
#[test]
fn a_pool_that_is_imported_is_not_called_damaged() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 64, &[]);
    let images = session.images();
    let listed = session.run(&["zpool", "import", "-d", path(&images)]);
    let said = String::from_utf8_lossy(&listed.stderr);
    let reason = "'tank' is imported already\n";
    assert_eq!(said, format!("no pools available to import\n{reason}"));
    let said = session.refused(&["zpool", "import", "-d", path(&images), "lake"]);
    assert_eq!(
        said,
        format!("cannot import 'lake': no such pool available\n{reason}")
    );
    // Who gave it another name for now is told which.
    session.export("tank");
    session.ok(&[
        "zpool",
        "import",
        "-N",
        "-d",
        path(&images),
        "-t",
        "tank",
        "pond",
    ]);
    let said = session.refused(&["zpool", "import", "-d", path(&images), "tank"]);
    let reason = "'tank' (as 'pond') is imported already\n";
    assert_eq!(
        said,
        format!("cannot import 'tank': no such pool available\n{reason}")
    );
    session.ok(&["zpool", "export", "pond"]);
}

/// A name that is no text is refused; it was taken for another one, with a sign in the place of what is none.
#[test]
fn a_name_that_is_no_text_is_not_taken_for_another() {
    let Some(session) = Session::new() else {
        return;
    };
    let (images, mounts) = (session.images(), session.mounts());
    let odd = "odd=$(printf '\\377'); ";
    let run = |words: &str| {
        let ran = session.shell(&format!("{odd}{words}"), &[path(&images), path(&mounts)]);
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(!ran.status.success(), "{words}: {said}");
        (said, ran.status.code())
    };
    for words in [
        "\"$0\" zpool create --size 64M -R \"$2\" odd \"$1/$odd.img\"",
        "\"$0\" mkimage -n odd \"$2\" \"$1/$odd.img\"",
        "\"$0\" zpool import -d \"$1/$odd\" tank",
    ] {
        let (said, status) = run(words);
        assert!(said.contains("\\xFF"), "{words}: {said}");
        assert!(said.contains(" is not UTF-8"), "{words}: {said}");
        assert_eq!(status, Some(2), "{words}: {said}");
    }
    // Of what is relative, the directory counts.
    let (said, _) = run("mkdir \"$1/$odd\" && cd \"$1/$odd\" && \
                         \"$0\" zpool create --size 64M -R \"$2\" odd here.img");
    assert!(said.starts_with("cannot create 'odd': the path "), "{said}");
    assert!(said.contains("\\xFF/here.img\" is not UTF-8\n"), "{said}");
    no_daemon_is_left(&session);
    let made = std::fs::read_dir(&images).expect("listed").count();
    assert_eq!(made, 1, "no image was made");
}

/// A pool whose daemon is another user's, of whom one's own commands know nothing: here one with other sockets.
#[test]
fn a_pool_that_another_process_has_is_listed_so() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let images = session.images();
    is_listed_as_in_use(&mut session, &images);
}

/// The kernel's list of locks has other numbers for files of overlays than stat(2).
#[test]
fn a_pool_in_an_overlay_that_another_process_has_is_listed_so() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let images = session.images();
    let [low, high, merged] = ["low", "high", "merged"].map(|name| images.join(name));
    for folder in [&low, &high, &merged] {
        std::fs::create_dir(folder).expect("made");
    }
    // Two file systems: of one, its numbers are those of the overlay.
    let Some(_host) = HostMount::memory(&high, 200) else {
        return;
    };
    let [upper, work] = ["upper", "work"].map(|name| high.join(name));
    for folder in [&upper, &work] {
        std::fs::create_dir(folder).expect("made");
    }
    let Some(_overlay) = HostMount::overlay([&low, &upper, &work], &merged) else {
        return;
    };
    is_listed_as_in_use(&mut session, &merged);
}

/// A pool of an image in `images` is in use to who does not know its daemon, until it is exported.
fn is_listed_as_in_use(session: &mut Session, images: &Path) {
    let image = images.join("tank.img");
    session.create_of("tank", &[path(&image)], &["--size", "64M"]);
    let [daemon] = session.daemons()[..] else {
        panic!("one daemon");
    };
    let elsewhere = session.mounts().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("made");
    let run = |words: &[&str]| {
        let words = [&["zpool", "import", "-d", path(images)], words].concat();
        let mut command = session.command(&words);
        command.env("MILLPOND_RUN", &elsewhere);
        command.output().expect("the binary runs")
    };
    let listed = run(&[]);
    let said = String::from_utf8_lossy(&listed.stdout);
    let who = format!("status: The pool is in use by millpond (pid {daemon}) on this system.\n");
    assert!(said.contains(&who), "{said}");
    assert!(!said.contains("can be imported using"), "{said}");
    let imported = run(&["tank"]);
    assert_eq!(imported.status.code(), Some(1), "{imported:?}");
    let said = String::from_utf8_lossy(&imported.stderr);
    let who = format!(
        "is in use by another process; export the pool there\nin use by: millpond (pid {daemon})\n"
    );
    assert!(said.ends_with(&who), "{said}");
    session.ok(&["zpool", "export", "tank"]);
    let listed = run(&[]);
    let said = String::from_utf8_lossy(&listed.stdout);
    assert!(said.contains("can be imported using"), "{said}");
}

/// The name of a program is a word that can be mistyped as well.
#[test]
fn a_program_with_a_slip_is_meant() {
    let Some(session) = Session::new() else {
        return;
    };
    let said = session.refused(&["zpol", "list"]);
    assert_eq!(said, "unrecognized command 'zpol'\ndid you mean 'zpool'?\n");
}

/// A list of pools says what an import would.
#[test]
fn a_pool_that_the_kernel_may_have_open_is_listed_so() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 64, &["-m", "none"]);
    crate::lifecycle::kill_server(&session, "tank");
    let image = session.images().join("tank.img");
    // What OpenZFS's module makes.
    let with_module =
        |words: &str| with_another_dev(&session, "touch /dev/zfs", words, &[path(&image)]);
    let listed = with_module("zpool import -d \"$1\"");
    let said = String::from_utf8_lossy(&listed.stdout).into_owned();
    if !said.contains("pool: tank") {
        println!("skipped: nothing can be mounted here: {listed:?}");
        return;
    }
    assert!(said.contains("the kernel's ZFS module is here"), "{said}");
    assert!(said.contains("'-f' flag"), "{said}");
    let refused = with_module("zpool import -N -d \"$1\" tank");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("the kernel's ZFS module is here"), "{said}");
    session.import("tank", &["-N"]);
}

/// Runs the binary where `/dev` holds nothing but what a command makes there. `words` is what it is told, in the words
/// of a shell, which has the arguments as `$1` and so on.
fn with_another_dev(session: &Session, make: &str, words: &str, arguments: &[&str]) -> Output {
    // The images may lie in /dev/shm.
    let inside = format!(
        "{}; mount --rbind /dev/shm /mnt && mount -t tmpfs tmpfs /dev && mkdir /dev/shm \
         && mount --rbind /mnt /dev/shm && {make} && exec \"$0\" {words}",
        session.let_go_of_others()
    );
    let script = "inside=$1; shift; exec unshare -m sh -c \"$inside\" \"$0\" \"$@\"";
    let arguments = [&[inside.as_str()], arguments].concat();
    let _making = Session::making_a_namespace();
    session.shell(script, &arguments)
}

/// Where the kernel has no FUSE, that is said, in words.
#[test]
fn a_missing_fuse_device_is_named() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 64, &[]);
    session.export("tank");
    let (images, mounts) = (session.images(), session.mounts());
    let import = "zpool import -d \"$1\" -R \"$2\" tank";
    let null = "mknod -m 666 /dev/null c 1 3";
    let arguments = [path(&images), path(&mounts)];
    let imported = with_another_dev(&session, null, import, &arguments);
    let said = String::from_utf8_lossy(&imported.stderr);
    if !said.contains("/dev/fuse") {
        println!("skipped: nothing can be mounted here: {imported:?}");
        return;
    }
    let reason = "/dev/fuse: No such file or directory (is the fuse module loaded";
    assert!(said.contains(reason), "{said}");
    assert!(said.contains("Import was successful"), "{said}");
    session.ok(&["zpool", "export", "tank"]);
    // A new pool is there all the same.
    let create = "zpool create --size 64M -R \"$2\" new \"$1/new.img\"";
    let created = with_another_dev(&session, null, create, &arguments);
    let said = String::from_utf8_lossy(&created.stderr);
    assert!(said.contains(reason), "{said}");
    let advice = "the pool is there all the same: 'zfs mount new' mounts it, 'zpool destroy new' takes it back\n";
    assert!(said.ends_with(advice), "{said}");
    assert_eq!(created.status.code(), Some(1), "{said}");
    session.ok(&["zpool", "destroy", "new"]);
}

/// A minimal root has no `/etc/mtab`, by which `fusermount3` knows whose a mount is: a user's pool is mounted and
/// unmounted all the same.
#[test]
fn a_user_unmounts_where_there_is_no_table_of_mounts() {
    const USER: u32 = crate::register::USER;
    let Some(session) = Session::new() else {
        return;
    };
    let home = tempfile::tempdir().expect("a folder");
    if std::os::unix::fs::chown(home.path(), Some(USER), Some(USER)).is_err() {
        println!("skipped: only root becomes somebody else");
        return;
    }
    let inside = format!(
        "{}; cp -a /etc \"$2\" && rm \"$2/mtab\" && mount --bind \"$2\" /etc || exit 77; \
         mount -t tmpfs none /mnt && mknod -m 666 /mnt/fuse c 10 229 && mount --bind /mnt/fuse /dev/fuse || exit 77; \
         as() {{ setpriv --reuid {USER} --regid {USER} --clear-groups env HOME=\"$home\" \"$@\"; }}; \
         home=$1; cd \"$1\"; \
         left() {{ as \"$0\" zpool export bare; exit 78; }}; \
         as \"$0\" zpool create --size 96M -R \"$1/mnt\" bare \"$1/a.img\" || left; \
         as touch \"$1/mnt/bare/file\" || left; as \"$0\" zfs unmount bare && as \"$0\" zfs mount bare; \
         as ls \"$1/mnt/bare\"; as sh -c 'cd mnt/bare && \"$0\" zpool export bare; echo $?' \"$0\"; \
         as \"$0\" zpool export bare; echo $?",
        session.let_go_of_others()
    );
    let script = "inside=$1; shift; exec unshare -m sh -c \"$inside\" \"$0\" \"$@\"";
    let tables = session.images().join("etc");
    let _making = Session::making_a_namespace();
    let mut command = session.shell_command(script);
    let output = command
        .env_remove("MILLPOND_RUN")
        .env_remove("XDG_STATE_HOME")
        .env_remove("XDG_RUNTIME_DIR")
        .args([&inside, path(home.path()), path(&tables)])
        .output()
        .expect("sh runs");
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("Permission denied") || matches!(output.status.code(), Some(77 | 78)) {
        println!("skipped: {said}");
        return;
    }
    let listed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(listed, "file\n1\n0\n", "{output:?}");
    assert!(
        said.contains("pool or dataset is busy") && said.contains("in use by: sh "),
        "{said}"
    );
    assert!(!said.contains("mtab"), "{said}");
}
