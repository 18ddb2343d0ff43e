use proptest::prelude::*;

use super::*;

const KINDS: [Compression; 8] = [
    Compression::Lzjb,
    Compression::Gzip(1),
    Compression::Gzip(6),
    Compression::Gzip(9),
    Compression::Zle,
    Compression::Lz4,
    Compression::Zstd(ZstdLevel::DEFAULT),
    Compression::Off,
];

/// Bytes with the repetitions and zeros that compressors live on.
fn compressible() -> impl Strategy<Value = Vec<u8>> {
    let run = prop_oneof![
        (1_usize..300).prop_map(|length| vec![0_u8; length]),
        (any::<u8>(), 1_usize..100).prop_map(|(byte, length)| vec![byte; length]),
        prop::collection::vec(any::<u8>(), 1..80),
        Just(b"the quick brown fox jumps over the lazy dog".to_vec()),
    ];
    prop::collection::vec(run, 1..40).prop_map(|runs| runs.concat())
}

proptest! {
    #[test]
    fn what_is_compressed_comes_back(data in compressible()) {
        for kind in KINDS {
            let mut packed = vec![0_u8; data.len() * 2 + 64];
            let Some(length) = compress(kind, &data, &mut packed) else {
                prop_assert!(kind.is_off());
                continue;
            };
            let mut back = vec![0xAA_u8; data.len()];
            prop_assert_eq!(decompress(kind, &packed[..length], &mut back), Ok(()));
            prop_assert_eq!(&back, &data);
            // The zero padding of a sector is not part of the stream.
            prop_assert_eq!(decompress(kind, &packed, &mut back), Ok(()));
            prop_assert_eq!(&back, &data);
        }
    }

    #[test]
    fn an_independent_lz4_agrees(data in compressible()) {
        let mut packed = vec![0_u8; data.len() * 2 + 64];
        let length = compress(Compression::Lz4, &data, &mut packed).expect("room");
        let back = lz4_flex::block::decompress(&packed[4..length], data.len());
        prop_assert!(back.is_ok_and(|back| back == data));
        let theirs = lz4_flex::block::compress(&data);
        let mut framed = u32::try_from(theirs.len()).expect("small").to_be_bytes().to_vec();
        framed.extend(theirs);
        let mut back = vec![0_u8; data.len()];
        prop_assert_eq!(decompress(Compression::Lz4, &framed, &mut back), Ok(()));
        prop_assert_eq!(back, data);
    }

    #[test]
    fn random_bytes_never_panic(
        data in prop::collection::vec(any::<u8>(), 0..600),
        size in 0_usize..5000,
    ) {
        let mut output = vec![0_u8; size];
        for kind in KINDS {
            let _ = decompress(kind, &data, &mut output);
        }
    }

    #[test]
    fn a_short_budget_is_refused_not_overrun(data in compressible(), budget in 0_usize..200) {
        for kind in KINDS {
            let mut packed = vec![0_u8; budget];
            if let Some(length) = compress(kind, &data, &mut packed) {
                prop_assert!(length <= budget);
                let mut back = vec![0_u8; data.len()];
                prop_assert_eq!(decompress(kind, &packed[..length], &mut back), Ok(()));
                prop_assert_eq!(&back, &data);
            }
        }
    }
}

#[test]
fn wrong_sizes_are_refused() {
    let data = b"abcabcabcabcabcabcabcabcabcabcabcabcabcabcabc".repeat(20);
    for kind in [
        Compression::Lz4,
        Compression::Gzip(6),
        Compression::Zstd(ZstdLevel::DEFAULT),
    ] {
        let mut packed = vec![0_u8; 2000];
        let length = compress(kind, &data, &mut packed).expect("compressible");
        let mut longer = vec![0_u8; data.len() + 1];
        assert!(
            decompress(kind, &packed[..length], &mut longer).is_err(),
            "{kind:?}"
        );
        let mut shorter = vec![0_u8; data.len() - 1];
        assert!(
            decompress(kind, &packed[..length], &mut shorter).is_err(),
            "{kind:?}"
        );
    }
}

#[test]
fn numbers_name_what_they_number() {
    for id in 2..=16 {
        assert_eq!(Compression::from_id(id).map(Compression::id), Ok(id));
    }
    for id in [0, 1, 17, 127, 255] {
        assert_eq!(
            Compression::from_id(id),
            Err(CodecError::UnknownCompression(id))
        );
    }
}

#[test]
fn zstd_levels_and_codes_correspond() {
    for level in 1..=19 {
        assert_eq!(
            ZstdLevel::from_level(level).map(ZstdLevel::code),
            Some(level as u8)
        );
    }
    for (level, code) in [
        (-1, 103),
        (-10, 112),
        (-20, 113),
        (-90, 120),
        (-100, 121),
        (-1000, 123),
    ] {
        assert_eq!(
            ZstdLevel::from_level(level).map(ZstdLevel::code),
            Some(code)
        );
        assert_eq!(
            ZstdLevel::from_code(code).map(ZstdLevel::level),
            Some(level)
        );
    }
    assert_eq!(ZstdLevel::from_level(0), None);
    assert_eq!(ZstdLevel::from_level(20), None);
    assert_eq!(ZstdLevel::from_level(-11), None);
}

#[test]
fn zstd_early_abort_keeps_the_chosen_level() {
    let data: Vec<u8> = (0..200_000_u32)
        .flat_map(|n| (n / 7).to_le_bytes())
        .collect();
    let mut packed = vec![0_u8; data.len()];
    let level = ZstdLevel::from_level(5).expect("a level");
    let length = compress(Compression::Zstd(level), &data, &mut packed).expect("compressible");
    assert_eq!(packed[4], 5);
    assert_eq!(
        packed[8] & 0b1110_0111,
        0,
        "no content size, checksum or dictionary id"
    );
    let mut back = vec![0_u8; data.len()];
    decompress(Compression::Zstd(level), &packed[..length], &mut back).expect("own stream");
    assert_eq!(back, data);
}
