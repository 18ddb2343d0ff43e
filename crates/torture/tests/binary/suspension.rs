//! Devices that fail under a served pool: a host file system that is full, an image that was cut off or removed.

use crate::host_mount::HostMount;
use crate::patience::until;
use crate::session::{Session, path};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Nothing that a suspended pool refuses may take longer.
const PROMPT: Duration = Duration::from_secs(60);

/// Bytes that do not compress, by number.
fn noise(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(1 << 20);
    while bytes.len() < 1 << 20 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes
}

fn write_durably(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Writes files until one cannot be made durable; how many could, and the last one's number.
fn fill(root: &Path) -> u64 {
    for number in 0..200 {
        let started = Instant::now();
        if let Err(error) = write_durably(&root.join(number.to_string()), &noise(number)) {
            assert_eq!(error.raw_os_error(), Some(5), "{error}");
            assert!(started.elapsed() < PROMPT, "the error comes promptly");
            return number;
        }
    }
    panic!("the host never was full");
}

/// Because of devices, as far as is said.
const BY_DEVICES: [&str; 2] = [
    "One or more devices are faulted in response to IO failures.",
    "Make sure the affected devices are connected, then run 'zpool clear'.",
];
/// For lack of room.
const BY_HOST: [&str; 2] = [
    "The file system that holds a device of the pool is full.",
    "Make room there, then run 'zpool clear'.",
];

fn assert_suspended(session: &Session, pool: &str, because: [&str; 2]) {
    let started = Instant::now();
    let status = session.ok(&["zpool", "status", pool]);
    assert!(status.contains(" state: SUSPENDED\n"), "{status}");
    for line in because {
        assert!(status.contains(line), "{status}");
    }
    assert!(status.contains("ZFS-8000-HC"), "{status}");
    let health = session.ok(&["zpool", "list", "-H", "-o", "health", pool]);
    assert_eq!(health, "SUSPENDED\n");
    for arguments in [
        &["zpool", "export", pool][..],
        &["zpool", "destroy", pool],
        &["zpool", "sync", pool],
        &["zpool", "scrub", pool],
        &["zfs", "unmount", pool],
        &["zfs", "snapshot", &format!("{pool}@now")],
        &["zpool", "clear", pool],
    ] {
        let errors = session.refused(arguments);
        assert!(
            errors.contains("pool I/O is currently suspended"),
            "{errors}"
        );
    }
    assert!(started.elapsed() < PROMPT, "nobody hangs");
}

#[test]
fn a_full_host_suspends_and_room_resumes() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let Some(host) = HostMount::memory(&session.images(), 40) else {
        return;
    };
    session.create("cramped", 160, &["-O", "compression=off"]);
    let root = session.mount("cramped");
    let failed = fill(&root);
    assert!(failed > 5, "{failed} files fit");
    assert_suspended(&session, "cramped", BY_HOST);
    let said = session.refused(&["zpool", "sync", "cramped"]);
    let end = "the file system that holds it is full\nrepair the devices, then run 'zpool clear cramped'\n";
    assert!(said.ends_with(end), "{said}");
    // Memory still takes changes.
    fs::write(root.join("later"), b"accepted").expect("accepted");
    host.remount("size=200m");
    session.ok(&["zpool", "clear", "cramped"]);
    let status = session.ok(&["zpool", "status", "cramped"]);
    assert!(status.contains(" state: ONLINE\n"), "{status}");
    write_durably(&root.join("last"), b"durable").expect("durable");
    session.export_clean("cramped");
    session.import("cramped", &[]);
    for number in 0..=failed {
        let bytes = fs::read(root.join(number.to_string())).expect("it is there");
        assert!(bytes == noise(number), "file {number}");
    }
    assert_eq!(fs::read(root.join("later")).expect("read"), b"accepted");
    session.export_clean("cramped");
}

