use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn behaves_as_bytes(
        steps in proptest::collection::vec((0u64..90_000, 0usize..40_000, any::<u8>()), 1..20)
    ) {
        let mut image = SparseImage::new();
        let mut model = vec![0u8; 140_000];
        for (offset, len, byte) in steps {
            let before = image.clone();
            let old = model.clone();
            if byte == 0 {
                image.clear(offset, len as u64);
            } else {
                image.write(offset, &vec![byte; len]);
            }
            model[offset as usize..offset as usize + len].fill(byte);
            let mut bytes = vec![1; model.len()];
            image.read(0, &mut bytes);
            prop_assert_eq!(&bytes, &model);
            before.read(0, &mut bytes);
            prop_assert_eq!(&bytes, &old, "a copy does not follow");
            prop_assert_eq!(before == image, old == model);
            prop_assert_eq!(before.digest() == image.digest(), old == model);
        }
    }
}
