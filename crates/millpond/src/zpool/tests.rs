use admin::{PoolStatus, ScanKind, ScanReport, ScanState, VdevClass, VdevShape, VdevSpec};

use super::*;
use crate::grammar::Parsed;
use crate::render::Style;

fn parse(line: &str) -> Result<&'static str, String> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    match PROGRAM.parse(&words) {
        Ok(Parsed::Run(command, _)) => Ok(command.name),
        Ok(_) => Ok("help"),
        Err((error, _)) => Err(error.to_string()),
    }
}

#[test]
fn lines_that_people_type() {
    for (line, name) in [
        (
            "create -f -o ashift=12 -O compression=lz4 -m /x -R /alt --size 1G tank a",
            "create",
        ),
        ("create -nd tank mirror a b mirror c d", "create"),
        (
            "import -d /dev/disk -o readonly=on -N -R /alt tank",
            "import",
        ),
        ("import", "import"),
        ("import -FnXT 7 tank", "import"),
        ("list -Hp -o name,size,dedup,health tank", "list"),
        ("list -v 1 3", "list"),
        ("status -xv", "status"),
        ("status tank 1", "status"),
        ("get -H all tank", "get"),
        ("set comment=x tank", "set"),
        ("scrub -w tank", "scrub"),
        ("history -il tank", "history"),
        ("export -a", "export"),
        ("labelclear -f a", "labelclear"),
        ("clear tank a", "clear"),
        ("upgrade -v", "upgrade"),
        ("version -j", "version"),
        ("sync", "sync"),
        ("destroy tank", "destroy"),
    ] {
        assert_eq!(parse(line).as_deref(), Ok(name), "{line}");
    }
    assert_eq!(parse("create"), Err("missing pool name argument".into()));
    assert_eq!(parse("destroy"), Err("missing pool argument".into()));
}

fn vdevs(line: &str) -> Result<Vec<VdevSpec>, String> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    vdev_specs::vdevs(&words).map_err(|failure| failure.message)
}

#[test]
fn no_pool_is_called_like_a_word_of_the_grammar() {
    let words = vdev_specs::GROUP_WORDS.iter().map(|(word, _)| *word);
    for word in words.chain(["draid", "draid2:4d"]) {
        let refused = Err(admin::name::NameError::Reserved);
        assert_eq!(admin::name::check_pool(word), refused, "{word}");
    }
}

#[test]
fn vdev_grammar() {
    let leaf = |class, path: &str| {
        let shape = VdevShape::Leaf(path.into());
        VdevSpec { class, shape }
    };
    let mirror = |class, paths: [&str; 2]| {
        let shape = VdevShape::Mirror(paths.map(Into::into).to_vec());
        VdevSpec { class, shape }
    };
    assert_eq!(
        vdevs("/d/a mirror /d/b /d/c mirror /d/e /d/f"),
        Ok(vec![
            leaf(VdevClass::Normal, "/d/a"),
            mirror(VdevClass::Normal, ["/d/b", "/d/c"]),
            mirror(VdevClass::Normal, ["/d/e", "/d/f"]),
        ])
    );
    assert_eq!(
        vdevs("/d/a log mirror /d/b /d/c special /d/e dedup /d/f"),
        Ok(vec![
            leaf(VdevClass::Normal, "/d/a"),
            mirror(VdevClass::Log, ["/d/b", "/d/c"]),
            leaf(VdevClass::Special, "/d/e"),
            leaf(VdevClass::Dedup, "/d/f"),
        ])
    );
    assert_eq!(
        vdevs("/d/a log /d/b log /d/c"),
        Err("invalid vdev specification: 'log' can be specified only once".into())
    );
    assert_eq!(
        vdevs("mirror /d/a"),
        Err("invalid vdev specification: mirror requires at least 2 devices".into())
    );
    assert!(
        vdevs("/d/a /d/a")
            .unwrap_err()
            .contains("refer to the same device")
    );
}

