//! Pools whose disks are elsewhere: leaves are URIs of NBD. The servers are volumes of other pools, and `qemu-nbd`
//! where that is installed.

mod secured;

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::patience::until;
use crate::served_disks::{
    self, LIMITS, Store, far, health, import, kill, noise, scrub_finds_nothing, signal,
    wait_health, wait_resilvered, write_durably,
};
use crate::session::{Session, path};

#[test]
fn a_pool_on_a_disk_of_a_server_is_a_pool_like_any_other() {
    let (Some(mut store), Some(mut far)) = (Store::new(128, false), far()) else {
        return;
    };
    let uri = store.uri.clone();
    let cache = far.images().join("cache");
    let property = format!("cachefile={}", path(&cache));
    far.create_of("far", &[&uri], &["-o", &property]);
    let status = far.ok(&["zpool", "status", "far"]);
    assert!(status.contains(&uri), "{status}");
    let ashift = far.ok(&["zpool", "get", "-H", "-o", "value", "ashift", "far", &uri]);
    assert_eq!(ashift.trim(), "12");
    let bytes = noise(5_000_001, 1);
    let file = far.mount("far").join("file");
    write_durably(&file, &bytes).expect("durable");
    scrub_finds_nothing(&far);
    far.ok(&["zpool", "trim", "-w", "far"]);
    far.export("far");
    // By its URI, also for reading only, by the cache file, and, after a crash, by what is known of it.
    import(&far, &[&uri], &["-o", "readonly=on"]).expect("imported");
    assert!(fs::read(&file).expect("a file") == bytes);
    far.ok(&["zpool", "export", "far"]);
    import(&far, &[&uri], &["-o", &property]).expect("imported");
    write_durably(&far.mount("far").join("more"), &bytes).expect("durable");
    kill(&far);
    let mounts = far.mounts();
    far.ok(&["zpool", "import", "-R", path(&mounts), "far"]);
    assert!(fs::read(far.mount("far").join("more")).expect("a file") == bytes);
    kill(&far);
    far.ok(&[
        "zpool",
        "import",
        "-c",
        path(&cache),
        "-R",
        path(&mounts),
        "far",
    ]);
    assert!(fs::read(&file).expect("a file") == bytes);
    // A server that lets nobody write, too.
    far.ok(&["zpool", "export", "far"]);
    store.stop_serving();
    store.serve(&["-r"]);
    let text = import(&far, &[&uri], &[]).expect_err("it cannot be written");
    assert!(
        text.contains("its server has it for reading only"),
        "{text}"
    );
    import(&far, &[&uri], &["-o", "readonly=on"]).expect("imported");
    assert!(fs::read(&file).expect("a file") == bytes);
    far.ok(&["zpool", "export", "far"]);
    // The bytes are a pool's, whatever served them.
    let image = far.images().join("far.img");
    store.copy_out(&image);
    far.import("far", &[]);
    assert!(fs::read(&file).expect("a file") == bytes);
    far.export_clean("far");
}

#[test]
fn servers_are_among_the_places_of_the_environment() {
    let stores = (Store::new(128, true), Store::new(128, false), far());
    let (Some(first), Some(second), Some(mut far)) = stores else {
        return;
    };
    far.create_of("far", &["mirror", &first.uri, &second.uri], &[]);
    far.export("far");
    let mounts = far.mounts();
    let empty = mounts.join("empty");
    fs::create_dir(&empty).expect("made");
    let places = [&first.uri, path(&empty), &second.uri].join(":");
    let words = ["zpool", "import", "-R", path(&mounts), "far"];
    let mut command = far.command(&words);
    let imported = command.env("ZPOOL_IMPORT_PATH", places).output();
    let imported = imported.expect("the binary runs");
    assert!(imported.status.success(), "{imported:?}");
    assert_eq!(health(&far), "ONLINE");
    far.ok(&["zpool", "export", "far"]);
}

