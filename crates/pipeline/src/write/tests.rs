use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::Txg;
use codec::{Checksum, Compression, Salt, ZstdLevel};
use format::object_type::ObjectType;
use proptest::prelude::*;

use super::*;
use crate::testing::{Rig, TXG, noise, request, text};
use crate::{Granularity, WritePolicy};

const COMPRESSIONS: [Compression; 6] = [
    Compression::Off,
    Compression::Lzjb,
    Compression::Gzip(6),
    Compression::Zle,
    Compression::Lz4,
    Compression::Zstd(ZstdLevel::DEFAULT),
];
const CHECKSUMS: [Checksum; 8] = [
    Checksum::Off,
    Checksum::Fletcher2,
    Checksum::Fletcher4,
    Checksum::Sha256,
    Checksum::Sha512,
    Checksum::Skein,
    Checksum::Edonr,
    Checksum::Blake3,
];

fn with_policy<'a>(data: &'a Buffer, change: impl FnOnce(&mut WritePolicy)) -> WriteRequest<'a> {
    let mut request = request(data);
    change(&mut request.policy);
    request
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn what_is_written_is_read(
        sectors in 1_usize..80,
        seed in any::<u64>(),
        noisy in any::<bool>(),
        compression in prop::sample::select(&COMPRESSIONS[..]),
        checksum in prop::sample::select(&CHECKSUMS[..]),
        copies in 1_u8..=3,
        longest in prop::option::of(1_u64..40),
    ) {
        let rig = Rig::with(|config| config.salt = Salt([9; 32]));
        if let Some(longest) = longest {
            rig.allocator.longest.store(longest * 512, Ordering::Relaxed);
        }
        let data = if noisy { noise(sectors * 512, seed) } else { text(sectors * 512) };
        let request = with_policy(&data, |policy| {
            *policy = WritePolicy { compression, checksum, copies, ..*policy };
            policy.gang_copies = 3.min(copies + 1);
        });
        let block = rig.write(&request).expect("there is room for sectors");
        prop_assert_eq!(block.check(TXG), Ok(()));
        prop_assert_eq!(&rig.read(&block).expect("just written")[..], &data[..]);
        rig.pipeline.free(&block, TXG).expect("just written");
        prop_assert!(rig.allocator.live.lock().unwrap().is_empty(), "freeing leaves nothing");
    }
}

#[test]
fn a_block_that_is_longer_than_its_place_is_a_broken_invariant() {
    let rig = Rig::new();
    let data = noise(4096, 1);
    for short in [false, true] {
        rig.allocator.gives_short.store(short, Ordering::Relaxed);
        let group = WriteGroup::new(TXG);
        rig.pipeline.write(&request(&data), &group).expect("room");
        group.wait().expect("memory takes writes");
        let found = group.findings().first().map(|first| first.name);
        assert_eq!(found, short.then_some("pipeline.room"));
    }
}

#[test]
fn zeros_become_holes_unless_compression_is_off() {
    let rig = Rig::new();
    let zeros = Buffer::zeroed(4096);
    let first = rig.write(&request(&zeros)).expect("a hole");
    assert_eq!(first, BlockPointer::HOLE, "never written: no birth");

    let data = noise(4096, 1);
    let written = rig.write(&request(&data)).expect("room");
    let later = WriteRequest {
        previous: written,
        txg: Txg(60),
        ..request(&zeros)
    };
    let hole = rig.write(&later).expect("a hole");
    assert!(hole.is_hole());
    assert_eq!((hole.birth(), hole.lsize()), (Txg(60), 4096));

    let plain = with_policy(&zeros, |policy| {
        policy.compression = Compression::Off;
        policy.zero_detect = false;
    });
    assert!(!rig.write(&plain).expect("room").is_hole());
}

#[test]
fn small_results_live_in_the_pointer_where_they_may() {
    let rig = Rig::new();
    let data = text(512);
    let block = rig.write(&request(&data)).expect("embedded");
    assert!(block.is_embedded());
    assert_eq!(&rig.read(&block).expect("embedded")[..], &data[..]);
    let group = WriteGroup::new(TXG);
    for (object_type, level, embed) in [
        (ObjectType::DNODE, 0, true),
        (ObjectType::OBJECT_SET, 0, true),
        (ObjectType::PLAIN_FILE, 1, true),
        (ObjectType::PLAIN_FILE, 0, false),
    ] {
        let mut other = WriteRequest {
            object_type,
            level,
            ..request(&data)
        };
        other.policy.embed = embed;
        assert!(
            !rig.pipeline
                .write(&other, &group)
                .expect("room")
                .is_embedded()
        );
    }
    group.wait().expect("memory");
}

