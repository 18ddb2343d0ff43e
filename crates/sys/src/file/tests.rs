use super::*;

#[test]
fn what_is_written_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let mode = OpenMode {
        write: true,
        ..OpenMode::default()
    };
    let file = File::open(&path, mode, Create::New).unwrap();
    assert_eq!(
        File::open(&path, mode, Create::New).err(),
        Some(Errno::EXIST)
    );
    file.set_size(1 << 20).unwrap();
    assert_eq!(file.kind().unwrap(), FileKind::Regular);
    assert_eq!(file.size().unwrap(), 1 << 20);
    let pieces: Vec<Vec<u8>> = (0..3000u32).map(|i| i.to_le_bytes().to_vec()).collect();
    let slices: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    file.write_vectored_at(100, &slices).unwrap();
    file.sync_data().unwrap();
    let mut bytes = vec![0; 12_000];
    assert_eq!(file.read_at(100, &mut bytes).unwrap(), 12_000);
    assert_eq!(bytes, pieces.concat());
    assert_eq!(file.read_at((1 << 20) - 10, &mut bytes).unwrap(), 10);
    file.punch_hole(0, 4096).unwrap();
    assert_eq!(file.read_at(100, &mut bytes[..3996]).unwrap(), 3996);
    assert!(bytes[..3996].iter().all(|b| *b == 0));
}

#[test]
fn locks_exclude() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let mode = OpenMode {
        write: true,
        ..OpenMode::default()
    };
    let first = File::open(&path, mode, Create::New).unwrap();
    let second = File::open(&path, mode, Create::Never).unwrap();
    assert!(first.try_lock_exclusive().unwrap());
    assert!(!second.try_lock_exclusive().unwrap());
    drop(first);
    assert!(second.try_lock_exclusive().unwrap());
}
