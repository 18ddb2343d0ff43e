use super::*;

/// The root pointer of a small pool, as OpenZFS wrote it.
fn sample() -> BlockPointer {
    BlockPointer {
        words: [
            0x1,
            0x42143,
            0x1,
            0x8612,
            0x1,
            0x4809b,
            0x800b_070f_0000_0007,
            0,
            0,
            0,
            0x2b,
            0x3c,
            0x8_cf6c_4d75,
            0x38d_9e76_a570,
            0xbaaa_5e55_4ac0,
            0x001a_0002_9a90_b620,
        ],
    }
}

#[test]
fn the_root_pointer_of_a_real_pool_reads_as_zdb_says() {
    let pointer = sample();
    assert!(pointer.check(Txg(0x2b)).is_ok());
    assert!(pointer.check(Txg(0x2a)).is_err());
    assert_eq!((pointer.lsize(), pointer.psize()), (4096, 512));
    assert_eq!(pointer.object_type(), ObjectType(11));
    assert_eq!(pointer.checksum().unwrap(), Checksum::Fletcher4);
    assert_eq!(pointer.compression().unwrap(), Compression::Lz4);
    assert_eq!((pointer.birth(), pointer.fill()), (Txg(43), 60));
    assert_eq!(pointer.copies(), 3);
    let dva = pointer.dva(0).unwrap();
    assert_eq!(
        (dva.offset, dva.asize, dva.gang),
        (0x42143 << 9, 512, false)
    );
    assert!(!pointer.is_hole() && !pointer.is_gang() && !pointer.is_embedded());
    assert_eq!(pointer.byte_order(), ByteOrder::Little);
}

#[test]
fn either_byte_order_round_trips() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut bytes = [0; SIZE];
        sample().encode(&mut bytes, order);
        assert_eq!(BlockPointer::decode(&bytes, order).unwrap(), sample());
    }
    assert!(BlockPointer::decode(&[0; 127], ByteOrder::Little).is_err());
}

#[test]
fn embedded_payload_round_trips() {
    for length in [1, 7, 8, 9, 55, 111, 112] {
        let bytes: Vec<u8> = (0..length).map(|byte| byte as u8 ^ 0x5A).collect();
        let pointer = BlockPointer::embedded(
            ObjectType::PLAIN_FILE,
            131_072,
            Compression::Lz4,
            Txg(9),
            &bytes,
        )
        .unwrap();
        let mut payload = [0; EMBEDDED_PAYLOAD_MAX];
        assert_eq!(pointer.embedded_payload(&mut payload), length);
        assert_eq!(&payload[..length], &bytes[..]);
        assert_eq!((pointer.lsize(), pointer.birth()), (131_072, Txg(9)));
        assert!(pointer.check(Txg(9)).is_ok());
        assert_eq!((pointer.dva(0), pointer.fill()), (None, 1));
    }
    let long = [0; 113];
    let none = BlockPointer::embedded(ObjectType(19), 512, Compression::Lz4, Txg(1), &long);
    assert!(none.is_none());
}

#[test]
fn setters_build_what_accessors_read() {
    let mut pointer = BlockPointer::for_block(ObjectType::DNODE, 3, 16_384, 4096);
    let dva = Dva {
        vdev: VdevId(0x12_3456),
        offset: 0x7FFF_FFFF_FFFF << 9,
        asize: 8192,
        gang: true,
    };
    pointer.set_dvas(&[dva, dva]);
    pointer.set_birth(Txg(7), Txg(5));
    pointer.set_fill(31);
    pointer.set_checksum(Checksum::Sha256, ChecksumValue([1, 2, 3, 4]));
    pointer.set_compression(Compression::Lz4);
    assert_eq!(pointer.dvas().collect::<Vec<_>>(), [dva, dva]);
    assert!(pointer.is_gang());
    assert_eq!(
        (pointer.birth(), pointer.physical_birth()),
        (Txg(7), Txg(5))
    );
    assert_eq!((pointer.level(), pointer.fill()), (3, 31));
    assert_eq!(pointer.checksum_value(), ChecksumValue([1, 2, 3, 4]));
    let hole = BlockPointer::hole_with_birth(131_072, ObjectType::PLAIN_FILE, 1, Txg(8));
    assert!(hole.is_hole());
    assert_eq!((hole.lsize(), hole.psize(), hole.level()), (131_072, 0, 1));
    assert_eq!((hole.birth(), hole.physical_birth()), (Txg(8), Txg(8)));
    assert_eq!(hole.words[9], 0);
}

/// By a block that was written anew, three questions have three answers.
#[test]
fn a_block_that_was_written_anew_has_two_births() {
    let mut block = sample();
    block.set_rewritten_birth(Txg(7), Txg(29));
    assert!(block.is_rewritten());
    assert_eq!(block.words[7], 1 << 63);
    let births = (block.birth(), block.physical_birth(), block.space_birth());
    assert_eq!(births, (Txg(7), Txg(29), Txg(29)));
    // A reference is as old as itself.
    block.set_birth(Txg(35), Txg(29));
    assert!(!block.is_rewritten());
    assert_eq!(block.words[7], 0);
    assert_eq!(block.space_birth(), Txg(35));
    // What is no older than the block is an ordinary one.
    block.set_birth(Txg(40), Txg(40));
    block.set_rewritten_birth(Txg(40), Txg(40));
    assert!(!block.is_rewritten());
}

/// The payload of an embedded pointer has that bit, too.
#[test]
fn an_embedded_pointer_is_not_written_anew() {
    let kind = ObjectType::PLAIN_FILE;
    let payload = [0xFF; EMBEDDED_PAYLOAD_MAX];
    let made = BlockPointer::embedded(kind, 512, Compression::Lz4, Txg(7), &payload);
    let mut block = made.expect("it fits");
    let was = block;
    block.set_rewritten_birth(Txg(3), Txg(9));
    assert_eq!(block, was);
    assert!(!block.is_rewritten());
    assert_eq!(block.space_birth(), Txg(7));
}

proptest::proptest! {
    #[test]
    fn no_words_make_an_accessor_panic(words: [u64; 16]) {
        let pointer = BlockPointer { words };
        let _ = pointer.check(Txg(1000));
        let _ = pointer.to_string();
        let _ = (pointer.asize(), pointer.copies(), pointer.uncompressed_charge());
        let _ = pointer.embedded_payload(&mut [0; EMBEDDED_PAYLOAD_MAX]);
    }
}
