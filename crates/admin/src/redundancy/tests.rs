//! Command lines and answers as OpenZFS 2.3.9 gave them.

use std::path::PathBuf;

use super::{Redundancy, mismatch_among, mismatch_with};
use crate::{VdevClass, VdevShape, VdevSpec};

/// `f`, `m3`, `z2:4` and `d1:4` for a file, a mirror of 3, a raidz2 of 4, a draid1 of 4; `log`, `special`, `dedup` as
/// on command lines.
fn specs(line: &str) -> Vec<VdevSpec> {
    let mut class = VdevClass::Normal;
    let mut found = Vec::new();
    for word in line.split_whitespace() {
        match word {
            "log" => class = VdevClass::Log,
            "special" => class = VdevClass::Special,
            "dedup" => class = VdevClass::Dedup,
            _ => found.push(VdevSpec {
                class,
                shape: shape(word),
            }),
        }
    }
    found
}

fn shape(word: &str) -> VdevShape {
    let paths = |count: &str| vec![PathBuf::from("/x"); count.parse().unwrap()];
    let group = |rest: &str| {
        let (parity, count) = rest.split_once(':').unwrap();
        (parity.parse().unwrap(), paths(count))
    };
    match word.split_at(1) {
        ("f", _) => VdevShape::Leaf(PathBuf::from("/x")),
        ("m", count) => VdevShape::Mirror(paths(count)),
        ("z", rest) => {
            let (parity, paths) = group(rest);
            VdevShape::RaidZ(parity, paths)
        }
        ("d", rest) => {
            let (parity, paths) = group(rest);
            VdevShape::Draid {
                parity,
                data: 1,
                spares: 0,
                paths,
            }
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn vdevs_of_one_command_are_compared() {
    let cases = [
        ("f m2", Some("both file and mirror vdevs are present")),
        ("m3", None),
        (
            "m2 m3",
            Some("both 2-way and 3-way mirror vdevs are present"),
        ),
        ("m2 z1:3", None),
        ("m3 z2:3", None),
        ("z1:3 z1:4", None),
        (
            "z1:3 z2:4",
            Some("raidz and raidz vdevs with different redundancy, 1 vs. 2 are present"),
        ),
        ("d1:4 z1:3", None),
        (
            "d1:4 d2:4",
            Some("draid and draid vdevs with different redundancy, 1 vs. 2 are present"),
        ),
        ("f special f", None),
        (
            "m2 special f",
            Some("both mirror and file vdevs are present"),
        ),
        (
            "m2 special m3",
            Some("both 2-way and 3-way mirror vdevs are present"),
        ),
        ("m2 dedup f", Some("both mirror and file vdevs are present")),
        ("z1:3 special m2", None),
        (
            "z2:4 special m2",
            Some("raidz and mirror vdevs with different redundancy, 2 vs. 1 (2-way) are present"),
        ),
        (
            "m2 z2:3",
            Some("raidz and mirror vdevs with different redundancy, 2 vs. 1 (2-way) are present"),
        ),
        (
            "m3 z1:3",
            Some("raidz and mirror vdevs with different redundancy, 1 vs. 2 (3-way) are present"),
        ),
        (
            "d1:4 m3",
            Some("draid and mirror vdevs with different redundancy, 1 vs. 2 (3-way) are present"),
        ),
        (
            "d2:4 z1:3",
            Some("draid and raidz vdevs with different redundancy, 2 vs. 1 are present"),
        ),
        ("f f m2", Some("both file and mirror vdevs are present")),
        ("m2 log f", None),
        ("f log m2", None),
        ("f f", None),
    ];
    for (line, expected) in cases {
        assert_eq!(mismatch_among(&specs(line)).as_deref(), expected, "{line}");
    }
}

/// The last vdev of a pool, what is to be added, and what is said.
const BESIDE: &[((&str, usize), &str, Option<&str>)] = &[
    (("raidz1", 3), "m2", None),
    (
        ("raidz1", 3),
        "f",
        Some("pool uses raidz and new vdev is file"),
    ),
    (
        ("mirror", 2),
        "f",
        Some("pool uses mirror and new vdev is file"),
    ),
    (
        ("mirror", 2),
        "m3",
        Some("pool uses 2-way mirror and new vdev uses 3-way mirror"),
    ),
    (("mirror", 2), "m2", None),
    (("mirror", 2), "z1:3", None),
    (
        ("mirror", 2),
        "special f",
        Some("pool uses mirror and new vdev is file"),
    ),
    (("mirror", 2), "log f", None),
    (
        ("raidz1", 3),
        "z2:3",
        Some("pool uses 1 device parity and new vdev uses 2"),
    ),
    (
        ("raidz1", 3),
        "z1:4",
        Some("pool uses 3-way raidz and new vdev uses 4-way raidz"),
    ),
    (
        ("raidz1", 3),
        "d1:4",
        Some("pool uses raidz and new vdev is draid"),
    ),
    (
        ("mirror", 2),
        "z2:3",
        Some(
            "pool and new vdev with different redundancy, raidz and mirror vdevs, 2 vs. 1 (2-way)",
        ),
    ),
    (
        ("raidz1", 3),
        "m3",
        Some(
            "pool and new vdev with different redundancy, raidz and mirror vdevs, 1 vs. 2 (3-way)",
        ),
    ),
    (
        ("mirror", 2),
        "m2 z2:3",
        Some("raidz and mirror vdevs with different redundancy, 2 vs. 1 (2-way) are present"),
    ),
    (
        ("mirror", 2),
        "f m2",
        Some("both file and mirror vdevs are present"),
    ),
    (("mirror", 2), "m2 z1:3", None),
    (("mirror", 2), "d1:4", None),
    (("file", 0), "f", None),
    (("disk", 0), "f", None),
];

#[test]
fn new_vdevs_are_compared_with_those_of_the_pool() {
    for ((kind, children), line, expected) in BESIDE {
        let there = Redundancy::named(kind, *children);
        let found = mismatch_with(there, &specs(line));
        assert_eq!(found.as_deref(), *expected, "{kind} {children} {line}");
    }
}

/// Messages need not come from our commands.
#[test]
fn a_mirror_of_nothing_is_compared() {
    assert!(mismatch_among(&specs("m0 z1:3")).is_some());
    assert!(mismatch_with(Redundancy::named("mirror", 2), &specs("m0")).is_some());
}

#[test]
fn kinds_without_blocks_are_not_compared() {
    for kind in [
        "hole",
        "indirect",
        "missing",
        "replacing",
        "spare",
        "raidz",
        "draidx",
    ] {
        assert_eq!(Redundancy::named(kind, 2), None, "{kind}");
    }
    let draid = Redundancy::named("draid2:4d:11c:1s", 11);
    assert_eq!(draid.map(Redundancy::tolerance), Some(2));
}
