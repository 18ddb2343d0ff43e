use super::*;

fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
    rows.iter()
        .map(|row| row.iter().map(|text| (*text).to_owned()).collect())
        .collect()
}

#[test]
fn lists_look_as_they_always_did() {
    let columns = [
        Column::left("NAME"),
        Column::right("USED"),
        Column::right("AVAIL"),
        Column::left("MOUNTPOINT"),
    ];
    let text = aligned(
        &columns,
        &rows(&[
            &["tank", "24K", "38.1M", "/tank"],
            &["tank/a", "0B", "-", "none"],
        ]),
    );
    assert_eq!(
        text,
        "NAME     USED  AVAIL  MOUNTPOINT\n\
         tank      24K  38.1M  /tank\n\
         tank/a     0B      -  none\n"
    );
}

#[test]
fn scripts_get_tabs() {
    assert_eq!(scripted(&rows(&[&["a", "1"], &["b", "-"]])), "a\t1\nb\t-\n");
}

#[test]
fn a_last_number_is_padded_on_its_left() {
    let columns = [Column::left("NAME"), Column::right("GUID")];
    assert_eq!(
        aligned(&columns, &rows(&[&["p", "7"]])),
        "NAME   GUID\np         7\n"
    );
}
