use super::*;
use std::os::unix::fs::PermissionsExt;

fn image(size: u64) -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    drop(FileDevice::create(&path, size).unwrap());
    (directory, path)
}

#[test]
fn aligned_and_unaligned_writes_are_coherent() {
    let (_directory, path) = image(1 << 20);
    let device = FileDevice::open(&path, Access::ReadWrite).unwrap();
    let page = BufferMut::from_slice(&[7; 8192]);
    device.write(4096, &page).unwrap();
    device.write(4096 + 512, &[9; 100]).unwrap();
    device
        .write_vectored(16384, &[&[1; 512], &[2; 512], &[3; 3072]])
        .unwrap();
    device.flush().unwrap();
    let mut expected = vec![7u8; 8192];
    expected[512..612].fill(9);
    let mut bytes = BufferMut::zeroed(8192);
    device.read(4096, &mut bytes).unwrap();
    assert_eq!(bytes[..], expected);
    let mut odd = vec![0; 8192];
    device.read(4096, &mut odd).unwrap();
    assert_eq!(odd, expected);
    device.read(16384, &mut bytes[..4096]).unwrap();
    assert!(bytes[..512].iter().all(|b| *b == 1) && bytes[1024..4096].iter().all(|b| *b == 3));
}

#[test]
fn a_writer_excludes_writers_but_not_readers() {
    let (_directory, path) = image(4096);
    let writer = FileDevice::open(&path, Access::ReadWrite).unwrap();
    let second = FileDevice::open(&path, Access::ReadWrite);
    assert!(matches!(second.err(), Some(DeviceError::Busy { .. })));
    let reader = FileDevice::open(&path, Access::ReadOnly).unwrap();
    assert!(matches!(
        reader.write(0, &[0; 512]),
        Err(DeviceError::ReadOnly { .. })
    ));
    drop(writer);
    FileDevice::open(&path, Access::ReadWrite).unwrap();
}

#[test]
fn a_device_whose_last_user_is_just_ending_opens() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    let ending = FileDevice::create(&path, 1 << 20).unwrap();
    let end = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        drop(ending);
    });
    FileDevice::open(&path, Access::ReadWrite).unwrap();
    end.join().unwrap();
}

#[test]
fn errors_name_the_device_and_the_next_step() {
    let missing = FileDevice::open(Path::new("/nonexistent/x"), Access::ReadOnly)
        .err()
        .unwrap();
    assert!(
        missing
            .to_string()
            .starts_with("/nonexistent/x: no such file")
    );
    let directory = FileDevice::open(Path::new("/"), Access::ReadOnly)
        .err()
        .unwrap();
    assert!(matches!(directory, DeviceError::NotADevice { .. }));
    let (_directory, path) = image(4096);
    assert!(matches!(
        FileDevice::create(&path, 1).err(),
        Some(DeviceError::Exists { .. })
    ));
    let device = FileDevice::open(&path, Access::ReadWrite).unwrap();
    let beyond = device.read(4000, &mut [0; 512]);
    assert!(matches!(
        beyond,
        Err(DeviceError::OutOfRange { size: 4096, .. })
    ));
    assert!(matches!(
        device.write(u64::MAX, &[0; 512]),
        Err(DeviceError::OutOfRange { .. })
    ));
}

#[test]
fn a_truncated_file_says_so() {
    let (_directory, path) = image(8192);
    let device = FileDevice::open(&path, Access::ReadOnly).unwrap();
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(4096)
        .unwrap();
    let error = device.read(4096, &mut [0; 512]).err().unwrap();
    assert!(
        matches!(error, DeviceError::Truncated { got: 0, .. }),
        "{error}"
    );
    // Labels at a shorter end would be written into data: the device is as large as it was.
    assert_eq!(device.refresh_size().unwrap(), 8192);
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(16384)
        .unwrap();
    assert_eq!(device.refresh_size().unwrap(), 16384);
}

#[test]
fn a_file_that_was_removed_or_cut_off_is_not_flushed_well() {
    let (_directory, path) = image(8192);
    let device = FileDevice::open(&path, Access::ReadWrite).unwrap();
    device.write(0, &[1; 512]).unwrap();
    let second_name = path.with_extension("again");
    std::fs::hard_link(&path, &second_name).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(4096).unwrap();
    let error = device.flush().unwrap_err();
    assert!(
        matches!(error, DeviceError::Shrunk { now: 4096, .. }),
        "{error}"
    );
    file.set_len(8192).unwrap();
    device.flush().unwrap();
    device.write(0, &[2; 512]).unwrap();
    std::fs::remove_file(&path).unwrap();
    device.flush().unwrap();
    device.write(0, &[3; 512]).unwrap();
    std::fs::remove_file(&second_name).unwrap();
    for _ in 0..2 {
        let error = device.flush().unwrap_err();
        assert!(matches!(error, DeviceError::Removed { .. }), "{error}");
    }
}

#[test]
fn discarded_space_reads_as_zero() {
    let (_directory, path) = image(1 << 20);
    let device = FileDevice::open(&path, Access::ReadWrite).unwrap();
    device.write(0, &[5; 65536]).unwrap();
    match device.discard(0, 32768) {
        Ok(()) => {
            let mut bytes = [1; 65536];
            device.read(0, &mut bytes).unwrap();
            assert!(
                bytes[..32768].iter().all(|b| *b == 0) && bytes[32768..].iter().all(|b| *b == 5)
            );
        }
        Err(error) => assert!(matches!(error, DeviceError::Unsupported { .. })),
    }
}

