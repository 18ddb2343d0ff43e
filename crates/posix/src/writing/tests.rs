use super::grown_block_size;

#[test]
fn block_sizes_as_openzfs_chooses_them() {
    const R: u64 = 128 << 10;
    for (block, record, end, new) in [
        (512, R, 1, 512),
        (512, R, 513, 1024),
        (512, R, 5000, 5120),
        (5120, R, 5121, 5632),
        (512, R, R, R),
        (512, R, R + 1, R),
        (5120, R, 1 << 30, R),
        (R, R, 1 << 30, R),
        // The record size rose: a power of two below it still grows.
        (R, 8 * R, R + 1, R + 512),
        // It fell: an odd block grows to the next power of two at most.
        (5120, 4096, 5121, 5632),
        (5120, 4096, 1 << 20, 8192),
        (8192, 4096, 1 << 20, 8192),
    ] {
        assert_eq!(
            grown_block_size(block, record, end),
            new,
            "{block} {record} {end}"
        );
    }
}