#[test]
fn a_mirror_goes_on_without_a_server_and_has_it_catch_up() {
    let stores = (Store::new(160, false), Store::new(160, true), far());
    let (Some(mut near), Some(other), Some(mut far)) = stores else {
        return;
    };
    far.create_of("far", &["mirror", &near.uri, &other.uri], &[]);
    let (folder, ends, durable) = (
        far.mount("far"),
        AtomicBool::new(false),
        AtomicUsize::new(0),
    );
    let name = |number: usize| folder.join(format!("file{number}"));
    let content = |number: usize| noise(100_000 + number % 7 * 1000, number as u64);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0.. {
                if ends.load(Ordering::Acquire) || number == 500 {
                    break;
                }
                // One of the two is always there: nothing fails.
                write_durably(&name(number), &content(number)).expect("durable");
                durable.store(number + 1, Ordering::Release);
            }
        });
        let more = |count: usize| {
            let wanted = durable.load(Ordering::Acquire) + count;
            until("files are written", || {
                durable.load(Ordering::Acquire) >= wanted.min(500)
            });
        };
        for _ in 0..2 {
            more(20);
            near.kill();
            more(20);
            wait_health(&far, "DEGRADED");
            near.come_back();
            // By itself.
            wait_health(&far, "ONLINE");
        }
        ends.store(true, Ordering::Release);
        writer.join().expect("the writer");
    });
    wait_resilvered(&far);
    scrub_finds_nothing(&far);
    let count = durable.load(Ordering::Acquire);
    for number in 0..count {
        assert!(
            fs::read(name(number)).expect("a file") == content(number),
            "{number}"
        );
    }
    far.export("far");
    // What came back has everything without the other one.
    let images = far.images();
    near.copy_out(&images.join("near.img"));
    other.copy_out(&images.join("other.img"));
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(&images, "far");
    }
    fs::remove_file(images.join("other.img")).expect("an image");
    far.import("far", &[]);
    for number in 0..count {
        assert!(
            fs::read(name(number)).expect("a file") == content(number),
            "{number}"
        );
    }
    far.export("far");
}

#[test]
fn a_pool_on_one_server_waits_for_it_and_goes_on() {
    let (Some(mut store), Some(mut far)) = (Store::new(160, true), far()) else {
        return;
    };
    let uri = store.uri.clone();
    far.create_of("far", &[&uri], &[]);
    let bytes = noise(400_000, 1);
    let name = |number: usize| far.mount("far").join(format!("file{number}"));
    let mut durable = Vec::new();
    for round in 0..3 {
        for number in round * 100..round * 100 + 10 {
            write_durably(&name(number), &bytes).expect("durable");
            durable.push(number);
        }
        // Not durable, and not lost: the pool has it in memory.
        fs::write(name(round * 100 + 10), &bytes).expect("written");
        store.kill();
        let failed =
            (round * 100 + 11..).find(|number| write_durably(&name(*number), &bytes).is_err());
        durable.extend(round * 100 + 11..failed.expect("it fails"));
        wait_health(&far, "SUSPENDED");
        let refused = far.refused(&["zpool", "clear", "far"]);
        assert!(refused.contains("suspended"), "{refused}");
        store.come_back();
        far.ok(&["zpool", "clear", "far"]);
        assert_eq!(health(&far), "ONLINE");
        assert!(fs::read(name(round * 100 + 10)).expect("a file") == bytes);
    }
    for number in &durable {
        assert!(
            fs::read(name(*number)).expect("a file") == bytes,
            "{number}"
        );
    }
    scrub_finds_nothing(&far);
    // And with 'failmode=continue', of which the export gives up.
    far.ok(&["zpool", "set", "failmode=continue", "far"]);
    store.kill();
    until("writing fails", || {
        write_durably(&far.mount("far").join("late"), &bytes).is_err()
    });
    far.ok(&["zpool", "export", "-f", "far"]);
    store.come_back();
    import(&far, &[&uri], &[]).expect("imported");
    for number in &durable {
        assert!(
            fs::read(name(*number)).expect("a file") == bytes,
            "{number}"
        );
    }
    far.ok(&["zpool", "export", "far"]);
    let image = far.images().join("far.img");
    store.copy_out(&image);
    far.import("far", &[]);
    far.export_clean("far");
}

