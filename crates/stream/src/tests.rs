use std::io::Read;

use base::{ByteOrder, Guid, ObjectId};
use format::NvList;
use format::stream::*;

use super::*;

fn begin(header: Header, name: &[u8]) -> BeginRecord {
    BeginRecord {
        payload_length: 0,
        magic: 0,
        version_info: header.version_info(Features::SA_SPILL.union(Features::COMPRESSED)),
        creation_time: 1_700_000_000,
        object_set_kind: 2,
        flags: FLAG_FREE_RECORDS | FLAG_SPILL_BLOCK,
        to_guid: Guid(0x1122_3344_5566_7788),
        from_guid: Guid(5),
        name: name_field(name),
    }
}

/// Every kind of record with a payload of the right length, all fields nonzero.
fn records() -> Vec<(Record, Vec<u8>)> {
    // Bytes of a nonzero record of the kind: what a struct decodes from them, it encodes to them again.
    let decode = |kind: u32, fix: &dyn Fn(&mut Record)| {
        let mut bytes = [0x41; RECORD_SIZE];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        let mut record = Record::decode(&bytes, ByteOrder::Little).unwrap();
        fix(&mut record);
        let length = record.payload_length().unwrap();
        let payload = (0..length).map(|at| (at % 251) as u8).collect();
        (record, payload)
    };
    let shorten = |record: &mut Record| match record {
        Record::Object(object) => object.raw_bonus_length = 320,
        Record::Write(write) => write.compressed_size = 1024,
        Record::Spill(spill) => spill.compressed_size = 512,
        Record::WriteEmbedded(embedded) => embedded.physical_size = 59,
        _ => {}
    };
    let plain = |record: &mut Record| match record {
        Record::Object(object) => (object.raw_bonus_length, object.bonus_length) = (0, 45),
        Record::Write(write) => (write.compression, write.logical_size) = (0, 2048),
        Record::Spill(spill) => (spill.compressed_size, spill.length) = (0, 4096),
        Record::WriteEmbedded(embedded) => embedded.physical_size = 8,
        _ => {}
    };
    let kinds = [1, 2, 3, 4, 6, 7, 8, 9, 10];
    let both = kinds.map(|kind| [decode(kind, &shorten), decode(kind, &plain)]);
    both.into_iter().flatten().collect()
}

fn package(order: ByteOrder) -> Vec<u8> {
    let mut writer = Writer::in_order(Vec::new(), order);
    let mut list = NvList::new();
    list.set("tosnap", "s");
    let features = Features::SA_SPILL;
    writer
        .begin_package(b"p/a@s", features, Some(&list))
        .unwrap();
    for name in [b"p/a@s", b"p/b@s"] {
        writer
            .begin(begin(Header::Substream, name), Some(&list))
            .unwrap();
        for (record, payload) in records() {
            writer.record(&record, &payload).unwrap();
        }
        writer.end(Guid(7)).unwrap();
    }
    writer.end_package().unwrap();
    let length = writer.position();
    let bytes = writer.into_output();
    assert_eq!(length, bytes.len() as u64);
    bytes
}

fn read_all(input: impl Read) -> Result<Vec<(Item, Vec<u8>)>, StreamError> {
    let mut reader = Reader::new(input);
    let mut payload = Vec::new();
    let mut all = Vec::new();
    loop {
        // Both ways of reading, in turn.
        let next = if all.len() % 2 == 0 {
            let item = reader.next(&mut payload)?;
            item.map(|item| (item, payload.clone()))
        } else {
            reader.next_in(|length| vec![0xee; length])?
        };
        let Some(next) = next else { return Ok(all) };
        all.push(next);
    }
}