#[test]
fn an_image_that_was_cut_off_suspends_and_can_be_given_up() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("cut", 128, &[]);
    let root = session.mount("cut");
    write_durably(&root.join("before"), b"before").expect("durable");
    let image = session.images().join("cut.img");
    let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
    file.set_len(64 << 20).expect("cut off");
    let error = write_durably(&root.join("after"), b"after").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5), "{error}");
    assert_suspended(&session, "cut", BY_DEVICES);
    let forced = session.run(&["zpool", "export", "-f", "cut"]);
    let said = String::from_utf8_lossy(&forced.stderr);
    assert!(said.contains("are lost"), "{said}");
    assert!(
        forced.status.success() && forced.stdout.is_empty(),
        "{forced:?}"
    );
    let list = session.ok(&["zpool", "list", "-H", "-o", "name"]);
    assert!(!list.contains("cut"), "{list}");
}

/// The command in which a pool is suspended says what to do next, as those after it do; and where there is no pool to
/// clear, nobody is told to clear one.
#[test]
fn what_to_do_next_is_said_at_once_and_fits() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("cut", 128, &[]);
    fs::write(session.mount("cut").join("late"), b"late").expect("accepted");
    let image = session.images().join("cut.img");
    let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
    file.set_len(64 << 20).expect("cut off");
    let said = session.refused(&["zpool", "sync", "cut"]);
    assert!(
        said.starts_with("cannot sync 'cut': pool I/O is currently suspended\n"),
        "{said}"
    );
    assert!(
        said.ends_with("\nrepair the devices, then run 'zpool clear cut'\n"),
        "{said}"
    );
    session.ok(&["zpool", "export", "-f", "cut"]);
    let folder = session.images().join("small");
    fs::create_dir(&folder).expect("made");
    let Some(host) = HostMount::memory(&folder, 8) else {
        return;
    };
    let from = session.images().join("from");
    fs::create_dir(&from).expect("made");
    for number in 0..16 {
        fs::write(from.join(number.to_string()), noise(number)).expect("written");
    }
    let new = folder.join("new.img");
    let said = session.refused(&["mkimage", path(&from), path(&new)]);
    assert!(
        said.ends_with(": the file system that holds it is full\n"),
        "{said}"
    );
    host.unmount();
}

#[test]
fn a_removed_image_suspends_until_it_has_a_name_again() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("gone", 128, &[]);
    let root = session.mount("gone");
    let image = session.images().join("gone.img");
    let kept = session.images().join("kept");
    fs::hard_link(&image, &kept).expect("linked");
    fs::remove_file(&image).expect("removed");
    write_durably(&root.join("linked"), b"still named").expect("durable");
    fs::remove_file(&kept).expect("removed");
    write_durably(&root.join("lost"), b"lost").unwrap_err();
    assert_suspended(&session, "gone", BY_DEVICES);
    session.ok(&["zpool", "export", "-f", "gone"]);
}

/// That nothing can be written any more may come out only when the pool is let go.
#[test]
fn a_pool_whose_image_is_gone_is_given_up_by_force_at_once() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let leave = |session: &mut Session, arguments: &[&str]| {
        session.create("gone", 128, &[]);
        session.ok(&["zfs", "create", "gone/a"]);
        fs::write(session.mount("gone/a").join("file"), "text").expect("written");
        fs::remove_file(session.images().join("gone.img")).expect("removed");
        session.run(arguments)
    };
    let is_mounted = |session: &Session| {
        let mounts = session.mounts();
        let entries = sys::mounted_entries().expect("the mount table");
        entries.iter().any(|entry| entry.path.starts_with(&mounts))
    };
    let forced = leave(&mut session, &["zpool", "export", "-f", "gone"]);
    assert!(forced.status.success(), "{forced:?}");
    let said = String::from_utf8_lossy(&forced.stderr).into_owned();
    assert!(
        said.contains("are lost") && said.contains("not marked as exported"),
        "{said}"
    );
    assert!(!is_mounted(&session));

    let refused = leave(&mut session, &["zpool", "export", "gone"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("the file was removed while in use"), "{said}");
    assert!(said.contains("'zpool export -f gone'"), "{said}");
    assert!(is_mounted(&session));
    session.ok(&["zpool", "export", "-f", "gone"]);
    assert!(!is_mounted(&session));

    // A signal ends the daemon as well, and it leaves nothing mounted.
    let _running = leave(&mut session, &["zpool", "list"]);
    for pid in session.daemons() {
        let sent = Command::new("kill").arg(pid.to_string()).status();
        assert!(sent.expect("kill runs").success());
    }
    until("it ends", || session.daemons().is_empty());
    assert!(!is_mounted(&session));
}
