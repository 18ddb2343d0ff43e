//! What the kernel does without telling, and what is right all the same.

use super::Mounted;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, open, statx};
use rustix::io::Errno;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

const SEEK_HOLE_DATA: &str = "
import mmap, os, sys
with open(sys.argv[1], 'r+b') as file:
    memory = mmap.mmap(file.fileno(), 0)
reader = os.open(sys.argv[1], os.O_RDONLY)
memory[0x200000] = 7
print(os.lseek(reader, 0, os.SEEK_DATA))
memory[0x300000 + 5000] = 7
print(os.lseek(reader, 0x280000, os.SEEK_DATA))
memory[0x280000] = 7
print(os.lseek(reader, 0x280000, os.SEEK_HOLE) > 0x280000)
";

/// A change as the user of the second argument.
const CHANGES: &str = "
import os, sys
path, user = sys.argv[1], int(sys.argv[2])
os.setgroups([])
os.setgid(user)
os.setuid(user)
file = os.open(path, os.O_RDWR)
if sys.argv[3] == 'allocate':
    os.posix_fallocate(file, 0, 100000)
elif sys.argv[3] == 'write':
    os.write(file, b'y')
elif sys.argv[3] == 'empty':
    os.open(path, os.O_WRONLY | os.O_TRUNC)
else:
    source = os.open(path, os.O_RDONLY)
    os.copy_file_range(source, file, 10, 0, 4096)
";

/// What a Python program prints; none where there is no Python.
fn python(program: &str, arguments: &[&str]) -> Option<String> {
    let mut python = Command::new("python3");
    python.args(["-c", program]).args(arguments);
    let Ok(output) = python.output() else {
        println!("skipped: there is no python3 here");
        return None;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.starts_with("skipped") {
        println!("{errors}");
        return None;
    }
    assert!(output.status.success(), "{}: {errors}", output.status);
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn what_a_mapping_holds_is_no_hole() {
    let Some(at) = Mounted::new() else { return };
    let file = fs::File::create(at.path("f")).unwrap();
    file.set_len(8 << 20).unwrap();
    drop(file);
    let path = at.path("f");
    let Some(printed) = python(SEEK_HOLE_DATA, &[path.to_str().unwrap()]) else {
        return;
    };
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines, ["2097152", "3145728", "True"], "{printed}");
}

#[test]
fn changes_by_ordinary_users_take_set_id_bits() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let Some(at) = Mounted::new() else { return };
    fs::set_permissions(at.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for (user, change, left) in [
        (4242, "write", 0o755),
        (4242, "empty", 0o755),
        (4242, "allocate", 0o755),
        (4242, "copy", 0o755),
        (0, "empty", 0o6755),
        (0, "allocate", 0o6755),
        (0, "copy", 0o6755),
    ] {
        let path = at.path(&format!("{user}-{change}"));
        fs::File::create(&path).unwrap().write_all(b"x").unwrap();
        chown(&path, Some(4242), Some(4242)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).unwrap();
        let arguments = [path.to_str().unwrap(), &user.to_string(), change];
        if python(CHANGES, &arguments).is_none() {
            return;
        }
        // Asked for the mode alone, the kernel answers from what it knows.
        let (flags, wanted) = (AtFlags::empty(), StatxFlags::MODE);
        let mode = statx(CWD, &path, flags, wanted).unwrap().stx_mode & 0o7777;
        assert_eq!(mode, left, "{change} by {user}: {mode:o}");
    }
}

/// Opens files by handles of which the kernel has forgotten the inodes, as an NFS server does after a restart.
const BY_HANDLE: &str = "
import ctypes, errno, os, sys
class Handle(ctypes.Structure):
    _fields_ = [('length', ctypes.c_uint), ('kind', ctypes.c_int), ('bytes', ctypes.c_char * 128)]
libc = ctypes.CDLL(None, use_errno=True)
os.chdir(sys.argv[1])
handles = []
for name in (b'f', b'd', b'd/g'):
    handle, mount = Handle(length=128), ctypes.c_int()
    assert libc.name_to_handle_at(-100, name, ctypes.byref(handle), ctypes.byref(mount), 0) == 0
    handles.append((handle, os.stat(name).st_ino))
try:
    with open('/proc/sys/vm/drop_caches', 'w') as caches:
        caches.write('2')
except OSError:
    sys.exit('skipped: caches cannot be dropped here')
root = os.open('.', os.O_RDONLY)
for handle, inode in handles:
    file = libc.open_by_handle_at(root, ctypes.byref(handle), os.O_RDONLY)
    if file < 0 and ctypes.get_errno() == errno.EPERM:
        sys.exit('skipped: handles cannot be opened here')
    print(file >= 0 and os.fstat(file).st_ino == inode, os.strerror(ctypes.get_errno()) if file < 0 else '')
";

#[test]
fn files_are_found_by_handles() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root opens files by handles");
        return;
    }
    let Some(at) = Mounted::new() else { return };
    fs::create_dir(at.path("d")).unwrap();
    for name in ["f", "d/g"] {
        fs::write(at.path(name), name).unwrap();
    }
    let Some(printed) = python(BY_HANDLE, &[at.directory.path().to_str().unwrap()]) else {
        return;
    };
    assert_eq!(printed, "True \nTrue \nTrue \n");
}

