//! The targets: every decoder that takes bytes from disk, the kernel or the network.

use codec::Compression;
use format::{DnodePhys, ObjectSetPhys, ObjectType};

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

targets! {
    dnode: |bytes| {
        // What decodes must encode, and decode to the same again.
        let Ok(dnode) = DnodePhys::decode(bytes) else { return };
        let mut encoded = vec![0; dnode.size()];
        dnode.encode(&mut encoded).expect("a decoded dnode encodes");
        assert_eq!(DnodePhys::decode(&encoded).as_ref(), Ok(&dnode));
    };
    object_set: |bytes| {
        let _ = ObjectSetPhys::decode(bytes);
    };
    swap: |bytes| {
        let [kind, level, rest @ ..] = bytes else { return };
        let mut block = rest.to_vec();
        format::object_type::swap(ObjectType(*kind), *level & 1, &mut block);
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
    };
}
