use base::ByteOrder::{Big, Little};
use proptest::prelude::*;

use super::*;

fn sample() -> Vec<u8> {
    (0..512_usize).map(|index| index as u8).collect()
}

fn sample_salt() -> Salt {
    Salt(std::array::from_fn(|index| index as u8))
}

const KNOWN_SUMS: [(Checksum, base::ByteOrder, [u64; 4]); 9] = [
    (
        Checksum::Fletcher2,
        Little,
        [
            0xefcfaf8f6f4f2f00,
            0xf0d0b09070503000,
            0x4a38261401efdd00,
            0xdac8b6a492806d80,
        ],
    ),
    (
        Checksum::Fletcher4,
        Little,
        [
            0x40c03fbf00,
            0xda342e27500,
            0x214fa7f828a80,
            0x3d9765c9f3c980,
        ],
    ),
    (
        Checksum::Fletcher4,
        Big,
        [
            0x3f3fc04080,
            0xd4262c315c0,
            0x204948f886b00,
            0x3b7e5b56b441e0,
        ],
    ),
    (
        Checksum::Sha256,
        Little,
        [
            0x110009dcee21620b,
            0x166f3abfecb5eff7,
            0xa873be729d1c2d53,
            0x822e7acc5f34eb9b,
        ],
    ),
    (
        Checksum::Sha256,
        Big,
        [
            0x110009dcee21620b,
            0x166f3abfecb5eff7,
            0xa873be729d1c2d53,
            0x822e7acc5f34eb9b,
        ],
    ),
    (
        Checksum::Sha512,
        Little,
        [
            0x6cf5b1411d91141d,
            0x0ea8ddb86fa627f0,
            0x991896779c0da9d7,
            0x3bdc08f7e9f3faed,
        ],
    ),
    (
        Checksum::Skein,
        Little,
        [
            0xdf06b17bad515284,
            0xc1074e6c80f80357,
            0x0564949cf231e28f,
            0x3b30efa65148a406,
        ],
    ),
    (
        Checksum::Edonr,
        Little,
        [
            0x86f009c293823406,
            0x1787f335116ef352,
            0x616de2d3955eb1e1,
            0x0f0e3039494fa11f,
        ],
    ),
    (
        Checksum::Blake3,
        Little,
        [
            0x68e5f03a15d32d73,
            0x2e2d8e52a9e2d91f,
            0xb6eb0668176e2d68,
            0x95bf9be2259b6c22,
        ],
    ),
];

#[test]
fn known_sums_of_a_known_block() {
    for (kind, order, words) in KNOWN_SUMS {
        let actual = checksum(kind, &sample(), order, &sample_salt());
        assert_eq!(
            actual.0.map(|w| format!("{w:x}")),
            words.map(|w| format!("{w:x}")),
            "{kind:?}"
        );
    }
}

#[test]
fn edonr_of_abc() {
    let hex: String = edonr::digest(b"abc")
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(
        hex,
        "1b14db155f1d406594b8cef70a4362ec6b5de6a5daf50ec999e987c19d3049e2\
         de5977bb05b1bb220050a1ea5b46a9f1740acafbf6b45032adc90c628372c22b"
    );
}

#[test]
fn digests_of_a_big_endian_writer_are_its_words() {
    for kind in [Checksum::Sha512, Checksum::Skein, Checksum::Blake3] {
        let little = checksum(kind, &sample(), Little, &sample_salt());
        let big = checksum(kind, &sample(), Big, &sample_salt());
        assert_eq!(little.0.map(u64::swap_bytes), big.0);
    }
}

#[test]
fn numbers_name_what_they_number() {
    for kind in Checksum::ALL {
        assert_eq!(Checksum::from_id(kind.id()), Ok(kind));
    }
    for id in [0, 1, 15, 255] {
        assert_eq!(Checksum::from_id(id), Err(CodecError::UnknownChecksum(id)));
    }
}

proptest! {
    #[test]
    fn every_fletcher4_kernel_equals_the_definition(
        data in prop::collection::vec(any::<u8>(), 0..3000),
    ) {
        prop_assert_eq!(
            fletcher::fletcher4(&data, Little),
            fletcher::scalar::<false>([0; 4], &data)
        );
        prop_assert_eq!(fletcher::fletcher4(&data, Big), fletcher::scalar::<true>([0; 4], &data));
        fletcher::tests_every_kernel(&data);
    }

    #[test]
    fn salts_may_follow_one_another(
        data in prop::collection::vec(any::<u8>(), 0..700),
        salts in prop::collection::vec(0_u8..3, 1..6),
    ) {
        for salt in salts.into_iter().map(|byte| [byte; 32]) {
            let first = edonr::digest(&salt);
            let second = edonr::digest(&first);
            let whole = edonr::digest(&[&first[..], &second[..], &data].concat());
            prop_assert_eq!(&edonr::salted(&salt, &data)[..], &whole[..32]);
            let skein = skein::skein_512_256(&salt, &data);
            // By a thread that remembers none.
            let alone = std::thread::scope(|scope| {
                scope.spawn(|| skein::skein_512_256(&salt, &data)).join().unwrap()
            });
            prop_assert_eq!(skein, alone);
        }
    }

    #[test]
    fn sums_of_edonr_are_those_of_its_definition(vector in any::<[u64; 8]>()) {
        edonr::tests_sums(&vector);
    }

    #[test]
    fn fletcher_of_swapped_words_in_the_other_order_is_the_same(
        words in prop::collection::vec(any::<u64>(), 0..64),
    ) {
        let little: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let big: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        prop_assert_eq!(
            fletcher::fletcher2(&little, Little),
            fletcher::fletcher2(&big, Big)
        );
    }
}

proptest! {
    /// Fletcher-4 of pieces is that of the whole, wherever it is cut.
    #[test]
    fn pieces_sum_up_to_the_whole(
        data in proptest::collection::vec(any::<u8>(), 0..4096),
        cuts in proptest::collection::vec(0..1024_usize, 0..5),
    ) {
        for order in [Little, Big] {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| (cut * 4).min(data.len() / 4 * 4)).collect();
            cuts.sort_unstable();
            let mut running = RunningFletcher4::default();
            let mut done = 0;
            for cut in cuts.into_iter().chain([data.len()]) {
                running.feed(&data[done..cut], order);
                done = cut;
            }
            let whole = checksum(Checksum::Fletcher4, &data, order, &Salt::default());
            prop_assert_eq!(running.value(), whole);
        }
    }
}
