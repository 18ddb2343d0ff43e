use super::*;

#[test]
fn registrations_as_seen_on_real_pools() {
    for (attribute, number, word) in [
        (Attribute::Parent, 7, 0x0800_0007),
        (Attribute::ZnodeAcl, 15, 0x5803_000F),
        (Attribute::Symlink, 17, 0x0003_0011),
        (Attribute::DaclAces, 19, 0x0004_0013),
        (Attribute::Atime, 0, 0x1000_0000),
        (Attribute::Scanstamp, 18, 0x2003_0012),
    ] {
        let found = Registration {
            number,
            length: attribute.length(),
            class: attribute.class(),
        };
        assert_eq!(found.pack(), word);
        assert_eq!(Registration::unpack(word).unwrap(), found);
    }
    assert!(Registration::unpack(0xff_0000).is_err());
}

#[test]
fn header_round_trip_and_sizes() {
    assert_eq!([0, 1, 2, 5, 6].map(header_size), [8, 8, 16, 16, 24]);
    let mut block = [0; 64];
    assert_eq!(Header::decode(&block).unwrap(), None);
    Header::encode(&mut block, 5, [24, 300]);
    let header = Header::decode(&block).unwrap().unwrap();
    assert_eq!(
        header,
        Header {
            order: ByteOrder::NATIVE,
            layout: 5,
            size: 16
        }
    );
    assert_eq!(header.variable_length(&block, 1), Some(300));
    assert_eq!(header.variable_length(&block, 5), None);
    assert!(Header::decode(&block[..12]).is_err());
    block[0] = 1;
    assert!(Header::decode(&block).is_err());
}

#[test]
fn a_swapped_header_is_understood() {
    let mut block = [0; 16];
    Header::encode(&mut block, 2, [24]);
    for (at, width) in [(0, 4), (4, 2), (6, 2)] {
        block[at..at + width].reverse();
    }
    let header = Header::decode(&block).unwrap().unwrap();
    assert_eq!((header.order, header.layout, header.size), (FOREIGN, 2, 8));
    assert_eq!(header.variable_length(&block, 0), Some(24));
}

#[test]
fn spill_begins_where_openzfs_spills() {
    // 168 bytes as every file has, of which the 24 of the access list are variable.
    let base = [(144, false), (24, true)];
    let with = |length| [base[0], base[1], (length, true)];
    assert_eq!(split(&base, 320), None);
    assert_eq!(split(&with(136), 320), None);
    assert_eq!(split(&with(137), 320), Some(2));
}