/// What is on a server that is away is not damaged: where reads do not wait it is told as an error, and not listed as
/// one for good.
#[test]
fn what_cannot_be_read_while_a_server_is_away_is_no_damage() {
    let (Some(mut store), Some(mut far)) = (Store::new(128, true), far()) else {
        return;
    };
    let uri = store.uri.clone();
    far.create_of("far", &[&uri], &[]);
    let bytes = noise(3_000_000, 1);
    let file = far.mount("far").join("file");
    write_durably(&file, &bytes).expect("durable");
    far.export("far");
    import(&far, &[&uri], &[]).expect("imported");
    far.ok(&["zpool", "set", "failmode=continue", "far"]);
    fs::metadata(&file).expect("a file");
    store.kill();
    fs::read(&file).expect_err("nobody has it");
    fs::read(&file).expect_err("nobody has it");
    let suspended = health(&far) == "SUSPENDED";
    assert!(!suspended, "nothing had to be written");
    let status = far.ok(&["zpool", "status", "-v", "far"]);
    assert!(status.contains("errors: No known data errors"), "{status}");
    store.come_back();
    far.ok(&["zpool", "clear", "far"]);
    assert!(fs::read(&file).expect("a file") == bytes);
    scrub_finds_nothing(&far);
    far.ok(&["zpool", "export", "far"]);
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let (Some(mut store), Some(mut far)) = (Store::new(128, true), far()) else {
        return;
    };
    let small = Store::new(32, false).expect("a session");
    let uri = store.uri.clone();
    let image = far.images().join("image");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("a port").port();
    drop(free);
    let nobody = format!("nbd://127.0.0.1:{port}/tank/disk");
    let away = format!("nbd+unix:///tank/disk?socket={}", path(&image));
    let mounts = far.mounts();
    for (uri, why) in [
        (nobody.clone(), "Connection refused"),
        (away, "No such file or directory"),
        (uri.replace("/disk", "/none"), "it has no such export"),
        (small.uri.clone(), "is less than the minimum size (64M)"),
        (format!("{uri}?what=1"), "a query that is not known"),
        ("nbd:///tank".to_owned(), "no host"),
    ] {
        let text = far.refused(&["zpool", "create", "-R", path(&mounts), "far", &uri]);
        assert!(text.contains(why), "{uri}: {text}");
    }
    let text = import(&far, &[&nobody], &[]).expect_err("nobody is there");
    assert!(text.contains("Connection refused"), "{text}");
    let text = import(&far, &[&uri], &[]).expect_err("no pool is there");
    assert!(text.contains("no such pool available"), "{text}");
    store.stop_serving();
    store.serve(&["-r"]);
    let text = far.refused(&["zpool", "create", "-R", path(&mounts), "far", &uri]);
    assert!(
        text.contains("its server has it for reading only"),
        "{text}"
    );
    store.stop_serving();
    store.serve(&[]);
    for class in ["cache", "spare"] {
        let size = [
            "--size",
            "128M",
            "-R",
            path(&mounts),
            "far",
            path(&image),
            class,
            &uri,
        ];
        let text = far.refused(&[&["zpool", "create"][..], &size].concat());
        let why = "a disk of a server can be neither a spare nor a cache device";
        assert!(text.contains(why), "{text}");
        let _gone = fs::remove_file(&image);
    }
    far.create_of("far", &[&uri], &[]);
    let mut second = served_disks::far().expect("a session");
    let mounts = second.mounts();
    let text = second.refused(&["zpool", "create", "-R", path(&mounts), "other", &uri]);
    assert!(text.contains("is part of"), "{text}");
    far.export("far");
    // One that was exported gives way.
    second.create_of("other", &[&uri], &["-f"]);
    second.export("other");
}

#[test]
fn a_server_that_hangs_is_not_waited_for_for_ever() {
    let (Some(near), Some(mut far)) = (Store::new(128, false), far()) else {
        return;
    };
    far.limit(&format!("{LIMITS},device.remote_patience_ms=3000"));
    let image = far.images().join("side.img");
    fs::File::create(&image)
        .and_then(|file| file.set_len(128 << 20))
        .expect("an image");
    far.create_of("far", &["mirror", path(&image), &near.uri], &[]);
    write_durably(&far.mount("far").join("before"), b"text").expect("durable");
    signal(&near.session, Signal::STOP);
    let begun = Instant::now();
    write_durably(&far.mount("far").join("meanwhile"), b"text").expect("durable");
    assert!(
        begun.elapsed() < Duration::from_secs(40),
        "{:?}",
        begun.elapsed()
    );
    wait_health(&far, "DEGRADED");
    // Nothing waits while it is asked again and again.
    let begun = Instant::now();
    far.ok(&["zpool", "status", "far"]);
    write_durably(&far.mount("far").join("later"), b"text").expect("durable");
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    signal(&near.session, Signal::CONT);
    wait_health(&far, "ONLINE");
    wait_resilvered(&far);
    scrub_finds_nothing(&far);
    far.export("far");
}

