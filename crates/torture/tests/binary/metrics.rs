//! What the metrics endpoint of a served pool answers, and that the dashboard and the alert rules ask for what is
//! there.

mod exposition;

use crate::patience::PATIENCE;
use crate::session::{Session, path};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// What the endpoint answers, once it listens and the pool is up.
fn scraped(socket: &Path, mount: &Path, query: &str, wanted: &str) -> String {
    let request = format!("GET /metrics{query} HTTP/1.1\r\n\r\n");
    let begin = Instant::now();
    loop {
        // Once it is mounted, there is something to measure.
        let _listed = std::fs::read_dir(mount).map(Iterator::count);
        let mut text = String::new();
        if let Ok(mut stream) = UnixStream::connect(socket) {
            let sent = stream.write_all(request.as_bytes());
            let read = sent.and_then(|()| stream.read_to_string(&mut text));
            if read.is_ok() && text.contains(wanted) {
                return text;
            }
        }
        assert!(begin.elapsed() < PATIENCE, "{wanted}: {text}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The names of our metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter: char| !is_name(letter));
    let words = words.filter(|word| word.starts_with("millpond_"));
    words.map(str::to_owned).collect()
}

/// A scrape of a small pool stays small: of locks and queues at most sums and counts, unless buckets are asked for.
fn assert_bounded(usual: &str, all: &str) {
    assert!(usual.len() < 320 << 10, "{} bytes", usual.len());
    assert!(!usual.contains("millpond_lock_wait_seconds_bucket"));
    let (_, all) = all.split_once("\r\n\r\n").expect("a body");
    assert_eq!(exposition::check(all), Ok(()), "{all}");
    assert!(all.len() > 2 * usual.len());
}

#[test]
fn a_pool_tells_its_health_and_its_datasets() {
    let Some(mut session) = Session::new() else {
        return;
    };
    // Letters that labels have to escape.
    let images = session.images().join("odd \"\\\n");
    std::fs::create_dir(&images).expect("made");
    let image = images.join("tank.img");
    let file = std::fs::File::create(&image).and_then(|file| file.set_len(96 << 20));
    file.expect("a file");
    session.create_of("tank", &[path(&image)], &[]);
    session.ok(&["zfs", "create", "-o", "quota=32M", "tank/a"]);
    session.ok(&["zfs", "create", "-V", "4M", "tank/vol b:c"]);
    session.ok(&["zpool", "scrub", "-w", "tank"]);
    session.export("tank");
    let mounts = session.mounts();
    let socket = session.images().with_file_name("metrics");
    let mut server = session.spawn(&[
        "serve",
        "-d",
        path(&images),
        "-R",
        path(&mounts),
        "--metrics",
        path(&socket),
        "tank",
    ]);
    let mount = session.mount("tank");
    let text = scraped(&socket, &mount, "", "millpond_fuse_latency_seconds_bucket");
    let all = scraped(
        &socket,
        &mount,
        "?buckets=all",
        "millpond_lock_wait_seconds_bucket",
    );
    let stopped = Command::new("kill").arg(server.id().to_string()).status();
    assert!(stopped.expect("kill runs").success());
    assert!(server.wait().expect("it ends").success());

    for line in [
        "millpond_pool_state{pool=\"tank\",state=\"ONLINE\"} 1",
        "millpond_pool_healthy{pool=\"tank\"} 1",
        "millpond_pool_errors{pool=\"tank\"} 0",
        "millpond_pool_scan_errors{pool=\"tank\",kind=\"scrub\"} 0",
        "millpond_dataset_quota_bytes{pool=\"tank\",dataset=\"tank/a\",type=\"filesystem\"} 33554432",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let escaped = path(&image).replace('\\', "\\\\").replace('"', "\\\"");
    let image = format!("path=\"{}\"", escaped.replace('\n', "\\n"));
    let device = |line: &&str| line.starts_with("millpond_vdev_") && line.contains(&image);
    assert!(text.lines().any(|line| device(&line)), "{text}");
    let (head, body) = text.split_once("\r\n\r\n").expect("a body");
    let length = format!("Content-Length: {}", body.len());
    assert!(head.lines().any(|line| line == length), "{head}");
    assert_eq!(exposition::check(body), Ok(()), "{body}");
    assert_bounded(body, &all);
    let offered = names(&text);
    let contrib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib");
    for file in ["prometheus/millpond.rules.yml", "grafana/millpond.json"] {
        let file = std::fs::read_to_string(contrib.join(file)).expect("it is there");
        let asked = names(&file);
        assert!(asked.len() > 4, "{asked:?}");
        for name in asked {
            assert!(offered.contains(&name), "{name} is not offered");
        }
    }
}

/// Of two pools at once, every name has one type.
#[test]
fn the_instruments_of_two_pools_are_one_text() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    session.create("lake", 96, &[]);
    let text = session.ok(&["stat", "--prometheus"]);
    assert_eq!(exposition::check(&text), Ok(()), "{text}");
    for pool in ["tank", "lake"] {
        assert!(text.contains(&format!("pool=\"{pool}\"")), "{text}");
    }
}
