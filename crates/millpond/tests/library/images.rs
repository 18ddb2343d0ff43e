//! Blocks, and checks of whole images.

use super::Fixture;
use golden::Zdb;
use millpond::{Error, Image, VerifyOptions};
use std::collections::HashSet;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

/// Where data begin on a device: after two labels and the boot block.
const DATA_START: u64 = 4 << 20;

/// Bytes that do not compress.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn every_block_is_met_once_and_read() {
    let fixture = Fixture::new();
    let pool = &fixture.pool;
    pool.set_property("pond", "compression", "off").unwrap();
    let content: Vec<u8> = noise(1_000_000);
    let files = pool.file_system("pond").unwrap();
    files.write("f", &content).unwrap();
    pool.snapshot(&["pond@s"]).unwrap();
    files.write("g", &content[..200_000]).unwrap();
    let inode = files.metadata("f").unwrap().inode;
    let image = fixture.image();
    drop(files);
    let folder = fixture.close();

    let image = Image::open(&image).unwrap();
    let mut places = HashSet::new();
    let mut count = 0;
    for block in image.blocks().unwrap() {
        let block = block.unwrap();
        assert_eq!(block.read().unwrap().len() as u64, block.logical_size);
        assert!(block.birth_txg <= image.txg());
        for address in &block.addresses {
            assert!(places.insert((address.vdev, address.offset)), "{block:?}");
        }
        count += u64::from(!block.addresses.is_empty());
    }
    let datasets = image.datasets(&mut |damage| panic!("{damage}")).unwrap();
    let names: Vec<_> = datasets.iter().map(|found| found.name.as_str()).collect();
    assert_eq!(names, ["pond", "pond@s"]);

    // The same file by its blocks, from the snapshot.
    let mut found = Vec::new();
    for block in image.dataset_blocks("pond@s").unwrap() {
        let block = block.unwrap();
        assert_eq!(block.object_set, datasets[1].object_set);
        if block.object == inode && block.level == 0 {
            assert_eq!(found.len() as u64, block.number * block.logical_size);
            found.extend(block.read().unwrap());
        }
    }
    assert!(found.starts_with(&content));

    let told = Mutex::new(Vec::new());
    let watch = |progress| told.lock().unwrap().push(progress);
    let report = image.verify(VerifyOptions::new(), &watch).unwrap();
    assert!(report.is_clean, "{report:?}");
    assert!(report.blocks >= count, "{report:?} {count}");
    let told = told.into_inner().unwrap();
    assert_eq!(told.last().unwrap().bytes_total, Some(report.bytes_checked));
    let missing = image.dataset_blocks("pond/none").map(drop);
    assert!(matches!(missing, Err(Error::NotFound(_))));
    if let Some(zdb) = Zdb::from_environment() {
        zdb.assert_clean(folder.path(), "pond");
    }
}

#[test]
fn damage_is_reported_and_hides_nothing_else() {
    let fixture = Fixture::new();
    let files = fixture.pool.file_system("pond").unwrap();
    files.write("whole", &[1; 5000]).unwrap();
    files.write("damaged", &noise(5000)).unwrap();
    let inode = files.metadata("damaged").unwrap().inode;
    let path = fixture.image();
    drop(files);
    let _folder = fixture.close();

    let image = Image::open(&path).unwrap();
    let victim = image
        .dataset_blocks("pond")
        .unwrap()
        .map(|block| block.unwrap())
        .find(|block| block.object == inode && block.level == 0)
        .unwrap();
    let at = DATA_START + victim.addresses[0].offset;
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0xff; 16], at).unwrap();

    let image = Image::open(&path).unwrap();
    let report = image.verify(VerifyOptions::new(), &|_| {}).unwrap();
    assert!(!report.is_clean);
    assert_eq!(report.damaged_copies.len(), 1, "{report:?}");
    assert_eq!(report.damaged_copies[0].offset, at);
    assert!(!report.damaged_copies[0].is_repairable);
    let metadata = VerifyOptions::new().metadata_only().without_space();
    assert!(image.verify(metadata, &|_| {}).unwrap().is_clean);
    let bad: Vec<_> = image
        .blocks()
        .unwrap()
        .filter_map(|block| block.unwrap().read().err())
        .collect();
    assert_eq!(bad.len(), 1);
    assert!(matches!(bad[0], Error::Damaged(_)));

    let pool = millpond::Pool::open(&millpond::OpenOptions::new().path(&path).read_only()).unwrap();
    let files = pool.file_system("pond").unwrap();
    assert_eq!(files.read("whole").unwrap(), [1; 5000]);
    assert!(matches!(files.read("damaged"), Err(Error::Damaged(_))));
}

#[test]
fn what_is_no_image_is_not_called_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let open = |name: &str| Image::open(at(name)).map(drop).unwrap_err();
    std::fs::write(at("file"), [0; 1000]).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    std::os::unix::fs::symlink(at("loop"), at("loop")).unwrap();
    for (name, is_said) in [
        ("none", open("none").kind() == io::ErrorKind::NotFound),
        ("file/x", matches!(open("file/x"), Error::NotADirectory(_))),
        ("socket", matches!(open("socket"), Error::Invalid(_))),
        ("loop", matches!(open("loop"), Error::TooManyLinks(_))),
    ] {
        assert!(is_said, "{name}: {:?}", open(name));
    }
    let long = "x".repeat(300);
    assert!(matches!(open(&long), Error::NameTooLong(_)));
}
