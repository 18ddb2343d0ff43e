//! Leaves on disks that are reached by TLS, and on those of `qemu-nbd`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::certificates::Authority;
use crate::patience::until;
use crate::served_disks::{Store, far, import, kill, noise, scrub_finds_nothing, write_durably};
use crate::session::{Running, Session, path};

/// The certificates that a client goes by.
fn client_folder(folder: &Path, name: &str, believed: &Authority, own: &Authority) -> PathBuf {
    let client = own.identity(name, &[]);
    let place = folder.join(format!("{name}.d"));
    fs::create_dir(&place).expect("a folder");
    for (from, to) in [
        (&believed.file(), "ca-cert.pem"),
        (&client.certificate_file, "client-cert.pem"),
        (&client.key_file, "client-key.pem"),
    ] {
        fs::copy(from, place.join(to)).expect("a copy");
    }
    place
}

/// Imports from a server whom the host's authorities vouch for.
fn import_believing(far: &Session, uri: &str, authorities: &Path) {
    let mounts = far.mounts();
    let words = ["zpool", "import", "-R", path(&mounts), "-d", uri, "far"];
    let mut command = far.command(&words);
    let imported = command.env("SSL_CERT_FILE", authorities).output();
    let imported = imported.expect("the binary runs");
    assert!(imported.status.success(), "{imported:?}");
}

#[test]
fn a_pool_on_a_disk_by_tls() {
    let (Some(mut store), Some(mut far)) = (Store::new(160, true), far()) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "authority");
    let stranger = Authority::new(folder.path(), "stranger");
    let who = authority.identity("disks", &["127.0.0.1"]);
    let ca = authority.file();
    let plain = store.uri.clone();
    let (certificate, key) = (path(&who.certificate_file), path(&who.key_file));
    let secured = ["--tls-cert", certificate, "--tls-key", key];
    let known = [&secured[..], &["--tls-client-ca", path(&ca)]].concat();
    let certificates = client_folder(folder.path(), "client", &authority, &authority);
    // Who does not believe the server, or is not known to it, has nothing; nor who speaks otherwise than it does.
    let doubtful = client_folder(folder.path(), "doubtful", &stranger, &authority);
    let unknown = client_folder(folder.path(), "unknown", &authority, &stranger);
    let by = |uri: &str, place: &Path| format!("{uri}?tls-certificates={}", path(place));
    let mounts = far.mounts();
    let refused = |uri: &str, why: &str| {
        let text = far.refused(&["zpool", "create", "-R", path(&mounts), "far", uri]);
        assert!(text.contains(why), "{uri}: {text}");
    };
    refused(
        &by(&plain.replace("nbd:", "nbds:"), &certificates),
        "it has no TLS",
    );
    store.stop_serving();
    store.serve(&known);
    let uri = store.uri.clone();
    refused(&plain, "it requires TLS");
    refused(&by(&uri, &doubtful), "invalid peer certificate");
    refused(&by(&uri, &unknown), "cannot be connected to");
    refused(&uri, "invalid peer certificate");
    let other = format!("{}&tls-hostname=lake", by(&uri, &certificates));
    refused(&other, "not valid for name");
    refused(&by(&uri, folder.path()), "cannot read");
    let uri = by(&uri, &certificates);
    far.create_of("far", &[&uri], &[]);
    let bytes = noise(3_000_001, 1);
    let file = far.mount("far").join("file");
    write_durably(&file, &bytes).expect("durable");
    // The daemon ends, then the server.
    kill(&far);
    import(&far, &[&uri], &[]).expect("imported");
    assert!(fs::read(&file).expect("a file") == bytes);
    store.kill();
    until("it is missed", || {
        write_durably(&far.mount("far").join("late"), &bytes).is_err()
    });
    store.session.import("tank", &["-f"]);
    store.serve(&known);
    far.ok(&["zpool", "clear", "far"]);
    write_durably(&far.mount("far").join("last"), b"durable").expect("durable");
    scrub_finds_nothing(&far);
    far.ok(&["zpool", "export", "far"]);
    // By the authorities of this host: they are what this variable says.
    store.stop_serving();
    store.serve(&secured);
    import_believing(&far, &store.uri, &ca);
    assert!(fs::read(&file).expect("a file") == bytes);
    far.ok(&["zpool", "export", "far"]);
    let image = far.images().join("far.img");
    store.copy_out(&image);
    far.import("far", &[]);
    assert!(fs::read(&file).expect("a file") == bytes);
    far.export_clean("far");
}

