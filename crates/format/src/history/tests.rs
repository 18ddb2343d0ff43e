use super::*;

#[test]
fn offsets_wrap_behind_the_creation_record() {
    let mut history = HistoryPhys::new(1 << 20);
    assert_eq!(history.ring_size, RING_SIZE_MIN);
    history.create_length = 1000;
    history.end = 1000;
    history.begin = 1000;
    assert!(history.check().is_ok());
    assert_eq!(history.physical(999), 999);
    assert_eq!(history.physical(RING_SIZE_MIN), 1000);
    assert_eq!(history.physical(RING_SIZE_MIN + 5), 1005);
    history.end = RING_SIZE_MIN + 1;
    assert!(history.check().is_err());
}

#[test]
fn records_carry_their_length_in_front() {
    let mut record = NvList::new();
    record.set(keys::COMMAND, "zpool create tank f");
    let bytes = encode_record(&record);
    let length = record_length(&bytes) as usize;
    assert_eq!(length + 8, bytes.len());
    assert_eq!(decode_record(&bytes[8..]).unwrap(), record);
}
