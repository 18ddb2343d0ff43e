use super::*;

fn record(change: DiffChange, kind: char, path: &[u8]) -> DiffRecord {
    DiffRecord {
        change,
        kind,
        time: (1_269_962_501, 206_726),
        path: path.to_vec(),
    }
}

#[test]
fn lines_of_changes() {
    let records = [
        record(DiffChange::Modified, '/', b"/tank/test/"),
        record(DiffChange::Linked(1), 'F', b"/tank/test/linked"),
        record(DiffChange::Linked(-2), 'F', b"/tank/test/fewer"),
        record(
            DiffChange::Renamed(b"/tank/test/new name".to_vec()),
            'F',
            b"/tank/test/old\\name",
        ),
        record(DiffChange::Removed, '@', "/tank/test/\u{e9}".as_bytes()),
        record(DiffChange::Created, 'F', b"/tank/test/\xff\n\x7f~"),
    ];
    let text = |options| String::from_utf8_lossy(&diff(&records, options)).into_owned();
    assert_eq!(
        text(DiffOptions::default()),
        "M\t/tank/test/\nM\t/tank/test/linked\t(+1)\nM\t/tank/test/fewer\t(-2)\n\
         R\t/tank/test/old\\0134name -> /tank/test/new\\0040name\n\
         -\t/tank/test/\\0303\\0251\n+\t/tank/test/\\0377\\0012\\0177~\n"
    );
    let options = DiffOptions {
        kinds: true,
        scripted: true,
        times: true,
        raw: true,
    };
    let lines = diff(&records[3..], options);
    assert_eq!(
        lines,
        b"1269962501.000206726\tR\tF\t/tank/test/old\\name\t/tank/test/new name\n\
          1269962501.000206726\t-\t@\t/tank/test/\xc3\xa9\n\
          1269962501.000206726\t+\tF\t/tank/test/\xff\n\x7f~\n"
    );
}
