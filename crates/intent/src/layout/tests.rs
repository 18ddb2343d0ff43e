use super::*;
use proptest::prelude::*;

fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        (6..RECORD_MAX / 8).prop_map(|words| Shape::Whole(words * 8)),
        (6..100_u64).prop_map(|words| Shape::Whole(words * 8)),
        (1..2_000_000_u64).prop_map(Shape::Data),
        (1..10_000_u64).prop_map(Shape::Data),
    ]
}

proptest! {
    #[test]
    fn everything_is_placed_in_order_and_fits(
        shapes in prop::collection::vec(shape(), 1..40),
        first in 1..=32_u64,
    ) {
        let blocks = place(&shapes, first * UNIT);
        let mut next = (0, 0);
        for (index, block) in blocks.iter().enumerate() {
            prop_assert!(block.size % UNIT == 0 && (UNIT..=BLOCK_MAX).contains(&block.size));
            prop_assert!(index == 0 || !block.pieces.is_empty());
            let mut used = HEAD;
            for piece in &block.pieces {
                prop_assert_eq!((piece.item, piece.start), next);
                match shapes[piece.item] {
                    Shape::Whole(bytes) => {
                        used += bytes;
                        next = (piece.item + 1, 0);
                    }
                    Shape::Data(length) => {
                        used += write_bytes(piece.length);
                        let end = piece.start + piece.length;
                        next = if end == length { (piece.item + 1, 0) } else { (piece.item, end) };
                    }
                }
            }
            prop_assert!(used <= block.size, "{used} bytes in a block of {}", block.size);
        }
        prop_assert_eq!(next, (shapes.len(), 0));
    }
}

#[test]
fn a_record_that_does_not_fit_leaves_the_first_block_empty() {
    let blocks = place(&[Shape::Whole(RECORD_MAX)], UNIT);
    assert_eq!(blocks.len(), 2);
    assert!(blocks[0].pieces.is_empty());
    assert_eq!(blocks[1].size, BLOCK_MAX);
}

#[test]
fn blocks_are_as_large_as_what_they_hold() {
    let sizes = |shapes: &[Shape]| -> Vec<u64> {
        place(shapes, UNIT).iter().map(|block| block.size).collect()
    };
    assert_eq!(sizes(&[Shape::Data(100)]), [UNIT]);
    // A page: 3720 bytes in the first block, the rest in a second small one.
    assert_eq!(sizes(&[Shape::Data(4096)]), [UNIT, UNIT]);
    assert_eq!(sizes(&[Shape::Data(100_000)]), [UNIT, 98_304]);
}