#[test]
fn a_package_is_read_as_it_was_written_in_both_orders() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let bytes = package(order);
        let mut with_more = bytes.clone();
        with_more.extend_from_slice(b"what follows is not the stream's");
        let mut rest = &with_more[..];
        let all = read_all(&mut rest).unwrap();
        assert_eq!(rest.len(), with_more.len() - bytes.len());
        let parts: Vec<Part> = all.iter().map(|(item, _)| item.part).collect();
        let ours = records().len() + 2;
        assert_eq!(&parts[..2], &[Part::Package; 2]);
        assert_eq!(
            &parts[2..2 + 2 * ours],
            &vec![Part::Substream; 2 * ours][..]
        );
        assert_eq!(&parts[2 + 2 * ours..], &[Part::Package]);
        let list = decode_list(&all[0].1).unwrap().unwrap();
        assert_eq!(list.str("tosnap"), Some("s"));
        let Record::Begin(second) = &all[2 + ours].0.record else {
            panic!("no second stream");
        };
        assert_eq!(begin_name(second), b"p/b@s");
        let read = all[3..3 + records().len()].iter();
        let read: Vec<_> = read
            .map(|(item, payload)| (item.record.clone(), payload.clone()))
            .collect();
        assert!(read == records(), "{order:?}");
    }
}

#[test]
fn every_byte_that_is_flipped_is_noticed() {
    let bytes = package(ByteOrder::NATIVE);
    let ends = [312 + 8..312 + 312, bytes.len() - 304..bytes.len()];
    let mut unseen = Vec::new();
    for at in (0..bytes.len()).step_by(7) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x10;
        if read_all(&flipped[..]).is_ok() {
            unseen.push(at);
        }
    }
    // What no checksum covers: the ends of packages, which carry none.
    let list = 312 + decode_length(&bytes);
    let prologue = list..list + 312;
    unseen.retain(|at| !prologue.contains(at) && !ends[1].contains(at));
    assert_eq!(unseen, Vec::<usize>::new());
}

fn decode_length(bytes: &[u8]) -> usize {
    RecordAreas::AT.payload_length.get(bytes, ByteOrder::NATIVE) as usize
}

#[test]
fn a_stream_cut_anywhere_is_cut_short() {
    let bytes = package(ByteOrder::NATIVE);
    for end in (0..bytes.len()).step_by(13) {
        let error = read_all(&bytes[..end]).unwrap_err();
        assert!(matches!(error, StreamError::Truncated), "{end}: {error}");
    }
}

#[test]
fn a_length_nobody_sends_is_refused_before_anything_is_read() {
    let mut writer = Writer::new(Vec::new());
    writer
        .begin(begin(Header::Substream, b"p@s"), None)
        .unwrap();
    let head = writer.into_output();
    for (size, refused) in [(PAYLOAD_MAX + 4, true), (510, true), (PAYLOAD_MAX, false)] {
        let mut write = [0; RECORD_SIZE];
        RecordAreas::AT.kind.put(&mut write, &3, ByteOrder::NATIVE);
        WriteRecord::AT
            .logical_size
            .put(&mut write, &size, ByteOrder::NATIVE);
        let bytes = [&head[..], &write].concat();
        let mut reader = Reader::new(&bytes[..]);
        let mut payload = Vec::new();
        reader.next(&mut payload).unwrap();
        let error = reader.next(&mut payload).unwrap_err();
        assert_eq!(
            matches!(error, StreamError::BadLength(..)),
            refused,
            "{error}"
        );
        assert!(payload.capacity() < 64 << 10);
        assert!(reader.next(&mut payload).unwrap().is_none(), "it goes on");
    }
}

#[test]
fn records_stand_where_they_may() {
    let mut writer = Writer::new(Vec::new());
    writer
        .begin(begin(Header::Substream, b"p@s"), None)
        .unwrap();
    writer
        .begin(begin(Header::Substream, b"p@s"), None)
        .unwrap();
    let error = read_all(&writer.into_output()[..]).unwrap_err();
    assert!(matches!(error, StreamError::Misplaced("BEGIN")), "{error}");
    let end = Record::End(EndRecord {
        checksum: [0; 4],
        to_guid: Guid(0),
    });
    let error = read_all(&end.encode(ByteOrder::NATIVE)[..]).unwrap_err();
    assert!(matches!(error, StreamError::BadMagic), "{error}");
    let error = read_all(&[0; 400][..]).unwrap_err();
    assert!(matches!(error, StreamError::BadMagic), "{error}");
}

