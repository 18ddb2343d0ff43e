use base::{ByteOrder, ObjectId, Txg};
use proptest::prelude::*;

use super::*;

#[test]
fn records_are_walked_in_either_order() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut block = vec![0; 48 + 56];
        let header = RecordHeader {
            kind: kind::REMOVE,
            length: 48,
            txg: Txg(9),
            sequence: 1,
        };
        header.encode(&mut block, order);
        DirectoryFields {
            directory: ObjectId(34),
        }
        .encode(&mut block, order);
        block[40..44].copy_from_slice(b"name");
        let header = RecordHeader {
            kind: kind::TRUNCATE,
            length: 56,
            txg: Txg(9),
            sequence: 2,
        };
        header.encode(&mut block[48..], order);
        let records: Vec<_> = Records::new(&block, order)
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(records.len(), 2);
        assert_eq!(
            records[0].body,
            Body::Remove(DirectoryFields {
                directory: ObjectId(34)
            })
        );
        assert_eq!(records[0].name_at(0), Some((b"name".as_slice(), 5)));
        assert!(matches!(records[1].body, Body::Truncate(_)));
    }
}

proptest! {
    #[test]
    fn hostile_logs_never_panic(
        mut block in proptest::collection::vec(any::<u8>(), 0..600),
        kind in 0u64..30,
        length in 0u8..80,
    ) {
        if block.len() > 16 {
            block[..8].copy_from_slice(&kind.to_le_bytes());
            block[8..16].copy_from_slice(&(u64::from(length) * 8).to_le_bytes());
        }
        for record in Records::new(&block, ByteOrder::Little).flatten() {
            let _ = record.name_at(0);
            let _ = record.pointers().count();
        }
        for form in [ChainForm::Old, ChainForm::Slim] {
            if let Ok((element, _)) = ChainElement::find(&block, form) {
                let _ = form.records(&element, block.len());
            }
        }
    }
}
