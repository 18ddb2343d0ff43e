use base::random::SeededRng;

use super::*;

fn run_in(place: &Path) -> Run {
    Run {
        directory: place.join("work"),
        kept: place.join("kept"),
        place: place.to_owned(),
        threads: 3,
        files: 200,
        time: Duration::from_millis(200),
        megabytes: 4,
        record: 4096,
        stride: true,
        contents: Contents::new(),
        beside: 0,
        pool: None,
        durable: None,
    }
}

#[test]
fn every_scenario_does_what_it_says() {
    let place = tempfile::tempdir().unwrap();
    let run = run_in(place.path());
    // What `rdbig` reads.
    fs::create_dir(&run.kept).unwrap();
    fs::write(bulk::kept_file(&run), vec![7; 4 << 20]).unwrap();
    for scenario in &SCENARIOS {
        fs::create_dir(&run.directory).unwrap();
        let phases = (scenario.run)(&run).unwrap();
        fs::remove_dir_all(&run.directory).unwrap();
        assert_eq!(
            fs::read_dir(place.path()).unwrap().count(),
            1,
            "{}",
            scenario.name
        );
        for phase in &phases {
            assert!(
                phase.tally.times.count() > 0,
                "{}: {}",
                scenario.name,
                phase.name
            );
            assert!(phase.per_second() > 0.0);
        }
        let count = |name: &str| {
            let phase = phases.iter().find(|phase| phase.name == name);
            phase.map_or(0, |phase| phase.tally.times.count())
        };
        match scenario.name {
            "meta" => assert_eq!(count("create") + count("unlink"), 400),
            "readdir" => assert_eq!(count("list"), 3 * 20),
            "write-data" => assert_eq!(count("empty"), 2 * 3 * 64),
            "varmail" => assert!(count("fsync") * 2 < count("operation")),
            "fsync" => {
                assert!(count("fsync") > 0);
                assert_eq!(count("statfs"), 500);
            }
            "untar" => assert!(count("unpack") > 200),
            "mkbig" => assert_eq!(count("write"), 4),
            "rdbig" => assert_eq!(count("cold read"), 4 * 8 + 1),
            "throttled" => {
                assert!(count("stat alone") > 0 && count("stat beside") > 0);
                assert!(count("write") > 0);
            }
            _ => assert_eq!(count("read"), 1024 / 3 * 3),
        }
    }
}

#[test]
fn pieces_are_as_long_as_asked() {
    let contents = Contents::new();
    let random = SeededRng::new(3);
    for length in [1, 10_000, 4 << 20] {
        assert_eq!(contents.piece(&random, length).len() as u64, length);
    }
}

#[test]
fn a_mail_is_read_to_its_end() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("mail");
    fs::write(&path, vec![7; 150_000]).unwrap();
    let read = |bytes: usize| {
        let file = fs::File::open(&path).unwrap();
        files::read_whole(&file, &mut vec![0; bytes]).unwrap()
    };
    assert_eq!([read(64 << 10), read(1 << 20)], [150_000; 2]);
}