#[test]
fn a_label_connects_nobody_anywhere() {
    let (Some(mut near), Some(mut far)) = (Store::new(128, false), far()) else {
        return;
    };
    far.limit(&format!("{LIMITS},device.remote_patience_ms=300"));
    let uri = near.uri.clone();
    let image = far.images().join("side.img");
    fs::File::create(&image)
        .and_then(|file| file.set_len(128 << 20))
        .expect("an image");
    far.create_of("far", &["mirror", path(&image), &uri], &[]);
    write_durably(&far.mount("far").join("file"), b"text").expect("durable");
    far.export("far");
    near.stop_serving();
    // Somebody else listens there now: nothing comes, as nobody named it to this process.
    let socket = near.socket();
    let _gone = fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).expect("a socket");
    listener.set_nonblocking(true).expect("a socket");
    far.import("far", &[]);
    assert_eq!(health(&far), "DEGRADED");
    let guid = far.ok(&["zpool", "get", "-H", "-o", "value", "guid", "far", &uri]);
    let _tried = far.run(&["zpool", "online", "far", guid.trim()]);
    far.ok(&["zpool", "clear", "far"]);
    std::thread::sleep(Duration::from_millis(300));
    assert!(listener.accept().is_err(), "it was connected to");
    // Nor by the register, the next time.
    kill(&far);
    let mounts = far.mounts();
    far.ok(&["zpool", "import", "-R", path(&mounts), "far"]);
    assert!(listener.accept().is_err(), "it was connected to");
    // Its operator may say it.
    let _nothing = far.run(&["zpool", "online", "far", &uri]);
    assert!(listener.accept().is_ok(), "it was not connected to");
    let found = fs::read(far.mount("far").join("file")).expect("a file");
    assert_eq!(found, b"text");
    far.export("far");
}

/// A host that writes every tenth of a second, and gives a pool up after one: imports wait for two.
fn host(number: u32) -> Option<Session> {
    let mut session = Session::new()?;
    session.limit(&format!("{LIMITS},pool.multihost_interval_ms=100"));
    session.on_host(number);
    Some(session)
}

#[test]
fn another_host_takes_over_and_the_first_writes_nothing_more() {
    let (Some(store), Some(mut first), Some(second)) = (Store::new(160, true), host(1), host(2))
    else {
        return;
    };
    let uri = store.uri.clone();
    first.create_of("far", &[&uri], &["-o", "multihost=on"]);
    let file = first.mount("far").join("file");
    write_durably(&file, b"of the first\n").expect("durable");
    let text = import(&second, &[&uri], &["-f"]).expect_err("it is in use");
    assert!(text.contains("(hostid: 0x1)"), "{text}");
    // One that is only stopped, amid writes.
    let bytes = noise(20_000_000, 3);
    let name = first.mount("far").join("large");
    let writer = std::thread::spawn(move || while write_durably(&name, &bytes).is_ok() {});
    std::thread::sleep(Duration::from_millis(300));
    signal(&first, Signal::STOP);
    let begun = Instant::now();
    import(&second, &[&uri], &["-f"]).expect("taken over");
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    let found = fs::read(second.mount("far").join("file")).expect("read");
    assert_eq!(found, b"of the first\n");
    write_durably(&second.mount("far").join("file"), b"of the second\n").expect("durable");
    signal(&first, Signal::CONT);
    writer.join().expect("it ends");
    until("it has noticed", || health(&first) == "SUSPENDED");
    let refused = first.refused(&["zpool", "clear", "far"]);
    // A connection that was ended with a write on its way is not made again.
    let is_told = refused.contains("(hostid: 0x2)") || refused.contains("currently suspended");
    assert!(is_told, "{refused}");
    first.ok(&["zpool", "export", "-f", "far"]);
    scrub_finds_nothing(&second);
    // One that is killed: the next has it within seconds.
    kill(&second);
    // Nothing there will take the dead mount's place.
    let dead = second.mount("far");
    let _gone = Command::new("umount").arg("-l").arg(dead).status();
    let begun = Instant::now();
    import(&first, &[&uri], &["-f"]).expect("taken over");
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(fs::read(&file).expect("read"), b"of the second\n");
    scrub_finds_nothing(&first);
    first.ok(&["zpool", "export", "far"]);
    let image = first.images().join("far.img");
    store.copy_out(&image);
    first.import("far", &[]);
    first.export_clean("far");
}
