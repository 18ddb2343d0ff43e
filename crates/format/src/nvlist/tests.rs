use super::*;

fn everything() -> NvList {
    let mut inner = NvList::new();
    inner.set("id", 3_u64).set("type", "disk");
    let mut list = NvList::new();
    list.set("version", 5000_u64)
        .set("name", "tank")
        .set("flag", Value::Boolean)
        .set("yes", true)
        .set("byte", Value::Byte(200))
        .set("i8", Value::Int8(-3))
        .set("u8", Value::Uint8(250))
        .set("i16", Value::Int16(-300))
        .set("u16", Value::Uint16(60_000))
        .set("i32", -70_000_i32)
        .set("u32", 4_000_000_000_u32)
        .set("i64", -5_i64)
        .set("time", Value::HighResolutionTime(77))
        .set("bytes", Value::ByteArray(vec![1, 2, 3, 4, 5]))
        .set("u8s", Value::Uint8Array(vec![9, 8]))
        .set("i8s", Value::Int8Array(vec![-9, 8]))
        .set("i16s", Value::Int16Array(vec![-9, 8, 7]))
        .set("u16s", Value::Uint16Array(vec![9, 8, 7]))
        .set("i32s", Value::Int32Array(vec![-9]))
        .set("u32s", Value::Uint32Array(vec![]))
        .set("i64s", Value::Int64Array(vec![-9, i64::MIN]))
        .set("holes", vec![1_u64, 5])
        .set("bools", Value::BooleanArray(vec![true, false, true]))
        .set(
            "names",
            Value::StringArray(vec![b"a".to_vec(), vec![], b"longer".to_vec()]),
        )
        .set("tree", inner.clone())
        .set("children", vec![inner.clone(), NvList::new(), inner]);
    list
}

#[test]
fn the_known_example_is_encoded_byte_by_byte() {
    let mut list = NvList::new();
    list.set("version", 5000_u64);
    let xdr = [
        1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x24, 0, 0, 0, 0x20, 0, 0, 0, 7, b'v', b'e',
        b'r', b's', b'i', b'o', b'n', 0, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x13, 0x88, 0,
        0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(encode_xdr(&list), xdr);
    assert_eq!(decode_xdr(&xdr).unwrap(), list);
    let native = [
        0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x20, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0,
        b'v', b'e', b'r', b's', b'i', b'o', b'n', 0, 0x88, 0x13, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(encode_native(&list), native);
    assert_eq!(decode_native(&native).unwrap(), list);
}

#[test]
fn every_type_round_trips_in_both_encodings() {
    let list = everything();
    assert_eq!(decode_xdr(&encode_xdr(&list)).unwrap(), list);
    assert_eq!(decode_native(&encode_native(&list)).unwrap(), list);
    assert_eq!(list.str("name"), Some("tank"));
    assert_eq!(list.u64("version"), Some(5000));
    assert_eq!(list.u64s("holes"), [1, 5]);
    assert_eq!(list.lists("children").len(), 3);
    assert!(list.contains("flag") && !list.contains("flags"));
}

#[test]
fn lists_nest_twenty_deep_and_no_deeper() {
    let nest = |depth| {
        (0..depth).fold(NvList::new(), |inner, _| {
            let mut list = NvList::new();
            list.set("in", inner);
            list
        })
    };
    for (encode, decode) in [
        (
            encode_xdr as fn(&NvList) -> Vec<u8>,
            decode_xdr as fn(&[u8]) -> _,
        ),
        (encode_native, decode_native),
    ] {
        assert!(decode(&encode(&nest(20))).is_ok());
        let deep: Result<NvList, FormatError> = decode(&encode(&nest(21)));
        assert!(deep.is_err());
    }
}

#[test]
fn every_cut_and_every_changed_byte_is_survived() {
    for (bytes, decode) in [
        (
            encode_xdr(&everything()),
            decode_xdr as fn(&[u8]) -> Result<NvList, FormatError>,
        ),
        (encode_native(&everything()), decode_native),
    ] {
        for end in 0..bytes.len() {
            let _ = decode(&bytes[..end]);
        }
        for index in 0..bytes.len() {
            for value in [0, 1, 0x7F, 0x80, 0xFF] {
                let mut changed = bytes.clone();
                changed[index] = value;
                let _ = decode(&changed);
            }
        }
    }
}

use crate::FormatError;

proptest::proptest! {
    #[test]
    fn hostile_bytes_never_panic(bytes: Vec<u8>) {
        let _ = decode_xdr(&bytes);
        let _ = decode_native(&bytes);
        let mut xdr = vec![1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        xdr.extend_from_slice(&bytes);
        let _ = decode_xdr(&xdr);
    }
}
