use base::ByteOrder;

use super::*;

#[test]
fn directories_and_datasets_round_trip() {
    let mut bytes = [0; 320];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = index as u8;
    }
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let dataset = DatasetPhys::decode(&bytes, order).unwrap();
        let mut out = bytes;
        dataset.encode(&mut out, order);
        assert_eq!(out, bytes);
        let directory = DirectoryPhys::decode(&bytes, order).unwrap();
        directory.encode(&mut out, order);
        assert_eq!(out, bytes);
        assert!(DatasetPhys::decode(&bytes[..319], order).is_err());
    }
    assert_eq!(UsedBy::RefReservation.index(), 4);
}
