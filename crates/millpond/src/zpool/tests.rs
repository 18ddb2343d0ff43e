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
        vdevs("draid2 /d/a /d/b /d/c")
            .unwrap_err()
            .contains("'draid2' vdevs cannot be made")
    );
    assert!(
        vdevs("/d/a /d/a")
            .unwrap_err()
            .contains("refer to the same device")
    );
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
        crate::repeat::Interval::split(&words).names
    };
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