/// Sets modes and access lists as user 4242 of group 100 with the further group 4243.
const SET_GROUP: &str = "
import os, struct, sys
os.setgroups([4243])
os.setgid(100)
os.setuid(4242)
entries = [(1, 7), (4, 7), (32, 7)]
plain = struct.pack('<I', 2) + b''.join(struct.pack('<HHI', tag, bits, 0xffffffff) for tag, bits in entries)
for path in sys.argv[1:]:
    os.chmod(path, 0o2775)
    first = os.stat(path).st_mode
    os.setxattr(path, 'system.posix_acl_access', plain)
    print('%o %o' % (first & 0o7777, os.stat(path).st_mode & 0o7777))
";

#[test]
fn set_group_id_stays_for_members_of_the_group() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let Some(at) = Mounted::new() else { return };
    fs::set_permissions(at.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut paths = Vec::new();
    for group in [4243, 4244] {
        for (name, is_directory) in [("f", false), ("d", true)] {
            let path = at.path(&format!("{name}{group}"));
            if is_directory {
                fs::create_dir(&path).unwrap();
            } else {
                fs::File::create(&path).unwrap();
            }
            chown(&path, Some(4242), Some(group)).unwrap();
            paths.push(path);
        }
    }
    let arguments: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    let Some(printed) = python(SET_GROUP, &arguments) else {
        return;
    };
    assert_eq!(printed, "2775 2777\n2775 2777\n775 777\n775 777\n");
}

#[test]
fn set_group_id_goes_with_an_access_list_of_a_stranger() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let Some(at) = Mounted::new() else { return };
    fs::set_permissions(at.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = at.path("d");
    fs::create_dir(&path).unwrap();
    chown(&path, Some(4242), Some(4244)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o2775)).unwrap();
    let program = SET_GROUP.replace("os.chmod(path, 0o2775)", "pass");
    let Some(printed) = python(&program, &[path.to_str().unwrap()]) else {
        return;
    };
    assert_eq!(printed, "2775 777\n");
}

#[test]
fn a_program_that_runs_is_not_emptied() {
    let Some(at) = Mounted::new() else { return };
    let path = at.path("program");
    fs::copy("/bin/sleep", &path).unwrap();
    let mut program = Command::new(&path).arg("100").spawn().unwrap();
    let size = fs::metadata(&path).unwrap().len();
    let flags = OFlags::RDONLY | OFlags::TRUNC;
    let refused = open(&path, flags, Mode::empty()).unwrap_err();
    assert_eq!(refused, Errno::TXTBSY);
    assert_eq!(fs::metadata(&path).unwrap().len(), size);
    assert!(program.try_wait().unwrap().is_none());
    program.kill().unwrap();
    program.wait().unwrap();
}