/// What losetup(8) says; none where it fails.
fn losetup(arguments: &[&std::ffi::OsStr]) -> Option<String> {
    let output = std::process::Command::new("losetup")
        .args(arguments)
        .output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

/// Names of one file: hard links, and a loop device where root may make one.
#[test]
fn a_file_is_locked_by_whatever_name() {
    let (directory, path) = image(8 << 20);
    let link = directory.path().join("link");
    std::fs::hard_link(&path, &link).unwrap();
    let busy = |path: &Path| {
        let opened = FileDevice::open(path, Access::ReadWrite).err();
        matches!(opened, Some(DeviceError::Busy { .. }))
    };
    let writer = FileDevice::open(&path, Access::ReadWrite).unwrap();
    assert!(busy(&link));
    drop(writer);
    let made = losetup(&["--show".as_ref(), "-f".as_ref(), path.as_os_str()]);
    let Some(device) = made.filter(|device| Path::new(device).exists()) else {
        println!("skipped: no loop device can be made");
        return;
    };
    let found = std::panic::catch_unwind(|| {
        let disk = Path::new(&device);
        let writer = FileDevice::open(&path, Access::ReadWrite).unwrap();
        assert!(busy(disk), "the loop device of a file in use");
        drop(writer);
        let writer = FileDevice::open(disk, Access::ReadWrite).unwrap();
        assert!(
            busy(&path) && busy(&link),
            "the file of a loop device in use"
        );
        drop(writer);
        assert!(!busy(&link));
    });
    losetup(&["-d".as_ref(), device.as_ref()]);
    found.unwrap();
}

/// Two partitions, as it were: they are no names of each other.
#[test]
fn parts_of_a_file_are_used_side_by_side() {
    let (_directory, path) = image(16 << 20);
    let part = |from: &str| {
        let limit = ["--sizelimit", "8388608", "--show", "-f"];
        let mut arguments = vec!["--offset", from];
        arguments.extend(limit);
        let mut arguments: Vec<&std::ffi::OsStr> =
            arguments.into_iter().map(AsRef::as_ref).collect();
        arguments.push(path.as_os_str());
        losetup(&arguments).filter(|device| Path::new(device).exists())
    };
    let parts: Vec<String> = ["0", "8388608"].into_iter().filter_map(part).collect();
    // All are open before any is let go.
    let opened: Vec<_> = parts
        .iter()
        .map(|device| FileDevice::open(Path::new(device), Access::ReadWrite))
        .collect();
    let refused: Vec<_> = opened.into_iter().filter_map(Result::err).collect();
    for device in &parts {
        losetup(&["-d".as_ref(), device.as_ref()]);
    }
    if parts.len() < 2 {
        println!("skipped: no loop device can be made");
        return;
    }
    assert!(refused.is_empty(), "{refused:?}");
}

/// Needs a block device that may be overwritten (a loop device), named by `MILLPOND_SCRATCH_DISK`.
#[test]
fn disks_are_claimed_and_written() {
    let Some(path) = std::env::var_os("MILLPOND_SCRATCH_DISK") else {
        println!("skipped: MILLPOND_SCRATCH_DISK is not set");
        return;
    };
    let path = Path::new(&path);
    let device = FileDevice::open(path, Access::ReadWrite).unwrap();
    assert_eq!(device.kind(), DeviceKind::Disk);
    assert!(device.size() > 1 << 20 && device.sector_size() >= 512 && device.is_direct());
    let second = FileDevice::open(path, Access::ReadWrite).err();
    assert!(
        matches!(second, Some(DeviceError::Busy { .. })),
        "{second:?}"
    );
    FileDevice::open(path, Access::ReadOnly).unwrap();
    let block = BufferMut::from_slice(&[9; 65536]);
    device.write(65536, &block).unwrap();
    device.flush().unwrap();
    let mut back = BufferMut::zeroed(65536);
    device.read(65536, &mut back).unwrap();
    assert!(back.iter().all(|b| *b == 9));
    device.discard(65536, 65536).unwrap();
}

/// Needs a nearly full file system, a folder in which is named by `MILLPOND_FULL_FOLDER`.
#[test]
fn a_full_host_is_named() {
    let Some(folder) = std::env::var_os("MILLPOND_FULL_FOLDER") else {
        println!("skipped: MILLPOND_FULL_FOLDER is not set");
        return;
    };
    let path = Path::new(&folder).join("image");
    let device = FileDevice::create(&path, 64 << 20).unwrap();
    let block = BufferMut::zeroed(1 << 20);
    let error = (0..64).find_map(|n| device.write(n << 20, &block).err());
    std::fs::remove_file(&path).unwrap();
    assert!(
        matches!(error, Some(DeviceError::HostFull { .. })),
        "{error:?}"
    );
}

/// Whoever had it before may have been killed before it flushed, and what it wrote is read, and built upon.
#[test]
fn the_first_flush_is_for_what_others_wrote() {
    let (_directory, path) = image(8192);
    let device = FileDevice::open(&path, Access::ReadWrite).unwrap();
    // That it reaches the device is seen by its error.
    std::fs::remove_file(&path).unwrap();
    let error = device.flush().unwrap_err();
    assert!(matches!(error, DeviceError::Removed { .. }), "{error}");
}

#[test]
fn of_a_file_that_cannot_be_that_long_nothing_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    assert!(FileDevice::create(&path, u64::MAX).is_err());
    assert!(!path.exists());
}

#[test]
fn a_private_file_is_for_its_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    drop(FileDevice::create_private(&path, 4096).unwrap());
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // What is there is neither taken nor removed.
    assert!(FileDevice::create_private(&path, 8192).is_err());
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 4096);
}