#[test]
fn an_eighth_must_be_saved_in_whole_units() {
    let rig = Rig::with(|config| {
        config.granularity = Granularity {
            smallest: 4096,
            unit: 4096,
        };
    });
    let mut bytes = noise(8192, 3).to_vec();
    bytes[5000..].fill(7);
    // It compresses to a good 5,000 bytes, which are two units: nothing is saved.
    let data = Buffer::from_slice(&bytes);
    let block = rig.write(&request(&data)).expect("room");
    assert_eq!(
        (block.psize(), block.compression_id()),
        (8192, Compression::Off.id())
    );
    bytes[3000..].fill(7);
    let data = Buffer::from_slice(&bytes);
    let block = rig.write(&request(&data)).expect("room");
    assert_eq!(
        (block.psize(), block.compression_id()),
        (4096, Compression::Lz4.id())
    );
    assert_eq!(&rig.read(&block).expect("just written")[..], &data[..]);
}

#[test]
fn a_read_that_began_before_a_rewrite_in_place_brings_nothing_old_into_the_cache() {
    let rig = Arc::new(Rig::new());
    let (first, second) = (noise(4096, 1), noise(4096, 2));
    let block = rig.write(&request(&first)).expect("room");
    rig.pipeline.cache().clear();
    let rewritten = Arc::new(std::sync::Mutex::new(None));
    let sync = {
        let (rig, rewritten, second) = (Arc::clone(&rig), Arc::clone(&rewritten), second.clone());
        move || {
            let again = WriteRequest {
                pass: 2,
                previous: block,
                ..request(&second)
            };
            *rewritten.lock().unwrap() = Some(rig.write(&again).expect("room"));
        }
    };
    let sync = Arc::new(std::sync::Mutex::new(Some(sync)));
    for disk in &rig.disks {
        let sync = Arc::clone(&sync);
        *disk.after_read.lock().unwrap() = Some(Box::new(move || {
            let sync = sync.lock().unwrap().take();
            sync.into_iter().for_each(|sync| sync());
        }));
    }
    let ask = crate::ReadRequest::new(request(&first).bookmark);
    let old = rig.pipeline.read(&block, &ask).expect("as of before");
    assert_eq!(&old[..], &first[..]);
    let rewritten = rewritten
        .lock()
        .unwrap()
        .take()
        .expect("it was rewritten meanwhile");
    assert!(rewritten.same_block(&block));
    let new = rig.pipeline.read(&rewritten, &ask).expect("just written");
    assert_eq!(&new[..], &second[..], "an older version from the cache");
}

#[test]
fn a_later_pass_rewrites_in_place_and_stops_compressing() {
    let rig = Rig::new();
    let (first, second) = (noise(4096, 1), noise(4096, 2));
    let block = rig.write(&request(&first)).expect("room");
    let again = WriteRequest {
        pass: 2,
        previous: block,
        ..request(&second)
    };
    let rewritten = rig.write(&again).expect("room");
    assert_eq!(rewritten.dva(0), block.dva(0));
    assert!(rewritten.same_block(&block));
    assert_eq!(
        &rig.read(&rewritten).expect("just written")[..],
        &second[..]
    );
    // The cache must not serve what was there before under the same address and birth.
    let cached = rig.pipeline.read(
        &rewritten,
        &crate::ReadRequest::new(request(&first).bookmark),
    );
    assert_eq!(&cached.expect("cached")[..], &second[..]);

    let older = WriteRequest {
        pass: 2,
        previous: block,
        txg: Txg(51),
        ..request(&second)
    };
    assert_ne!(
        rig.write(&older).expect("room").dva(0),
        block.dva(0),
        "an older txg's block"
    );

    let compressible = text(4096);
    let late = WriteRequest {
        pass: 8,
        previous: block,
        ..request(&compressible)
    };
    let plain = rig.write(&late).expect("room");
    assert_eq!(plain.compression_id(), Compression::Off.id());
    assert_eq!(plain.dva(0), block.dva(0));
}

#[test]
fn an_unchanged_block_stays_only_by_a_strong_checksum() {
    let rig = Rig::new();
    let data = noise(4096, 1);
    for (checksum, stays) in [(Checksum::Sha256, true), (Checksum::Fletcher4, false)] {
        let first = with_policy(&data, |policy| {
            policy.checksum = checksum;
            policy.nopwrite = true;
        });
        let block = rig.write(&first).expect("room");
        let again = WriteRequest {
            previous: block,
            txg: Txg(70),
            ..first
        };
        assert_eq!(rig.write(&again).expect("room") == block, stays);
    }
}

#[test]
fn gangs_have_their_sizes_right_and_free_every_piece() {
    let rig = Rig::new();
    rig.allocator.longest.store(2048, Ordering::Relaxed);
    let data = noise(20 << 10, 5);
    let block = rig.write(&request(&data)).expect("in pieces");
    assert!(block.is_gang());
    assert_eq!(block.copies(), 2, "headers have one copy more");
    let first = block.dva(0).expect("an address");
    let second = block.dva(1).expect("an address");
    assert!(first.asize > 20 << 10, "header and pieces");
    let mut headers_of_second = second.asize;
    assert_eq!(headers_of_second % 512, 0);
    headers_of_second /= 512;
    assert!(headers_of_second >= 1);
    assert_eq!(&rig.read(&block).expect("just written")[..], &data[..]);
    rig.pipeline.free(&block, TXG).expect("header is readable");
    assert!(rig.allocator.live.lock().unwrap().is_empty());
}

