use super::*;
use crate::report::PoolStatus;
use crate::{StatusOptions, status};

/// The part of `zpool status` from `config:` on, but for groups that only the pool's own object
/// set knows, and with the paths of today.
fn printed(golden: &golden::GoldenPool) -> Vec<String> {
    let lines = golden.lines("status.txt").into_iter();
    lines
        .skip_while(|line| line != "config:")
        .filter(|line| !line.starts_with("\tspares") && !line.contains("AVAIL"))
        .map(|line| {
            line.split_whitespace()
                .map(base_name)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

#[test]
fn golden_pools_found_by_their_labels_show_the_tree_that_openzfs_shows() {
    for golden in golden::all_pools() {
        // Labels do not know which vdevs are for metadata or dedup tables, nor which were removed.
        let beyond_labels = ["gclasses", "gremoved"];
        if golden.lines("status.txt").is_empty()
            || beyond_labels.contains(&golden.pool_name().as_str())
        {
            continue;
        }
        let pools = pool::discover(&golden.images()).unwrap();
        let name = golden.pool_name();
        let found = pools.iter().find(|found| found.name == name).expect(&name);
        let vdevs = tree(&found.config.root, &class_in_label, &|_| {
            LeafFacts::online()
        });
        let pool = PoolStatus {
            name,
            guid: found.guid.0,
            txg: found.txg.0,
            version: found.version,
            state: pool_state(&vdevs),
            root_state: pool_state(&vdevs),
            fails_at_once: false,
            stopped: None,
            note: None,
            scan: None,
            removal: None,
            expansion: None,
            checkpoint: None,
            dedup: crate::report::DedupReport::default(),
            vdevs,
            error_count: 0,
            error_files: Vec::new(),
        };
        let text = status(&pool, StatusOptions::default());
        let shown: Vec<String> = text
            .lines()
            .skip_while(|line| *line != "config:")
            .map(|line| {
                line.split_whitespace()
                    .map(base_name)
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect();
        assert_eq!(shown, printed(&golden));
    }
}

#[test]
fn states_from_below() {
    let leaf = |state| VdevReport {
        kind: "file".into(),
        id: 0,
        guid: 1,
        path: None,
        class: VdevClass::Normal,
        state,
        cause: None,
        absent: false,
        read_errors: 0,
        write_errors: 0,
        checksum_errors: 0,
        leaf: crate::report::LeafReport::default(),
        activity: None,
        size: 0,
        allocated: None,
        device_size: 0,
        fragmentation: None,
        expandable: 0,
        children: Vec::new(),
    };
    let (good, bad) = (leaf(VdevState::Online), leaf(VdevState::Unavailable));
    let state = |children: &[VdevReport], redundancy| interior(children, redundancy).0;
    assert_eq!(state(&[good.clone(), good.clone()], 1), VdevState::Online);
    assert_eq!(state(&[good.clone(), bad.clone()], 1), VdevState::Degraded);
    assert_eq!(
        state(&[bad.clone(), bad.clone()], 1),
        VdevState::Unavailable
    );
    let log = VdevReport {
        class: VdevClass::Log,
        ..bad.clone()
    };
    assert_eq!(pool_state(&[good.clone(), log]), VdevState::Degraded);
    assert_eq!(pool_state(&[good, bad]), VdevState::Unavailable);
}