#[test]
fn a_token_is_read_as_it_was_written() {
    let token = ResumeToken {
        from_guid: Some(Guid(17)),
        to_guid: Guid(0xfeed),
        to_name: b"tank/a@s".to_vec(),
        object: ObjectId(128),
        offset: 1 << 40,
        bytes: 12_345_678,
        large_blocks: true,
        compressed: true,
        bookmark_redact_snapshots: Some(vec![1, 2]),
        ..ResumeToken::default()
    };
    let text = token.encode();
    assert!(text.starts_with("1-"), "{text}");
    assert_eq!(ResumeToken::decode(&text).unwrap(), token);
    assert_eq!(ResumeToken::decode(&format!("{text}\n")).unwrap(), token);
    for at in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
        let error = ResumeToken::decode(std::str::from_utf8(&bytes).unwrap());
        assert!(error.is_err(), "{at}");
        assert!(ResumeToken::decode(&text[..at]).is_err(), "{at}");
    }
}

/// Tokens of the kernel module, 95 and 135 bytes when compressed: what is no whole word of 4 bytes is not in the sum.
#[test]
fn tokens_of_the_kernel_module_are_understood() {
    let cut = concat!(
        "1-981cd56b8-b0-789c636064000310a500c4ec50360710e72765a52697303030439460caa7a515a796806458e",
        "0f26c48f2499525a9c540ba434a0cabfe92fcf4d2cc1406861dfd07544b762bac4796e704cbe725e6a602edc94",
        "bd54f7430049b0100364c1454",
    );
    let redacted = concat!(
        "1-ea05e0696-e0-789c636064000310a500c4ec50360710e72765a52697303030439460caa7a515a7968064d8e",
        "0f26c48f2499525a9c520091931acfa4bf2d34b3353181876f41f502dd9adb01e599e132c9f97989b0ab4272f5",
        "53fd1c190c10028c60bc44c402c00c445a92989c925f1c5798905606bfcb274f3174b955ffb29ef1b707875423",
        "a480c00c41d205e",
    );
    for (text, redactions) in [(cut, None), (redacted, Some(2))] {
        let token = ResumeToken::decode(text).unwrap();
        assert_eq!(token.to_name, b"one/a@1");
        assert!(token.bytes > 0 && token.object.0 > 0);
        assert_eq!(token.redact_snapshots.as_ref().map(Vec::len), redactions);
        let again = token.encode();
        assert_eq!(ResumeToken::decode(&again).unwrap(), token);
    }
    // The sum of the first word alone: of five bytes the last does not count.
    assert!(
        ResumeToken::decode("1-4-0-0400000001").is_err(),
        "no list, whatever its sum"
    );
}

/// A token that another program made, whose zlib and list are not ours.
#[test]
fn a_token_of_others_is_understood() {
    let text = "1-c648fd3e9-f8-789c636064000310a501c49c50360710a715e5e7a69766a6303020d480800210b\
        323a9cb4fca4a4d2e616060c2259f96569c0a946746926743924faa2c492d06d22c38f497e4435cc\
        18a459e132c9f97989bcac050e0500c97e7467273727e6e41516a71717e36031c0000702b1663";
    let token = ResumeToken::decode(text).unwrap();
    assert_eq!((token.from_guid, token.to_guid), (Some(Guid(1)), Guid(5)));
    assert_eq!(
        (token.object, token.offset, token.bytes),
        (ObjectId(2), 3, 4)
    );
    assert_eq!((&token.to_name[..], token.compressed), (&b"p@s"[..], true));
}
