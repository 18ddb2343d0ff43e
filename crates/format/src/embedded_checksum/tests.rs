use super::*;

/// The trailer words that OpenZFS writes for an empty boot environment in label 0.
#[test]
fn the_empty_boot_environment_has_the_known_sum() {
    let mut block = [0; 8192];
    seal(Checksum::Label, &mut block, label_verifier(8192)).unwrap();
    let words: [u64; 4] = get_at(&block, 8192 - 32, ByteOrder::NATIVE);
    assert_eq!(
        words,
        [
            0x97f4_8f80_7f6e_2a3f,
            0xaf90_9f16_58aa_cefc,
            0xcbd1_ea57_ff6d_b48b,
            0x6ec6_92db_0d46_5fab,
        ]
    );
    assert!(verify(Checksum::Label, &block, label_verifier(8192)).is_ok());
    assert!(verify(Checksum::Label, &block, label_verifier(8191)).is_err());
    block[17] ^= 1;
    assert!(verify(Checksum::Label, &block, label_verifier(8192)).is_err());
}

#[test]
fn a_block_of_the_other_byte_order_verifies() {
    let mut block = vec![7; 512];
    let order = ByteOrder::Big;
    put_at(&mut block, 472, &MAGIC, order);
    put_at(&mut block, 480, &[5_u64, 0, 0, 0], order);
    let value = checksum(Checksum::GangHeader, &block, order, &Salt::default());
    put_at(&mut block, 480, &value.0, order);
    let found = verify(Checksum::GangHeader, &block, [5, 0, 0, 0]);
    assert_eq!(found.unwrap(), ByteOrder::Big);
}

#[test]
fn intent_log_blocks_are_summed_as_far_as_they_are_used() {
    let mut block = vec![0; 8192];
    put_at(&mut block, CHAIN_USED, &200_u64, ByteOrder::NATIVE);
    seal(Checksum::Zilog2, &mut block, [1, 2, 3, 4]).unwrap();
    block[4096] = 9;
    assert!(verify(Checksum::Zilog2, &block, [1, 2, 3, 4]).is_ok());
    block[4095] = 9;
    assert!(verify(Checksum::Zilog2, &block, [1, 2, 3, 4]).is_err());
    put_at(&mut block, CHAIN_USED, &u64::MAX, ByteOrder::NATIVE);
    assert!(verify(Checksum::Zilog2, &block, [1, 2, 3, 4]).is_err());
}

#[test]
fn short_blocks_are_refused() {
    for length in 0..40 {
        let block = vec![0; length];
        assert!(verify(Checksum::Label, &block, [0; 4]).is_err());
        assert!(verify(Checksum::Zilog2, &block, [0; 4]).is_err());
    }
}
