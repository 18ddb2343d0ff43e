//! Object sets, dnodes, what their bonuses hold, and lists of blocks.

use super::blocks::words;
use crate::target::{ORDERS, Target, targets};
use base::ByteOrder;
use format::bookmark::BookmarkPhys;
use format::redaction::{RedactedRange, RedactionHead};
use format::{
    DnodePhys, ObjectSetPhys, ObjectType, bpobj, bptree, brt, deadlist, dedup, dsl, space_map,
    znode,
};

pub(super) const TARGETS: &[Target] = targets! {
    dnode: |bytes| {
        // What decodes must encode, and decode to the same again.
        let Ok(dnode) = DnodePhys::decode(bytes) else { return };
        let _ = (dnode.data_block_size(), dnode.entries_shift(), dnode.bonus_bytes().len());
        let _ = (dnode.used_bytes(), dnode.bonus_capacity());
        let mut encoded = vec![0; dnode.size()];
        dnode.encode(&mut encoded).expect("a decoded dnode encodes");
        assert_eq!(DnodePhys::decode(&encoded).as_ref(), Ok(&dnode));
    };
    dnode_block: |bytes| {
        format::dnode::slots(bytes).for_each(drop);
        let mut block = bytes.to_vec();
        format::swap::block(ObjectType::DNODE, 0, &mut block);
    };
    object_set: |bytes| {
        let _ = ObjectSetPhys::decode(bytes);
    };
    records: |bytes| {
        for order in ORDERS {
            let _ = dsl::DirectoryPhys::decode(bytes, order);
            let _ = dsl::DatasetPhys::decode(bytes, order).map(|dataset| dataset.is_snapshot());
            let _ = deadlist::DeadlistPhys::decode(bytes, order);
            let _ = bpobj::BpobjPhys::decode(bytes, order).map(|list| list.is_empty());
            let _ = bptree::BlockTreePhys::decode(bytes, order);
            let _ = bptree::BlockTreeEntry::decode(bytes, order);
            let _ = space_map::SpaceMapPhys::decode(bytes, order);
            let _ = brt::BlockReferencePhys::decode(bytes, order);
            let _ = znode::ZnodePhys::decode(bytes, order);
            if let Ok(ring) = format::history::HistoryPhys::decode(bytes, order)
                && ring.check().is_ok()
            {
                let _ = ring.physical(u64::MAX);
            }
        }
    };
    redaction_list: |bytes| {
        if let Ok((head, snapshots)) = RedactionHead::decode_with_snapshots(bytes) {
            let _ = head.is_complete();
            let again = RedactionHead::decode_with_snapshots(&head.encode_with_snapshots(&snapshots));
            assert_eq!(again, Ok((head, snapshots)));
        }
        let ranges = bytes.chunks(RedactedRange::SIZE);
        let mut ranges = ranges.filter_map(|piece| RedactedRange::decode(piece, ByteOrder::NATIVE).ok());
        let Some(mut last) = ranges.next() else { return };
        for range in ranges {
            let (count, end) = (last.count(), last.end());
            if last.join(&range) {
                assert_eq!((last.count(), end), (count + range.count(), range.first));
            } else {
                last = range;
            }
        }
    };
    bookmark: |bytes| {
        let words: Vec<u64> = words(bytes).collect();
        let _ = BookmarkPhys::from_words(&words);
        let value = format::zap::Value::words(&words);
        if let Ok(rebuild) = format::rebuild::Rebuild::from_value(&value) {
            assert_eq!(rebuild.to_value(), value);
        }
        if let Some(scan) = format::scan::ScanPhys::from_value(&value) {
            assert_eq!(scan.to_value(), value);
        }
        let _ = deadlist::parse_integer_key(bytes);
    };
    references: |bytes| {
        let [size, rest @ ..] = bytes else { return };
        if let Ok(value) = format::zap::Value::from_stored(*size, rest.to_vec()) {
            let _ = brt::entry_count(&value);
            let _ = (value.count(), value.stored().len());
        }
    };
    dedup_entries: |bytes| {
        if let Some((value, order)) = dedup::unpack(bytes) {
            let _ = dedup::addresses(&value, order);
        }
        for (_, value) in dedup::log_entries(bytes) {
            let _ = dedup::addresses(value, ByteOrder::NATIVE);
        }
    };
    system_attributes: |bytes| {
        if let Ok(Some(header)) = format::sa::Header::decode(bytes) {
            for index in 0..16 {
                let _ = header.variable_length(bytes, index);
            }
        }
        let [number, rest @ ..] = bytes else { return };
        if let Some(class) = format::sa::ValueClass::from_number(*number) {
            class.swap(&mut rest.to_vec());
        }
        let _ = format::sa::Attribute::from_name(rest);
    };
    acl: |bytes| {
        let [count, rest @ ..] = bytes else { return };
        let _ = format::acl::decode(rest, u64::from(*count));
        let _ = format::acl::decode_old(rest, u64::from(*count));
        let mut copy = rest.to_vec();
        format::acl::swap(&mut copy);
        format::acl::swap_old(&mut copy);
        format::znode::swap_bonus(&mut copy);
    };
};