#[test]
fn stripes_of_a_fixed_width() {
    let draid = |parity, data, spares, count| {
        let paths = (0..count).map(|n| format!("/d/{n}").into()).collect();
        Ok(vec![VdevSpec {
            class: VdevClass::Normal,
            shape: VdevShape::Draid {
                parity,
                data,
                spares,
                paths,
            },
        }])
    };
    let of = |word: &str, count: usize| {
        let devices: Vec<String> = (0..count).map(|n| format!("/d/{n}")).collect();
        vdevs(&format!("{word} {}", devices.join(" ")))
    };
    assert_eq!(of("draid", 5), draid(1, 4, 0, 5));
    assert_eq!(of("draid2", 14), draid(2, 8, 0, 14));
    assert_eq!(of("draid3:4d:9c:0s", 9), draid(3, 4, 0, 9));
    assert_eq!(of("draid1:9c:2d", 9), draid(1, 2, 0, 9));
    assert_eq!(of("draid2:4d:11c:1s", 11), draid(2, 4, 1, 11));
    assert_eq!(of("draid:2s", 8), draid(1, 5, 2, 8));
    for (word, count, told) in [
        (
            "draid4",
            9,
            "invalid dRAID parity level 4; must be between 1 and 3",
        ),
        (
            "draid2:4d:9c",
            8,
            "invalid number of dRAID children; 9 required but 8 provided",
        ),
        (
            "draid2:7d",
            8,
            "is too high, at most 6 disks are available for data",
        ),
        ("draid2:0d", 8, "invalid dRAID configuration '0d'"),
        ("draid2:4x", 8, "invalid dRAID configuration '4x'"),
        ("draid2:", 8, "invalid dRAID configuration ''"),
        (
            "draid2:4d:3s",
            8,
            "is too high, at most 3 disks are available for data",
        ),
        (
            "draid2:6s",
            8,
            "invalid number of dRAID spares 6; additional disks would be required",
        ),
        (
            "draid1:101s",
            8,
            "invalid number of dRAID spares 101; must not be more than 100",
        ),
        ("draid2", 2, "draid2 requires at least 3 devices"),
        ("/d/x log draid", 3, "unsupported 'log' device: draid"),
    ] {
        let found = of(word, count).unwrap_err();
        assert!(found.contains(told), "{word}: {found}");
    }
    // A name that only begins so.
    assert!(of("draidx", 1).is_ok());
}

#[test]
fn groups_of_devices_with_parity() {
    let raidz = |parity, paths: &[&str]| VdevSpec {
        class: VdevClass::Normal,
        shape: VdevShape::RaidZ(parity, paths.iter().map(Into::into).collect()),
    };
    assert_eq!(
        vdevs("raidz /d/a /d/b raidz3 /d/c /d/d /d/e /d/f"),
        Ok(vec![
            raidz(1, &["/d/a", "/d/b"]),
            raidz(3, &["/d/c", "/d/d", "/d/e", "/d/f"]),
        ])
    );
    assert_eq!(
        vdevs("raidz2 /d/a /d/b"),
        Err("invalid vdev specification: raidz2 requires at least 3 devices".into())
    );
    assert_eq!(
        vdevs("/d/a log raidz /d/b /d/c"),
        Err("invalid vdev specification: unsupported 'log' device: raidz".into())
    );
    let many: String = (0..256).map(|i| format!(" /d/{i}")).collect();
    assert_eq!(
        vdevs(&format!("raidz{many}")),
        Err("invalid vdev specification: raidz1 supports no more than 255 devices".into())
    );
}

#[test]
fn intervals() {
    let split = |line: &str| {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        crate::repeat::Interval::split(&words).map(|interval| interval.names)
    };
    for zero in ["0", "tank 0", "tank 1 0", "tank 0 1"] {
        assert!(split(zero).is_err(), "{zero}");
    }
    let split = |line: &str| split(line).expect("it makes sense");
    assert_eq!(split("inf"), ["inf"]);
    assert_eq!(split("tank 1 5"), ["tank"]);
    assert_eq!(split("tank pond"), ["tank", "pond"]);
    assert!(split("0.5").is_empty());
}

