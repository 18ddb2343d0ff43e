//! Blocks of ZAPs.

use crate::target::{Target, targets};
use format::zap::{FatHeader, Leaf, LeafMut, Micro, MicroMut, NormalizationFlags, Value};

pub(super) const TARGETS: &[Target] = targets! {
    zap_micro: |bytes| {
        let Ok(zap) = Micro::new(bytes) else { return };
        let _ = zap.header();
        let first = zap.entries().next();
        zap.entries().for_each(drop);
        let mut copy = bytes.to_vec();
        if let (Ok(mut changed), Some(entry)) = (MicroMut::new(&mut copy), first) {
            changed.set_value(entry.slot, 7);
            let _ = changed.put(&entry);
            changed.clear(entry.slot);
        }
        format::zap::swap_block(&mut copy);
    };
    zap_header: |bytes| {
        if let Ok(header) = FatHeader::read(bytes) {
            let _ = (header.is_embedded(), header.table_index(u64::MAX));
            let _ = format::zap::fat::embedded_entry(bytes, u64::MAX);
            let _ = format::zap::fat::external_entry(bytes, usize::MAX);
        }
    };
    zap_leaf: |bytes| {
        let Ok(leaf) = Leaf::new(bytes) else { return };
        for entry in leaf.entries() {
            let _ = (entry.name(), entry.words(), entry.value(), entry.word_value());
            let _ = (entry.short_name(), entry.is_word(), entry.key_count());
            let _ = leaf.unused_differentiator(entry.hash());
        }
        leaf.find(0).for_each(drop);
        leaf.stored_entries().for_each(drop);
        let _ = leaf.sorted_entries();
        format::zap::swap_block(&mut bytes.to_vec());
    };
    zap_leaf_change: |bytes| {
        // A damaged leaf may refuse a change, and must not be walked for ever.
        let mut block = bytes.to_vec();
        let Ok(mut leaf) = LeafMut::new(&mut block) else { return };
        let first = leaf.as_leaf().entries().next().map(|entry| entry.chunk());
        if let Some(chunk) = first {
            let _ = leaf.update(chunk, &Value::string("a longer value than before"));
            let _ = leaf.remove(chunk);
        }
        // Leaves are as large as a power of two.
        let mut other = vec![0; bytes.len().max(512)];
        let _ = leaf.split(&mut other, false);
    };
    zap_names: |bytes| {
        for flags in [0x10, 0x50, 0x20, 0x60, 0x01, 0x51] {
            let _ = format::zap::normalize(bytes, NormalizationFlags(flags));
        }
    };
};