/// What qemu-nbd is told of its certificates, and those of a client.
fn qemu_certificates(folder: &Path) -> (String, PathBuf) {
    let authority = Authority::new(folder, "ca-cert");
    let who = authority.identity("disks", &["localhost"]);
    for (from, to) in [
        (&who.certificate_file, "server-cert.pem"),
        (&who.key_file, "server-key.pem"),
    ] {
        fs::copy(from, folder.join(to)).expect("a copy");
    }
    let certificates = client_folder(folder, "client", &authority, &authority);
    let credentials = format!(
        "tls-creds-x509,id=own,endpoint=server,verify-peer=yes,dir={}",
        path(folder)
    );
    (credentials, certificates)
}

#[test]
fn qemu_has_the_disks_of_a_pool() {
    let Some(mut far) = far() else {
        return;
    };
    if let Err(error) = Command::new("qemu-nbd").arg("--version").output() {
        println!("skipped: qemu-nbd: {error}");
        return;
    }
    let (image, socket) = (far.images().join("far.img"), far.images().join("socket"));
    fs::File::create(&image)
        .and_then(|file| file.set_len(160 << 20))
        .expect("an image");
    let folder = tempfile::tempdir().expect("a folder");
    let (credentials, certificates) = qemu_certificates(folder.path());
    let is_secured = AtomicBool::new(false);
    let serve = || {
        let _gone = fs::remove_file(&socket);
        let mut command = Command::new("qemu-nbd");
        if is_secured.load(Ordering::Relaxed) {
            command.args(["--object", &credentials, "--tls-creds", "own"]);
        }
        let arguments = ["-f", "raw", "-t", "-x", "disk", "--discard=unmap", "-k"];
        command.args(arguments).args([&socket, &image]);
        let server = Running(command.spawn().expect("it runs"));
        until("it serves", || socket.exists());
        server
    };
    let mut server = serve();
    let uri = format!("nbd+unix:///disk?socket={}", path(&socket));
    far.create_of("far", &[&uri], &["-o", "autotrim=on"]);
    let bytes = noise(5_000_001, 1);
    let mounted = far.mount("far");
    let name = |number: u32| mounted.join(format!("file{number}"));
    write_durably(&name(0), &bytes).expect("durable");
    far.ok(&["zpool", "trim", "-w", "far"]);
    for round in 1..4 {
        fs::write(name(round), &bytes).expect("written");
        drop(server);
        until("it is missed", || write_durably(&name(100), b"x").is_err());
        server = serve();
        until("it goes on", || {
            far.run(&["zpool", "clear", "far"]).status.success()
        });
    }
    scrub_finds_nothing(&far);
    kill(&far);
    until("it is imported", || import(&far, &[&uri], &[]).is_ok());
    for round in 0..4 {
        assert!(fs::read(name(round)).expect("a file") == bytes);
    }
    far.ok(&["zpool", "export", "far"]);
    drop(server);
    // By TLS, each side known to the other.
    is_secured.store(true, Ordering::Relaxed);
    let server = serve();
    let secured = format!(
        "nbds+unix:///disk?socket={}&tls-certificates={}",
        path(&socket),
        path(&certificates)
    );
    let text = import(&far, &[&uri], &[]).expect_err("without TLS");
    assert!(text.contains("it requires TLS"), "{text}");
    import(&far, &[&secured], &[]).expect("imported");
    write_durably(&name(4), &bytes).expect("durable");
    far.ok(&["zpool", "export", "far"]);
    drop(server);
    far.import("far", &[]);
    for round in 0..5 {
        assert!(fs::read(name(round)).expect("a file") == bytes);
    }
    far.export_clean("far");
}
