//! The main job, a full pool, and a server that is killed.

use crate::session::{Session, path};
use golden::describe_tree;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// This project's own sources: a real tree to copy.
fn sources() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp")
        .arg("-a")
        .arg(from)
        .arg(to)
        .status()
        .expect("cp runs");
    assert!(
        status.success(),
        "cp -a {} {}",
        from.display(),
        to.display()
    );
}

#[test]
fn the_main_job() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 256, &[]);
    let root = session.mount("tank");
    copy(sources(), &root.join("src"));
    session.ok(&["zfs", "snapshot", "tank@before"]);
    let before = describe_tree(&root);

    fs::remove_dir_all(root.join("src/base")).expect("removed");
    fs::write(root.join("src/new"), "new").expect("written");
    session.ok(&["zfs", "rollback", "tank@before"]);
    let differences = before.differences(&describe_tree(&root));
    assert!(
        differences.is_empty(),
        "after the rollback:\n{}",
        differences.join("\n")
    );
    session.export_clean("tank");

    session.import("tank", &[]);
    let differences = before.differences(&describe_tree(&root));
    assert!(
        differences.is_empty(),
        "after the import:\n{}",
        differences.join("\n")
    );
    let frozen = describe_tree(&root.join(".zfs/snapshot/before"));
    assert!(
        before.differences(&frozen).is_empty(),
        "the snapshot shows what there was"
    );
    session.export_clean("tank");
}

#[test]
fn a_full_pool_lets_one_delete() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("full", 96, &["-O", "compression=off"]);
    let root = session.mount("full");
    let mut written = 0;
    for index in 0.. {
        match fs::write(root.join(format!("{index}")), vec![index as u8; 1 << 20]) {
            Ok(()) => written += 1,
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
                break;
            }
        }
    }
    assert!(written > 20, "{written} MB fit into 96 MB");
    session.ok(&["zpool", "sync", "full"]);
    for index in 0..=written {
        let _ = fs::remove_file(root.join(format!("{index}")));
    }
    session.ok(&["zpool", "sync", "full"]);
    fs::write(root.join("again"), vec![7; 8 << 20]).expect("there is room again");
    session.export_clean("full");
}

#[test]
fn what_was_synced_survives_a_killed_server() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("killed", 128, &[]);
    let root = session.mount("killed");
    copy(&sources().join("base"), &root.join("base"));
    session.ok(&["zpool", "sync", "killed"]);
    let before = describe_tree(&root);
    let mut file = fs::File::create(root.join("fsynced")).expect("a file");
    file.write_all(b"on disk").expect("written");
    file.sync_all().expect("fsync");
    drop(file);

    let list = session.ok(&["zpool", "get", "-H", "-o", "value", "load_guid", "killed"]);
    assert!(!list.trim().is_empty());
    kill_server(&session, "killed");
    session.import("killed", &[]);
    let after = describe_tree(&root);
    assert_eq!(
        fs::read(root.join("fsynced")).expect("what was fsynced is there"),
        b"on disk"
    );
    let lost: Vec<String> = before
        .differences(&after)
        .into_iter()
        .filter(|line| !line.starts_with(".:") && !line.starts_with("fsynced"))
        .collect();
    assert!(lost.is_empty(), "{}", lost.join("\n"));
    session.export_clean("killed");
}

#[test]
fn a_daemon_keeps_no_lock_of_the_shell_that_started_it() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("locks", 128, &[]);
    session.ok(&["zpool", "export", "locks"]);
    let lock = session.mounts().join("lock");
    let images = session.images();
    let mounts = session.mounts();
    let output = session.shell(
        r#"exec 9>"$1"; flock 9; "$0" zpool import -d "$2" -R "$3" locks"#,
        &[path(&lock), path(&images), path(&mounts)],
    );
    assert!(output.status.success(), "{output:?}");
    let free = session.shell(r#"flock -n "$1" true"#, &[path(&lock)]);
    assert!(free.status.success(), "the daemon holds the lock");
    session.export_clean("locks");
}

