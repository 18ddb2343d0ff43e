//! The targets: every decoder that takes bytes from disk, the kernel or the network.

use base::ByteOrder;
use codec::Compression;
use format::intent_log::{ChainElement, ChainForm, Records};
use format::zap::{FatHeader, Leaf, LeafMut, Micro, NormalizationFlags};
use format::{BlockPointer, DnodePhys, ObjectSetPhys, ObjectType, Uberblock};

/// One target. It must not panic, hang, or allocate out of proportion, whatever the bytes.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&[u8]),
}

macro_rules! targets {
    ($($name:ident: $run:expr;)*) => {
        /// Every target.
        pub(crate) const TARGETS: &[Target] =
            &[$(Target { name: stringify!($name), run: $run }),*];
    };
}

const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

targets! {
    dnode: |bytes| {
        // What decodes must encode, and decode to the same again.
        let Ok(dnode) = DnodePhys::decode(bytes) else { return };
        let mut encoded = vec![0; dnode.size()];
        dnode.encode(&mut encoded).expect("a decoded dnode encodes");
        assert_eq!(DnodePhys::decode(&encoded).as_ref(), Ok(&dnode));
    };
    dnode_block: |bytes| {
        format::dnode::slots(bytes).for_each(drop);
    };
    object_set: |bytes| {
        let _ = ObjectSetPhys::decode(bytes);
    };
    swap: |bytes| {
        let [kind, level, rest @ ..] = bytes else { return };
        let mut block = rest.to_vec();
        format::swap::block(ObjectType(*kind), *level & 1, &mut block);
    };
    block_pointer: |bytes| {
        for order in ORDERS {
            let Ok(pointer) = BlockPointer::decode(bytes, order) else { continue };
            let _ = (pointer.to_string(), pointer.lsize(), pointer.psize(), pointer.checksum());
            let _ = (pointer.compression(), pointer.dvas().count());
        }
    };
    nvlist_xdr: |bytes| {
        let Ok(list) = format::nvlist::decode_xdr(bytes) else { return };
        let encoded = format::nvlist::encode_xdr(&list);
        assert_eq!(format::nvlist::decode_xdr(&encoded).as_ref(), Ok(&list));
        let _ = list.to_string();
    };
    nvlist_native: |bytes| {
        let _ = format::nvlist::decode_native(bytes);
    };
    history_record: |bytes| {
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
        let Ok(uberblock) = Uberblock::read(bytes) else { return };
        let mut encoded = vec![0; 1024];
        uberblock.write(&mut encoded);
        assert_eq!(Uberblock::read(&encoded).as_ref(), Ok(&uberblock));
    };
    gang_header: |bytes| {
        if let Ok(leader) = BlockPointer::decode(bytes, ByteOrder::Little) {
            let _ = format::gang::GangHeader::decode(bytes, &leader);
        }
    };
    space_map: |bytes| {
        let [shift, rest @ ..] = bytes else { return };
        format::space_map::decode(rest, u32::from(*shift)).for_each(drop);
    };
    zap_micro: |bytes| {
        if let Ok(zap) = Micro::new(bytes) {
            zap.entries().for_each(drop);
        }
    };
    zap_header: |bytes| {
        if let Ok(header) = FatHeader::read(bytes) {
            let _ = (header.is_embedded(), header.table_index(u64::MAX));
            let _ = format::zap::fat::embedded_entry(bytes, u64::MAX);
        }
    };
    zap_leaf: |bytes| {
        let Ok(leaf) = Leaf::new(bytes) else { return };
        for entry in leaf.entries() {
            let _ = (entry.name(), entry.words(), entry.value(), entry.word_value());
        }
        leaf.find(0).for_each(drop);
        let _ = leaf.sorted_entries();
    };
    zap_leaf_change: |bytes| {
        // A damaged leaf may refuse a change, and must not be walked for ever.
        let mut block = bytes.to_vec();
        let Ok(mut leaf) = LeafMut::new(&mut block) else { return };
        let first = leaf.as_leaf().entries().next().map(|entry| entry.chunk());
        if let Some(chunk) = first {
            let _ = leaf.update(chunk, &format::zap::Value::string("a longer value than before"));
            let _ = leaf.remove(chunk);
        }
        let mut other = vec![0; leaf_size(bytes)];
        let _ = leaf.split(&mut other, false);
    };
    zap_names: |bytes| {
        for flags in [0x10, 0x50, 0x20, 0x60, 0x01, 0x51] {
            let _ = format::zap::normalize(bytes, NormalizationFlags(flags));
        }
    };
    system_attributes: |bytes| {
        if let Ok(Some(header)) = format::sa::Header::decode(bytes) {
            for index in 0..16 {
                let _ = header.variable_length(bytes, index);
            }
        }
    };
    acl: |bytes| {
        let [count, rest @ ..] = bytes else { return };
        let _ = format::acl::decode(rest, u64::from(*count));
        let _ = format::acl::decode_old(rest, u64::from(*count));
        let mut copy = rest.to_vec();
        format::acl::swap(&mut copy);
        format::znode::swap_bonus(&mut copy);
    };
    bookmark: |bytes| {
        let words: Vec<u64> = bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word))
            .collect();
        let _ = format::bookmark::BookmarkPhys::from_words(&words);
        let _ = format::deadlist::parse_integer_key(bytes);
    };
    log_block: |bytes| {
        for form in [ChainForm::Old, ChainForm::Slim] {
            let Ok((element, order)) = ChainElement::find(bytes, form) else { continue };
            let Ok(range) = form.records(&element, bytes.len()) else { continue };
            Records::new(&bytes[range], order).for_each(drop);
        }
    };
    log_records: |bytes| {
        for order in ORDERS {
            for record in Records::new(bytes, order).flatten() {
                record.pointers().for_each(drop);
            }
        }
    };
    decompress: |bytes| {
        let mut output = vec![0; 128 << 10];
        for kind in [Compression::Lzjb, Compression::Zle, Compression::Gzip(6), Compression::Lz4] {
            let _ = codec::decompress(kind, bytes, &mut output);
        }
        if let Some(level) = codec::ZstdLevel::from_level(3) {
            let _ = codec::decompress(Compression::Zstd(level), bytes, &mut output);
        }
    };
    round_trip: |bytes| {
        let mut packed = vec![0; bytes.len()];
        let mut output = vec![0; bytes.len()];
        for kind in [Compression::Lzjb, Compression::Zle, Compression::Gzip(1), Compression::Lz4] {
            if let Some(length) = codec::compress(kind, bytes, &mut packed) {
                codec::decompress(kind, &packed[..length], &mut output).expect("our own output decodes");
                assert_eq!(output, bytes);
            }
        }
    };
    fuse_request: |bytes| {
        let _ = fuse::wire::decode_request(bytes, fuse::wire::Dialect::default());
        // With a length that is right, so that what is behind the header is reached.
        let mut message = bytes.to_vec();
        if let (Some(length), Ok(real)) = (message.first_chunk_mut(), u32::try_from(bytes.len())) {
            *length = real.to_ne_bytes();
            let _ = fuse::wire::decode_request(&message, fuse::wire::Dialect::default());
        }
    };
}

/// Leaves are as large as a power of two.
fn leaf_size(bytes: &[u8]) -> usize {
    bytes.len().max(512)
}
