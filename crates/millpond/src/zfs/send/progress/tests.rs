use super::*;

fn sent(bytes: u64) -> SendProgress {
    SendProgress {
        name: "tank/fs@a".to_owned(),
        bytes,
    }
}

#[test]
fn lines_are_those_of_openzfs() {
    let bytes = 10_695_475;
    let shown = line("05:16:22", &sent(bytes), false);
    assert_eq!(shown, "05:16:22   10.2M   tank/fs@a");
    let shown = line("05:16:22", &sent(bytes), true);
    assert_eq!(shown, "05:16:22\t10695475\ttank/fs@a");
    assert_eq!(
        line("05:16:22", &sent(0), false),
        "05:16:22      0B   tank/fs@a"
    );
}

#[test]
fn titles_are_those_of_openzfs() {
    let size = 60_188_262;
    let title = title_of(&sent(11_324_621), size);
    assert_eq!(title, "zfs: sending tank/fs@a (18%: 10.8M/57.4M)");
    let title = title_of(&sent(2 * size), size);
    assert_eq!(title, "zfs: sending tank/fs@a (100%: 115M/57.4M)");
    assert_eq!(title_of(&sent(5), 0), "zfs: sending tank/fs@a (5B)");
}