/// Kills the process that serves a pool.
pub(crate) fn kill_server(session: &Session, pool: &str) {
    let server = rustix::process::Pid::from_raw(server_id(session, pool)).expect("a process");
    rustix::process::kill_process(server, rustix::process::Signal::KILL).expect("kill");
}

/// The process that serves a pool: the one that has its image open.
fn server_id(session: &Session, pool: &str) -> i32 {
    let image = session.images().join(format!("{pool}.img"));
    for process in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(id) = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok())
        else {
            continue;
        };
        let Ok(files) = fs::read_dir(process.path().join("fd")) else {
            continue;
        };
        let serves = files
            .flatten()
            .any(|file| fs::read_link(file.path()).is_ok_and(|target| target == image));
        if serves {
            return id;
        }
    }
    panic!("no process serves {}", path(&image));
}

/// Freed memory stays with the daemon for the next txg, in ordinary pages; the environment may say otherwise.
#[test]
fn the_environment_has_the_last_word_on_the_daemons_memory() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let settings = |session: &Session| {
        let id = server_id(session, "pages");
        let environment = fs::read(format!("/proc/{id}/environ")).expect("environment");
        let all = environment.split(|&byte| byte == 0);
        let ours = all.filter(|variable| variable.starts_with(b"MIMALLOC_"));
        let ours = ours.map(|variable| String::from_utf8_lossy(variable).into_owned());
        let mut ours: Vec<String> = ours.collect();
        ours.sort();
        ours
    };
    session.create("pages", 96, &["-O", "mountpoint=none"]);
    let wanted = ["MIMALLOC_ALLOW_THP=0", "MIMALLOC_PURGE_DELAY=10000"];
    assert_eq!(settings(&session), wanted);
    session.export("pages");
    let script = "MIMALLOC_ALLOW_THP=1 \"$0\" zpool import -N -d \"$1\" pages";
    let images = session.images();
    let imported = session.shell(script, &[path(&images)]);
    assert!(imported.status.success(), "{imported:?}");
    let wanted = ["MIMALLOC_ALLOW_THP=1", "MIMALLOC_PURGE_DELAY=10000"];
    assert_eq!(settings(&session), wanted);
    session.ok(&["zpool", "export", "pages"]);
}

#[test]
fn a_scrub_finds_nothing_in_a_good_pool() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("scrubbed", 96, &[]);
    copy(
        &sources().join("base"),
        &session.mount("scrubbed").join("base"),
    );
    session.ok(&["zpool", "scrub", "-w", "scrubbed"]);
    let status = session.ok(&["zpool", "status", "scrubbed"]);
    assert!(status.contains("scrub repaired 0B in"), "{status}");
    assert!(status.contains("errors: No known data errors"), "{status}");
    session.refused(&["zpool", "scrub", "-s", "scrubbed"]);
    session.export_clean("scrubbed");
}

#[test]
fn what_cannot_be_done_is_refused_in_one_line() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("named", 96, &[]);
    let image = session.images().join("named.img");
    // A pool of that name is there, whatever its mount point holds.
    fs::write(session.mount("named").join("file"), "").expect("written");
    let (more, mounts) = (session.images().join("more.img"), session.mounts());
    let create = ["zpool", "create", "--size", "96M", "-R", path(&mounts)];
    let said = session.refused(&[&create[..], &["named", path(&more)]].concat());
    assert_eq!(said, "cannot create 'named': pool already exists\n");
    let (images, mounts) = (session.images(), session.mounts());
    session.refused(&[
        "zpool",
        "create",
        "-R",
        path(&mounts),
        "other",
        path(&image),
    ]);
    session.refused(&[
        "zpool",
        "create",
        "--size",
        "96M",
        "mirror",
        path(&images.join("x.img")),
    ]);
    session.refused(&["zfs", "create", "named/bad name/x"]);
    let out = ["zfs", "create", "-o", "mountpoint=/../victim", "named/out"];
    session.refused(&out);
    assert!(!mounts.join("../victim").exists());
    session.refused(&["zfs", "snapshot", "nothere@one"]);
    session.refused(&["zfs", "rollback", "named@none"]);
    session.refused(&["zpool", "import", "-d", path(&images), "nothere"]);
    session.export_clean("named");
    fs::write(images.join("noise.img"), vec![0x5A; 70 << 20]).expect("written");
    session.refused(&[
        "zpool",
        "import",
        "-d",
        path(&images.join("noise.img")),
        "noise",
    ]);
    let half = fs::File::options()
        .write(true)
        .open(&image)
        .expect("the image");
    half.set_len(20 << 20).expect("cut");
    session.refused(&["zpool", "import", "-d", path(&image), "named"]);
}

