use super::*;

const MIB: u64 = 1 << 20;

fn scan(kind: ScanKind, state: ScanState, started: u64, ended: u64) -> ScanReport {
    ScanReport {
        kind,
        state,
        started,
        ended,
        elapsed: ended.saturating_sub(started),
        errors: 0,
        repaired: 200 * MIB,
        to_examine: 1000 * MIB,
        scanned: 400 * MIB,
        issued: 400 * MIB,
    }
}

fn rebuild(vdev: &str, state: ScanState, started: u64, ended: u64) -> RebuildReport {
    RebuildReport {
        vdev: vdev.to_owned(),
        scan: scan(ScanKind::Resilver, state, started, ended),
    }
}

fn pool(last: Option<ScanReport>, rebuilds: Vec<RebuildReport>) -> PoolStatus {
    PoolStatus {
        scan: last,
        rebuilds,
        ..PoolStatus::healthy("tank", 1)
    }
}

/// The beginnings of what is shown.
fn shown(pool: &PoolStatus) -> Vec<String> {
    let text = lines(pool, 1010);
    let heads = text.lines().filter(|line| line.contains("scan: "));
    let words = heads.map(|line| {
        let words = line.split_whitespace().skip(1).take(4);
        words.collect::<Vec<_>>().join(" ")
    });
    words.collect()
}

#[test]
fn rebuilds_that_run_are_shown_by_their_vdevs() {
    let both = vec![
        rebuild("mirror-0", ScanState::Running, 1000, 0),
        rebuild("mirror-1", ScanState::Running, 1000, 0),
        rebuild("mirror-2", ScanState::Finished, 900, 950),
    ];
    let pool = pool(None, both);
    assert!(is_resilvering(&pool));
    assert_eq!(
        shown(&pool),
        [
            "resilver (mirror-0) in progress",
            "resilver (mirror-1) in progress"
        ]
    );
    let text = lines(&pool, 1010);
    let second = "\t400M / 1000M scanned at 40M/s, 400M / 1000M issued at 40M/s\n\
                  \t200M resilvered, 40.00% done, 00:00:15 to go\n";
    assert!(text.contains(second), "{text}");
}

#[test]
fn the_last_resilver_is_shown_beside_the_scrub() {
    let rebuilt = || vec![rebuild("mirror-0", ScanState::Finished, 900, 950)];
    let scrub = scan(ScanKind::Scrub, ScanState::Running, 951, 0);
    assert_eq!(
        shown(&pool(Some(scrub), rebuilt())),
        ["scrub in progress since", "resilvered (mirror-0) 200M in"]
    );
    let older = scan(ScanKind::Resilver, ScanState::Finished, 800, 810);
    assert_eq!(
        shown(&pool(Some(older), rebuilt())),
        ["resilvered (mirror-0) 200M in"]
    );
    let newer = scan(ScanKind::Resilver, ScanState::Finished, 960, 970);
    assert_eq!(
        shown(&pool(Some(newer.clone()), rebuilt())),
        ["resilvered 200M in 00:00:10"]
    );
    assert_eq!(
        shown(&pool(Some(newer), Vec::new())),
        ["resilvered 200M in 00:00:10"]
    );
}

#[test]
fn what_was_rebuilt_is_to_be_scrubbed() {
    let rebuilt = || vec![rebuild("mirror-0", ScanState::Finished, 900, 950)];
    assert!(is_unverified(&pool(None, rebuilt())));
    let before = scan(ScanKind::Scrub, ScanState::Finished, 800, 810);
    assert!(is_unverified(&pool(Some(before), rebuilt())));
    let after = scan(ScanKind::Scrub, ScanState::Running, 950, 0);
    assert!(!is_unverified(&pool(Some(after), rebuilt())));
    let running = vec![rebuild("mirror-0", ScanState::Running, 900, 0)];
    assert!(!is_unverified(&pool(None, running)));
    assert!(!is_unverified(&pool(None, Vec::new())));
}
