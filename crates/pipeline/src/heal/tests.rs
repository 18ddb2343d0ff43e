use base::Bookmark;
use codec::Compression;

use super::*;
use crate::testing::{Rig, noise, request, text};
use crate::{WritePolicy, WriteRequest};

fn written(rig: &Rig, data: &Buffer, compression: Compression) -> BlockPointer {
    let policy = WritePolicy {
        copies: 2,
        gang_copies: 2,
        compression,
        embed: false,
        ..WritePolicy::METADATA
    };
    let block = rig.write(&WriteRequest {
        policy,
        ..request(data)
    });
    block.expect("room")
}

fn spoil(rig: &Rig, block: &BlockPointer) {
    for dva in block.dvas() {
        for disk in &rig.disks {
            disk.damage(dva.offset, 512);
        }
    }
}

fn on_disks(rig: &Rig, block: &BlockPointer) -> Vec<Vec<u8>> {
    let length = block.psize() as usize;
    let places = block.dvas().flat_map(|dva| {
        let disks = rig.disks.iter();
        disks.map(move |disk| disk.at(dva.offset, length))
    });
    places.collect()
}

#[test]
fn what_a_block_had_is_written_to_all_its_places() {
    let levels = [Compression::Off, Compression::Lz4, Compression::Gzip(6)];
    let zstd = [1, 3, 19, -10].map(|level| ZstdLevel::from_level(level).map(Compression::Zstd));
    for kind in levels.into_iter().chain(zstd.into_iter().flatten()) {
        let rig = Rig::new();
        let data = text(64 << 10);
        let block = written(&rig, &data, kind);
        let before = on_disks(&rig, &block);
        let place = Bookmark::default();
        let offered = Offered::Content(&data);
        let sound = rig.pipeline.heal(&block, place, offered);
        assert_eq!(sound.expect("it is followed"), Healing::Sound);
        spoil(&rig, &block);
        let healed = rig.pipeline.heal(&block, place, offered);
        assert_eq!(healed.expect("it is followed"), Healing::Healed, "{kind:?}");
        assert_eq!(on_disks(&rig, &block), before);
        spoil(&rig, &block);
        let stored = Offered::Stored(&before[0]);
        let healed = rig.pipeline.heal(&block, place, stored);
        assert_eq!(healed.expect("it is followed"), Healing::Healed);
        assert_eq!(on_disks(&rig, &block), before);
    }
}

#[test]
fn other_bytes_are_not_written() {
    let rig = Rig::new();
    let data = noise(8192, 1);
    let block = written(&rig, &data, Compression::Off);
    spoil(&rig, &block);
    let before = on_disks(&rig, &block);
    let mut other = data.to_vec();
    other[8191] ^= 1;
    let cut = &data[..4096];
    for offered in [
        Offered::Content(&other),
        Offered::Content(cut),
        Offered::Content(&[]),
        Offered::Stored(&other),
        Offered::Stored(cut),
    ] {
        let healed = rig.pipeline.heal(&block, Bookmark::default(), offered);
        assert_eq!(healed.expect("it is followed"), Healing::OtherBytes);
        assert_eq!(on_disks(&rig, &block), before);
    }
}

#[test]
fn the_pieces_of_a_gang_are_healed() {
    let rig = Rig::new();
    rig.allocator
        .longest
        .store(4096, std::sync::atomic::Ordering::Relaxed);
    let data = noise(8 << 10, 3);
    let block = written(&rig, &data, Compression::Off);
    assert!(block.is_gang());
    let request = ReadRequest::new(Bookmark::default()).uncached();
    let header = rig.pipeline.gang_header(&block, &request).expect("a gang");
    for member in header.used() {
        spoil(&rig, member);
    }
    rig.pipeline
        .read(&block, &request)
        .expect_err("it is spoilt");
    let healed = rig
        .pipeline
        .heal(&block, Bookmark::default(), Offered::Content(&data));
    assert_eq!(healed.expect("it is followed"), Healing::Healed);
    assert_eq!(
        &rig.pipeline.read(&block, &request).expect("healed")[..],
        &data[..]
    );
}