/// Else a pool whose free space is in crumbs would never end a sync: each pass would allocate anew.
#[test]
fn a_gang_of_the_pools_own_is_rewritten_in_its_pieces() {
    let rig = Rig::new();
    rig.allocator.longest.store(2048, Ordering::Relaxed);
    let own = |data| {
        let mut request = request(data);
        request.bookmark.object_set = base::ObjectSetId::MOS;
        request
    };
    let data = noise(20 << 10, 5);
    let first = rig.write(&own(&data)).expect("in pieces");
    let used = rig.allocator.live.lock().unwrap().len();
    let data = noise(20 << 10, 6);
    let again = WriteRequest {
        previous: first,
        pass: 2,
        ..own(&data)
    };
    let second = rig.write(&again).expect("room is not needed");
    assert!(second.is_gang() && second.same_block(&first));
    assert_eq!(rig.allocator.live.lock().unwrap().len(), used);
    rig.pipeline.cache().clear();
    assert_eq!(&rig.read(&second).expect("just written")[..], &data[..]);
    rig.pipeline.free(&second, TXG).expect("header is readable");
    assert!(rig.allocator.live.lock().unwrap().is_empty());
}

#[test]
fn a_full_pool_says_so_and_keeps_nothing() {
    let rig = Rig::new();
    rig.allocator.longest.store(0, Ordering::Relaxed);
    let data = noise(20 << 10, 5);
    let error = rig.write(&request(&data)).expect_err("no room");
    assert!(matches!(
        error,
        WriteError::Allocation {
            source: AllocationError::NoSpace { .. },
            ..
        }
    ));
    assert!(rig.allocator.live.lock().unwrap().is_empty());
}

/// Gangs within it included: outside of a sync the pool goes on.
#[test]
fn a_gang_that_does_not_come_about_gives_everything_back() {
    let rig = Rig::new();
    rig.allocator.longest.store(2048, Ordering::Relaxed);
    let data = noise(20 << 10, 5);
    for room in (0..).step_by(512) {
        rig.allocator.room.store(room, Ordering::Relaxed);
        if rig.write(&request(&data)).is_ok() {
            assert!(room > 20 << 10);
            return;
        }
        let live = rig.allocator.live.lock().unwrap();
        assert!(live.is_empty(), "of {room} bytes: {live:?}");
    }
}

#[test]
fn sizes_that_no_block_has_are_refused() {
    let rig = Rig::new();
    for size in [0, 100, 513, (16 << 20) + 512] {
        let data = Buffer::zeroed(size);
        assert!(
            matches!(rig.write(&request(&data)), Err(WriteError::Size { .. })),
            "{size}"
        );
    }
}

#[test]
fn indirect_blocks_of_sparse_files_take_a_part_of_the_cache_only() {
    const LIMIT: usize = 32 << 20;
    let rig = Rig::with(|config| config.cache_bytes = LIMIT);
    for number in 0..512 {
        let mut data = vec![0; 128 << 10];
        data[128..256].copy_from_slice(&noise(128, number));
        let data = Buffer::from_slice(&data);
        let sparse = WriteRequest {
            level: 1,
            ..request(&data)
        };
        let block = rig.write(&sparse).expect("room");
        assert_eq!(&rig.read(&block).expect("just written")[..], &data[..]);
    }
    let bytes = rig.pipeline.cache().statistics().bytes;
    assert!(bytes <= LIMIT as u64 / 4, "{bytes}");
}

#[test]
fn what_the_cache_is_not_to_keep_leaves_nothing_in_it() {
    let rig = Rig::new();
    let (old, new) = (noise(4096, 1), noise(4096, 2));
    let first = rig.write(&request(&old)).expect("room");
    assert!(rig.pipeline.is_cached(&first));
    // In place: under the name of what it was before.
    let again = WriteRequest {
        previous: first,
        pass: 2,
        cached: false,
        ..request(&new)
    };
    let second = rig.write(&again).expect("room");
    assert_eq!(second.dva(0), first.dva(0));
    assert!(!rig.pipeline.is_cached(&second));
    let found = rig
        .pipeline
        .read(&second, &crate::ReadRequest::new(base::Bookmark::default()));
    assert_eq!(&found.expect("just written")[..], &new[..]);

    rig.pipeline.forget(&second);
    assert!(!rig.pipeline.is_cached(&second));
    assert_eq!(&rig.read(&second).expect("still there")[..], &new[..]);
}
