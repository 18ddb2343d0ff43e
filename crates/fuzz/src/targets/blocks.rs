//! What the pool as a whole is described by: labels, uberblocks, configurations, block pointers, space, history.

use crate::target::{ORDERS, Target, targets};
use base::ByteOrder;
use codec::Checksum;
use format::{BlockPointer, ObjectType, Uberblock};

pub(super) const TARGETS: &[Target] = targets! {
    block_pointer: |bytes| {
        for order in ORDERS {
            let Ok(pointer) = BlockPointer::decode(bytes, order) else { continue };
            let _ = (pointer.to_string(), pointer.lsize(), pointer.psize(), pointer.checksum());
            let _ = (pointer.compression(), pointer.dvas().count(), pointer.is_gang());
            let _ = format::intent_log::ChainForm::of(&pointer);
            let _ = format::bpobj::is_freed(&format::bpobj::stored_pointer(&pointer, true));
        }
    };
    nvlist_xdr: |bytes| {
        let Ok(list) = format::nvlist::decode_xdr(bytes) else { return };
        let encoded = format::nvlist::encode_xdr(&list);
        assert_eq!(format::nvlist::decode_xdr(&encoded).as_ref(), Ok(&list));
        let _ = list.to_string();
    };
    nvlist_native: |bytes| {
        let Ok(list) = format::nvlist::decode_native(bytes) else { return };
        let encoded = format::nvlist::encode_native(&list);
        assert_eq!(format::nvlist::decode_native(&encoded).as_ref(), Ok(&list));
        let _ = list.to_string();
    };
    partitions: |bytes| {
        for found in format::partitions::partitions(bytes, &mut |at| sector_of(bytes, at)) {
            assert!(found.number > 0);
            assert!(0 < found.bytes.start && found.bytes.start < found.bytes.end);
        }
    };
    history_record: |bytes| {
        let _ = format::history::record_length(bytes);
        let _ = format::history::decode_record(bytes);
    };
    label_config: |bytes| {
        // With a checksum that is right, so that what is behind it is reached.
        let mut piece = bytes.to_vec();
        piece.resize(format::label::CONFIG_SIZE, 0);
        if format::label::seal(&mut piece, 16 << 10).is_ok() {
            let _ = format::label::decode_config(&piece, 16 << 10);
        }
        let _ = format::label::decode_config(bytes, 16 << 10);
    };
    uberblock: |bytes| {
        let _ = format::label::decode_uberblock(bytes, 128 << 10);
        let words: Vec<u64> = words(bytes).collect();
        let _ = Uberblock::from_words(&words);
        let Ok(uberblock) = Uberblock::read(bytes) else { return };
        let mut encoded = vec![0; 1024];
        uberblock.write(&mut encoded);
        assert_eq!(Uberblock::read(&encoded).as_ref(), Ok(&uberblock));
    };
    embedded_checksum: |bytes| {
        for kind in [Checksum::Label, Checksum::Zilog, Checksum::Zilog2] {
            let _ = format::embedded_checksum::verify(kind, bytes, [1, 2, 3, 4]);
            let mut block = bytes.to_vec();
            if format::embedded_checksum::seal(kind, &mut block, [1, 2, 3, 4]).is_ok() {
                let verified = format::embedded_checksum::verify(kind, &block, [1, 2, 3, 4]);
                assert_eq!(verified, Ok(ByteOrder::NATIVE));
            }
        }
    };
    gang_header: |bytes| {
        if let Ok(leader) = BlockPointer::decode(bytes, ByteOrder::Little) {
            let _ = format::gang::GangHeader::decode(bytes, &leader);
        }
    };
    removed_vdev: |bytes| {
        for order in ORDERS {
            for piece in bytes.chunks(24) {
                let Some(entry) = format::indirect::MappingEntry::decode(piece, order) else { continue };
                let mut encoded = [0; 24];
                entry.encode(&mut encoded, order);
                assert_eq!(format::indirect::MappingEntry::decode(&encoded, order), Some(entry));
            }
        }
        let words: Vec<u64> = words(bytes).collect();
        let removing = format::indirect::Removing::from_words(&words);
        assert!(removing.is_none_or(|removing| removing.to_words()[..] == words[..]));
        let condensing = format::indirect::Condensing::from_words(&words);
        assert!(condensing.is_none_or(|condensing| condensing.to_words()[..] == words[..]));
    };
    space_map: |bytes| {
        let [shift, rest @ ..] = bytes else { return };
        format::space_map::decode(rest, u32::from(*shift)).for_each(drop);
    };
    swap: |bytes| {
        let [kind, level, rest @ ..] = bytes else { return };
        let mut block = rest.to_vec();
        format::swap::block(ObjectType(*kind), *level & 1, &mut block);
    };
};

/// Whole little-endian words.
pub(super) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let words = bytes.as_chunks::<8>().0.iter();
    words.map(|word| u64::from_le_bytes(*word))
}

/// A sector of bytes that are a whole disk.
fn sector_of(bytes: &[u8], at: u64) -> Option<format::partitions::Sector> {
    let at = usize::try_from(at).ok()?;
    bytes.get(at..)?.first_chunk().copied()
}