#[test]
fn every_command_explains_itself() {
    for command in COMMANDS {
        assert!(!command.usage().is_empty());
        assert!(command.summary.ends_with('.'));
        for (at, flag) in command.flags.iter().enumerate() {
            assert!(
                !command.flags[..at]
                    .iter()
                    .any(|other| other.key == flag.key)
            );
        }
    }
}

fn scan(kind: ScanKind, state: ScanState) -> PoolStatus {
    let scan = ScanReport {
        kind,
        state,
        started: 1,
        ended: 0,
        elapsed: 0,
        errors: 0,
        repaired: 0,
        to_examine: 5000,
        scanned: 904,
        issued: 904,
    };
    PoolStatus {
        txg: 4,
        scan: Some(scan),
        ..PoolStatus::healthy("tank", 1)
    }
}

#[test]
fn scans_that_are_waited_for() {
    let running = wait::under_way(&scan(ScanKind::Scrub, ScanState::Running));
    assert_eq!(running.scrub, Some(4096));
    assert!(running.is_idle(&["resilver", "free", "trim"]));
    assert!(!running.is_idle(&["trim", "scrub"]));
    let resilver = wait::under_way(&scan(ScanKind::Resilver, ScanState::Running));
    assert_eq!((resilver.scrub, resilver.resilver), (None, Some(4096)));
    for state in [ScanState::Paused, ScanState::Finished, ScanState::Canceled] {
        assert_eq!(
            wait::under_way(&scan(ScanKind::Scrub, state)),
            wait::Work::default()
        );
    }
}

#[test]
fn rebuilds_are_waited_for_as_resilvers() {
    let scan = scan(ScanKind::Scrub, ScanState::Finished).scan.unwrap();
    let rebuild = |state| admin::RebuildReport {
        vdev: "mirror-0".to_owned(),
        scan: ScanReport {
            kind: ScanKind::Resilver,
            state,
            ..scan.clone()
        },
    };
    let mut status = PoolStatus {
        rebuilds: vec![rebuild(ScanState::Running), rebuild(ScanState::Running)],
        ..PoolStatus::healthy("tank", 1)
    };
    let work = wait::under_way(&status);
    assert_eq!((work.resilver, work.replace), (Some(2 * 4096), None));
    status.vdevs = vec![admin::VdevReport::healthy("replacing", 7)];
    assert_eq!(wait::under_way(&status).replace, Some(2 * 4096));
    status.rebuilds = vec![rebuild(ScanState::Finished), rebuild(ScanState::Canceled)];
    assert_eq!(wait::under_way(&status), wait::Work::default());
}

#[test]
fn what_is_left_to_do() {
    let work = wait::Work {
        free: Some(1 << 20),
        scrub: Some(4096),
        ..wait::Work::default()
    };
    let activities = wait::activities(["scrub,free"].into_iter()).unwrap();
    assert_eq!(activities, ["free", "scrub"]);
    let aligned = Style::default();
    assert_eq!(
        wait::table(work, &activities, aligned, true),
        "  FREE   SCRUB\n    1M      4K\n"
    );
    assert_eq!(
        wait::table(work, &activities, aligned, false),
        "    1M      4K\n"
    );
    let all = wait::activities(std::iter::empty()).unwrap();
    assert_eq!(all, wait::ACTIVITIES);
    let style = Style {
        scripted: true,
        exact: true,
    };
    assert_eq!(
        wait::table(work, &all, style, true),
        "0\t1048576\t0\t0\t0\t0\t4096\t0\t0\n"
    );
    assert!(wait::activities(["scrub", "sleep"].into_iter()).is_err());
}
