//! Images from archives that nobody would make.

use super::*;
use std::io::{Seek, Write};

/// Makes an image from an archive, in a folder of its own.
fn made(archive: &[u8]) -> ImageReport {
    let folder = tempfile::tempdir().expect("a folder");
    let mut input = tempfile::tempfile().expect("a file");
    input.write_all(archive).expect("written");
    input.rewind().expect("at its start");
    let request = ImageRequest {
        source: ImageSource::Archive(Arc::new(input)),
        image: folder.path().join("image"),
        pool: admin::CreateRequest {
            name: "tank".to_owned(),
            temporary_name: None,
            vdevs: Vec::new(),
            properties: Vec::new(),
            features: Vec::new(),
            without_features: false,
            dataset_properties: Vec::new(),
            altroot: None,
            force: false,
            file_size: Some(96 << 20),
            key: None,
            command: "made".to_owned(),
        },
        smallest: false,
        reproducible: Some(Reproducible { epoch_s: None }),
    };
    make_image(&request, &mut |_| {}).expect("made")
}

#[test]
fn holes_beyond_all_numbers_are_kept() {
    let mut builder = tar::Builder::new(Vec::new());
    for at in 0..4 {
        let size = i64::MAX.to_string();
        let records = [
            ("GNU.sparse.size", size.as_bytes()),
            ("GNU.sparse.map", b"0,0"),
        ];
        builder.append_pax_extensions(records).expect("added");
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        let name = format!("hole{at}");
        builder
            .append_data(&mut header, name, &[][..])
            .expect("added");
    }
    let report = made(&builder.into_inner().expect("written"));
    assert_eq!(report.problems, [""; 0]);
    assert_eq!(report.progress.bytes, u64::MAX);
}
