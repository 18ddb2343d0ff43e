use super::*;

#[test]
fn a_host_knows_its_own_pools_also_when_it_was_numbered_meanwhile() {
    let is_other = |here: (u64, &str), last: (u64, &str)| {
        let host = Host {
            id: here.0,
            name: here.1.to_owned(),
        };
        host.is_other(&LastUser {
            host_id: last.0,
            host_name: last.1.to_owned(),
            timestamp: 0,
        })
    };
    assert!(!is_other((7, "a"), (7, "b")));
    assert!(!is_other((0, "a"), (7, "a")));
    assert!(!is_other((7, "a"), (0, "a")));
    assert!(is_other((7, "a"), (0, "b")));
    assert!(is_other((7, "a"), (8, "a")));
    assert!(is_other((7, ""), (0, "")));
}
