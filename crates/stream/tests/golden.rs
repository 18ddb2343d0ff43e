//! Streams that OpenZFS sent are read whole, and written again byte for byte.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;

use millpond_stream::{Item, Part, Reader, Record, Writer, decode_list};

fn streams() -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for name in ["streams", "enc"] {
        let Some(pool) = golden::pool(name) else {
            continue;
        };
        for entry in fs::read_dir(&pool.folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "stream") {
                found.push((path.display().to_string(), fs::read(&path).unwrap()));
            }
        }
    }
    found
}

#[test]
fn streams_of_openzfs_are_read_and_written_again() {
    for (name, bytes) in streams() {
        let mut rest = &bytes[..];
        let mut reader = Reader::new(&mut rest);
        let mut writer = Writer::new(Vec::new());
        let mut payload = Vec::new();
        let mut ends = 0;
        while let Some(Item { part, record }) = reader.next(&mut payload).unwrap() {
            let list = || decode_list(&payload).unwrap();
            match (part, &record) {
                (Part::Package, Record::Begin(begin)) => {
                    let features = millpond_stream::Features::of(begin.version_info);
                    let name = millpond_stream::begin_name(begin);
                    writer
                        .begin_package(name, features, list().as_ref())
                        .unwrap();
                }
                (Part::Package, _) => {
                    ends += 1;
                    if ends == 2 {
                        writer.end_package().unwrap();
                    }
                }
                (Part::Substream, Record::Begin(begin)) => {
                    writer.begin(begin.clone(), list().as_ref()).unwrap();
                }
                (Part::Substream, Record::End(end)) => writer.end(end.to_guid).unwrap(),
                (Part::Substream, record) => writer.record(record, &payload).unwrap(),
            }
        }
        assert_eq!(reader.position(), bytes.len() as u64, "{name}");
        assert!(
            writer.into_output() == bytes,
            "{name} is written differently"
        );
        println!("{name}: {} bytes", bytes.len());
    }
}