#[test]
fn a_volume_gets_another_size() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 256, &[]);
    session.ok(&["zfs", "create", "-V", "8M", "tank/volume"]);
    session.ok(&["zfs", "create", "-s", "-V", "8M", "tank/sparse"]);
    session.ok(&["zfs", "create", "-s", "-b", "8K", "-V", "8M", "tank/small"]);
    for (volume, told) in [
        ("tank/sparse", "16384\tdefault\n"),
        ("tank/small", "8192\t-\n"),
    ] {
        let get = ["zfs", "get", "-Hpo", "value,source", "volblocksize", volume];
        assert_eq!(session.ok(&get), told, "{volume}");
    }
    let sizes = |dataset: &str| {
        let properties = "volsize,refreservation";
        session.ok(&["zfs", "get", "-Hpo", "value", properties, dataset])
    };
    // What was reserved for the size goes along with it.
    session.ok(&["zfs", "set", "volsize=4M", "tank/volume"]);
    let volume = sizes("tank/volume");
    let (size, reserved) = volume.trim().split_once('\n').unwrap();
    assert_eq!(size, "4194304");
    assert!(
        (4 << 20..8 << 20).contains(&reserved.parse::<u64>().unwrap()),
        "{reserved}"
    );
    session.ok(&["zfs", "set", "volsize=100M", "tank/sparse"]);
    assert_eq!(sizes("tank/sparse").trim(), "104857600\n0");
    for (value, reason) in [
        (
            "volsize=5000",
            "'volsize' must be a multiple of volume block size (16K)",
        ),
        ("volsize=0", "'volsize' cannot be zero"),
        ("volsize=1G", "size is greater than available space"),
    ] {
        let said = session.refused(&["zfs", "set", value, "tank/volume"]);
        assert!(said.contains(reason), "{said}");
    }
    session.ok(&["zfs", "set", "version=5", "tank"]);
    session.refused(&["zfs", "set", "version=4", "tank"]);
    let said = session.refused(&["zfs", "set", "reservation=1T", "tank"]);
    assert!(
        said.contains("size is greater than available space"),
        "{said}"
    );
    session.export_clean("tank");
}

/// What a new user meets first: no place to mount, an image that nobody looks for, a word of the other program.
#[test]
fn the_first_wrong_turns_are_told_in_a_line_or_two() {
    let Some(session) = Session::new() else {
        return;
    };
    let said = session.refused(&["zpool", "snapshot", "tank@x"]);
    assert_eq!(
        said,
        "unrecognized command 'snapshot'\ndid you mean 'zfs snapshot'?\n"
    );
    let said = session.refused(&["zfs", "scrub", "tank"]);
    assert!(said.ends_with("did you mean 'zpool scrub'?\n"), "{said}");
    let said = session.refused(&["zpool", "import", "nowhere"]);
    assert!(
        said.contains("no such pool available") && said.contains("'-d DIRECTORY'"),
        "{said}"
    );

    let images = session.images();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&images, open).expect("chmod");
    let image = images.join("own.img");
    let create = ["zpool", "create", "--size", "64M", "own", path(&image)];
    let Some(output) = session.as_user(65534, &create) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        said.contains("mountpoint '/own': Permission denied"),
        "{said}"
    );
    assert!(
        said.contains("'-R ") && !said.contains("os error"),
        "{said}"
    );
    assert!(!image.exists(), "no pool that is mounted nowhere is left");
}
