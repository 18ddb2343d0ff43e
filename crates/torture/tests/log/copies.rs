//! Blocks of a log's last commit of which a power loss left one copy.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::sides::mirrored;
use super::*;

/// Bytes of a block of the bench's objects.
const BLOCK: usize = 16384;
const SECTOR: usize = 512;

/// Where a block lies: the image, and the offset in it.
fn places(images: &[Vec<u8>], block: &[u8]) -> Vec<(usize, usize)> {
    let in_image = |(index, image): (usize, &Vec<u8>)| {
        let offsets = (0..image.len() - block.len()).step_by(SECTOR);
        let found = offsets.filter(|at| image[*at..].starts_with(block));
        found.map(|at| (index, at)).collect::<Vec<_>>()
    };
    images.iter().enumerate().flat_map(in_image).collect()
}

/// Writes an object whose blocks lie outside of the log, twice each, and commits it as the last thing before a power
/// loss, after which one copy of each is not there. The replay finds the other, and blames no device for it.
fn lose_one_copy(bench: &Bench, lost: usize) {
    let (_, mut version) = devices::logged_object(bench);
    let is_large = |object: &Arc<Object>| object.id().0 % 4 == 3;
    let object = (0..4).map(|_| bench.create()).find(is_large);
    let object = object.expect("one of four");
    bench.pool.sync().unwrap();
    version += 1;
    let before = bench.log.statistics();
    bench.write(&object, version, false);
    bench.commit(object.id(), version);
    assert_eq!(bench.log.statistics().fallbacks, before.fallbacks);
    let last = bench.timeline.now();

    let folder = tempfile::tempdir().unwrap();
    bench.crash(last, version, folder.path());
    let path = |disk: usize| image(folder.path(), &format!("crashed{disk}"));
    let images = 0..bench.disks.len();
    let images: Vec<_> = images
        .map(|disk| std::fs::read(path(disk)).unwrap())
        .collect();
    for block in content(version, LENGTHS[3]).chunks_exact(BLOCK) {
        let places = places(&images, block);
        assert_eq!(places.len(), 2, "{places:?}");
        let (disk, offset) = places[lost];
        let image = File::options().write(true).open(path(disk)).unwrap();
        image.write_all_at(&[0; BLOCK], offset as u64).unwrap();
    }
    let pointers = check_images(bench, last, folder.path());
    assert!(pointers > 0, "the blocks are in the log itself");
}

#[test]
fn a_replay_blames_no_device_for_copies_that_a_power_loss_cut_off() {
    for lost in 0..2 {
        let bench = Bench::new(41, 0);
        let change = dsl::PropertyChange::Set(dsl::PropertyValue::Number(2));
        let task = dsl::SetProperties {
            name: POOL.to_owned(),
            changes: vec![("copies".to_owned(), change)],
        };
        bench.pool.dsl().run(task).unwrap();
        lose_one_copy(&bench, lost);
    }
}

#[test]
fn a_replay_blames_no_side_of_a_mirror_for_what_a_power_loss_cut_off() {
    for lost in 0..2 {
        lose_one_copy(&mirrored(42, false).0, lost);
    }
}
