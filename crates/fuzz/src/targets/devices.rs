//! What labels and cache devices say: configurations of vdevs with the layouts that they describe, and lists of copies.

use base::Txg;
use codec::{Checksum, Compression, Salt};
use format::l2arc::{CacheHeader, LOG_ENTRIES_MAX, LogBlock, LogPointer};
use format::nvlist::decode_xdr;
use layout::{Block, Layout};
use pool::{PoolConfig, VdevConfig};

use crate::target::{Target, targets};
use base::ByteOrder;

pub(super) const TARGETS: &[Target] = targets! {
    configuration: |bytes| {
        let Ok(list) = decode_xdr(bytes) else { return };
        if let Ok(config) = PoolConfig::from_list(&list) {
            let _ = (config.name().len(), config.guid(), config.state(), config.host_name().len());
            let _ = PoolConfig::from_list(&config.to_mos());
        }
        if let Ok(vdev) = VdevConfig::from_list(&list) {
            assert!(VdevConfig::from_list(&vdev.to_list(false)).is_ok());
            vdev.walk(&mut look_at);
        }
    };
    cache_header: |bytes| {
        let _ = CacheHeader::open(bytes);
        let Ok(header) = CacheHeader::decode(bytes, ByteOrder::NATIVE) else { return };
        // With a checksum that is right; what is not a header of this version stays none.
        let sealed = header.seal(9).expect("a sector of 512 bytes");
        if let Ok(opened) = CacheHeader::open(&sealed) {
            assert_eq!(opened, header);
            let pointers = [opened.newest, opened.second].map(LogPointer::from_words);
            for pointer in pointers.into_iter().flatten() {
                assert_eq!(LogPointer::from_words(pointer.to_words()), Some(pointer));
                let _ = pointer.span();
            }
        }
    };
    cache_log: |bytes| {
        let [compression, stored @ ..] = bytes else { return };
        let Ok(compression) = Compression::from_id(*compression) else { return };
        let Ok(block) = LogBlock::open(&pointer(compression, stored), stored, LOG_ENTRIES_MAX) else { return };
        let (stored, compression) = block.seal(9).expect("no more than was in one");
        let again = LogBlock::open(&pointer(compression, &stored), &stored, LOG_ENTRIES_MAX);
        assert_eq!(again, Ok(block));
    };
};

/// A pointer to such bytes, with a checksum that is right.
fn pointer(compression: Compression, stored: &[u8]) -> LogPointer {
    let order = ByteOrder::NATIVE;
    LogPointer {
        address: 1 << 22,
        stored_size: stored.len().next_multiple_of(512) as u64,
        payload_bytes: 0,
        payload_start: 1 << 22,
        compression,
        checksum: codec::checksum(Checksum::Fletcher4, stored, order, &Salt::default()),
    }
}

fn look_at(vdev: &VdevConfig) {
    let _ = (vdev.shown_kind(), vdev.tolerance(), vdev.stored_state());
    let _ = (vdev.metaslab_bytes(), vdev.leaf_size_min(), vdev.guid_sum());
    if let Some(layout) = vdev.layout() {
        place(&layout, vdev.leaves().len());
    }
}

/// A block of a vdev lies on its children, and takes up what is said of it.
fn place(layout: &Layout, children: usize) {
    let birth = Txg(4);
    for psize in [512, 4 << 10, 128 << 10] {
        let block = Block {
            offset: layout.unit().saturating_mul(3),
            psize,
            birth,
        };
        let asize = layout.asize(psize, birth);
        assert!(asize == 0 || layout.deflate_ratio() <= asize.max(512));
        let _ = (
            layout.charge_overhead(),
            layout.size(1 << 40),
            layout.child_size(1 << 40),
        );
        let _ = layout.columns(&block, children);
    }
}
