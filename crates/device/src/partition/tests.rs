use super::*;
use crate::{Access, BlockDevice, DeviceError, FileDevice};

/// An image of 64 KiB, with partitions in the first and third place of an MBR.
fn image(folder: &Path) -> PathBuf {
    let path = folder.join("disk.img");
    let mut disk = vec![0xA5; 64 << 10];
    disk[446..510].fill(0);
    for (place, first, count) in [(0, 8_u32, 16_u32), (2, 32, 1000)] {
        let at = 446 + place * 16;
        disk[at + 4] = 0xBF;
        disk[at + 8..at + 12].copy_from_slice(&first.to_le_bytes());
        disk[at + 12..at + 16].copy_from_slice(&count.to_le_bytes());
    }
    disk[510..512].copy_from_slice(&[0x55, 0xAA]);
    std::fs::write(&path, disk).unwrap();
    path
}

#[test]
fn a_partition_has_a_path_unless_something_else_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let disk = image(folder.path());
    let part = |name: &str| folder.path().join(name);
    let found = partitions_in(&disk);
    assert_eq!(found, [part("disk.img-part1"), part("disk.img-part3")]);
    assert_eq!(file_of(&found[0]), disk);
    assert_eq!(file_of(&disk), disk);
    assert!(exists(&found[1]));
    for other in [
        "disk.img-part2",
        "disk.img-part01",
        "disk.img-part",
        "disk.img-part+1",
        "disk.img-part99999999999",
        "no.img-part1",
        "-part1",
    ] {
        assert!(!exists(&part(other)), "{other}");
        let opened = FileDevice::open(&part(other), Access::ReadOnly);
        assert!(
            matches!(opened, Err(DeviceError::NotFound { .. })),
            "{other}"
        );
    }
    std::fs::write(&found[0], "another").unwrap();
    assert_eq!(file_of(&found[0]), found[0]);
    assert_eq!(partitions_in(&disk), [part("disk.img-part3")]);
    assert!(partitions_in(&found[0]).is_empty());
    assert!(partitions_in(folder.path()).is_empty());
}

#[test]
fn a_partition_is_its_own_bytes_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let disk = image(folder.path());
    let parts = partitions_in(&disk);
    let open = |path: &Path| FileDevice::open(path, Access::ReadWrite);
    let first = open(&parts[0]).unwrap();
    assert_eq!(first.size(), 16 * 512);
    // As far as the file has it.
    let second = open(&parts[1]).unwrap();
    assert_eq!(second.size(), (64 << 10) - 32 * 512);
    first.write(0, &[1; 16 * 512]).unwrap();
    let pieces: [&[u8]; 2] = [&[2; 512], &[3; 100]];
    first.write_vectored(512, &pieces).unwrap();
    assert!(first.can_discard());
    first.discard(4096, 4096).unwrap();
    first.flush().unwrap();
    assert!(first.write(16 * 512 - 1, &[9; 2]).is_err());
    let mut byte = [0];
    assert!(first.read(16 * 512, &mut byte).is_err());
    let bytes = std::fs::read(&disk).unwrap();
    assert!(bytes[512..4096].iter().all(|byte| *byte == 0xA5));
    assert!(bytes[24 * 512..].iter().all(|byte| *byte == 0xA5));
    assert_eq!(bytes.len(), 64 << 10);
    assert_eq!(bytes[4096..4608], [1; 512]);
    assert_eq!(bytes[4608..5120], [2; 512]);
    assert_eq!(bytes[8192..12288], [0; 4096]);
    assert_eq!(first.refresh_size(), Ok(16 * 512));
    // Each is locked by itself, and the whole by either.
    let busy = |path: &Path| matches!(open(path).err(), Some(DeviceError::Busy { .. }));
    drop(second);
    assert!(busy(&parts[0]) && !busy(&parts[1]) && busy(&disk));
    assert!(is_locked(&parts[0]) && !is_locked(&parts[1]) && is_locked(&disk));
    let holder = lock_holder(&parts[0]).unwrap();
    assert_eq!(holder.pid, std::process::id());
    drop(first);
    let whole = open(&disk).unwrap();
    assert!(busy(&parts[0]) && is_locked(&parts[0]));
    drop(whole);
    open(&parts[0]).unwrap();
}
