//! Limits and reservations as programs on a mount meet them: where writing ends, and what statvfs(3) says.

use crate::session::{Session, path};
use rustix::io::Errno;
use std::fs;
use std::io::Write;
use std::path::Path;

const MIB: u64 = 1 << 20;

/// Size and room of the file system there, in bytes.
fn room(at: &Path) -> (u64, u64) {
    let found = rustix::fs::statvfs(at).expect("statvfs");
    (
        found.f_blocks * found.f_frsize,
        found.f_bavail * found.f_frsize,
    )
}

/// Bytes that do not compress.
pub(crate) fn noise(mebibytes: u64) -> Vec<u8> {
    let mut state = 1_u64;
    let words = (0..mebibytes * MIB / 8).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state ^ state >> 29
    });
    words.flat_map(u64::to_le_bytes).collect()
}

/// Writes noise to a file until an error; how many bytes it has, and the error.
fn fill(at: &Path) -> (u64, Option<i32>) {
    let mut file = fs::File::create(at).expect("a file");
    let noise = noise(1);
    let mut written = 0;
    loop {
        if let Err(error) = file.write_all(&noise) {
            return (written, error.raw_os_error());
        }
        written += MIB;
    }
}

#[test]
fn writing_ends_at_limits_and_reservations_are_kept() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 256, &[]);
    for limit in ["quota", "refquota"] {
        let name = format!("tank/{limit}");
        session.ok(&["zfs", "create", "-o", &format!("{limit}=16M"), &name]);
        let at = session.mount(&name);
        let (size, free) = room(&at);
        assert!(size == 16 * MIB && free > 15 * MIB, "{size}, {free}");
        let (written, error) = fill(&at.join("f"));
        assert_eq!(error, Some(Errno::DQUOT.raw_os_error()));
        assert!((13 * MIB..17 * MIB).contains(&written), "{written}");
        session.ok(&["zpool", "sync"]);
        let (size, free) = room(&at);
        assert!(size == 16 * MIB && free < 3 * MIB, "{size}, {free}");
        // What is over can be removed, and then there is room.
        fs::remove_file(at.join("f")).expect("removed");
        session.ok(&["zpool", "sync"]);
        session.ok(&["zpool", "sync"]);
        fs::write(at.join("g"), noise(1)).expect("room again");
    }

    session.ok(&["zfs", "create", "-o", "refreservation=64M", "tank/kept"]);
    let (outside, inside) = (
        room(&session.mount("tank")).1,
        room(&session.mount("tank/kept")).1,
    );
    assert!(
        (63 * MIB..66 * MIB).contains(&(inside - outside)),
        "{inside}, {outside}"
    );
    let (written, error) = fill(&session.mount("tank").join("f"));
    assert_eq!(error, Some(Errno::NOSPC.raw_os_error()));
    assert!(written < outside + MIB, "{written} of {outside}");
    let kept = session.mount("tank/kept").join("f");
    fs::write(kept, noise(60)).expect("what is reserved is there");
    fs::remove_file(session.mount("tank").join("f")).expect("removed");
    session.export_clean("tank");
}

#[test]
fn below_a_directory_of_a_project_its_quota_is_the_size() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &[]);
    let at = session.mount("tank").join("p");
    fs::create_dir(&at).expect("a directory");
    session.ok(&[
        "zfs",
        "project",
        "-s",
        "-p",
        "11",
        at.to_str().expect("text"),
    ]);
    session.ok(&["zfs", "set", "projectquota@11=4M", "tank"]);
    assert_eq!(room(&at).0, 4 * MIB);
    fs::write(at.join("f"), noise(5)).expect("used is counted with the txg");
    session.ok(&["zpool", "sync"]);
    assert_eq!(room(&at).1, 0);
    let refused = fs::write(at.join("g"), "x").expect_err("no room");
    assert_eq!(refused.raw_os_error(), Some(Errno::DQUOT.raw_os_error()));
    fs::write(session.mount("tank").join("g"), "x").expect("others go on");
    session.export_clean("tank");
}

/// Fills a mapping beyond the quota, has it written back in the way of the second argument, and says what fsync tells
/// each of four open files, and again; the last one was opened after the error.
const OVERFILLED: &str = "
import errno, mmap, os, subprocess, sys
path, way, binary = sys.argv[1:4]
def told(act):
    try:
        act()
        return 'ok'
    except OSError as error:
        return errno.errorcode[error.errno]
opened = [os.open(path, os.O_RDWR | os.O_CREAT)]
os.ftruncate(opened[0], 32 << 20)
opened += [os.open(path, os.O_RDWR), os.open(path, os.O_WRONLY)]
memory = mmap.mmap(opened[0], 32 << 20)
for place in range(0, 32 << 20, 1 << 20):
    memory[place:place + (1 << 20)] = os.urandom(1 << 20)
if way == 'msync':
    print(told(memory.flush))
elif way == 'seek':
    print(told(lambda: os.lseek(opened[1], 0, os.SEEK_DATA)))
else:
    subprocess.run([binary, 'zfs', 'snapshot', 'tank/small@' + way], check=True)
    print('ok')
opened.append(os.open(path, os.O_RDONLY))
for again in range(2):
    print(*[told(lambda: os.fsync(file)) for file in opened])
";

#[test]
fn each_open_file_is_told_once_that_a_mapping_could_not_be_written() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &[]);
    session.ok(&["zfs", "create", "-o", "quota=8M", "tank/small"]);
    let file = session.mount("tank/small").join("mapped");
    for (how, way, expected) in [
        // msync tells the open file that is mapped, and once it was told, those that come later have missed nothing.
        (
            "nowriteback",
            "msync",
            "EDQUOT\nok EDQUOT EDQUOT ok\nok ok ok ok\n",
        ),
        (
            "writeback",
            "msync",
            "EDQUOT\nok EDQUOT EDQUOT ok\nok ok ok ok\n",
        ),
        // Written back at the daemon's request, nobody is told by that.
        (
            "nowriteback",
            "seek",
            "ok\nEDQUOT EDQUOT EDQUOT EDQUOT\nok ok ok ok\n",
        ),
        (
            "nowriteback",
            "snapshot",
            "ok\nEDQUOT EDQUOT EDQUOT EDQUOT\nok ok ok ok\n",
        ),
        // The daemon had an open file of its own, which was told before the last one came.
        (
            "writeback",
            "gathered",
            "ok\nEDQUOT EDQUOT EDQUOT ok\nok ok ok ok\n",
        ),
    ] {
        session.ok(&["zfs", "unmount", "tank/small"]);
        session.ok(&["zfs", "mount", "-o", how, "tank/small"]);
        let script = "exec python3 -c \"$1\" \"$2\" \"$3\" \"$0\"";
        let output = session.shell(script, &[OVERFILLED, path(&file), way]);
        if output.status.code() == Some(127) {
            println!("skipped: there is no python3 here");
            return;
        }
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, expected, "{way}: {output:?}");
        fs::remove_file(&file).expect("removed");
        session.ok(&["zpool", "sync"]);
    }
    session.export_clean("tank");
}
