//! Keys of encrypted datasets that web servers have (`keylocation=https://…`). A build without https says so.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::certificates::Authority;
use crate::session::{Session, path};

const PASSPHRASE: &str = "correct horse battery";
const OTHER: &str = "another horse entirely";

/// What a server says to who asks for a path.
fn answer(target: &str, plain: &str) -> Vec<u8> {
    let whole = |status: &str, more: &str, body: &str| {
        format!(
            "HTTP/1.1 {status}\r\n{more}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    let to = |place: &str| whole("302 Found", &format!("Location: {place}\r\n"), "");
    let text = match target {
        "/key" => whole("200 OK", "", &format!("{PASSPHRASE}\n")),
        "/other" => whole("200 OK", "", OTHER),
        "/large" => whole("200 OK", "", &"x".repeat(5000)),
        "/long" => format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}",
            "x".repeat(5000)
        ),
        "/cut" => "HTTP/1.1 200 OK\r\nContent-Length: 22\r\n\r\ncorrect horse".to_owned(),
        "/moved" => to("/key"),
        "/round" => to("/round"),
        "/plain" => to(plain),
        _ => whole("404 Not Found", "", "nothing here"),
    };
    text.into_bytes()
}

/// Answers one request; nothing comes of who asks for `/slow`.
fn serve(mut stream: impl Read + Write, plain: &str) {
    let mut asked = Vec::new();
    let mut byte = [0];
    while !asked.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => asked.push(byte[0]),
            Ok(_) | Err(_) => return,
        }
    }
    let asked = String::from_utf8_lossy(&asked).into_owned();
    let target = asked.split(' ').nth(1).unwrap_or_default();
    if target == "/slow" {
        while stream.write_all(b"H").is_ok() {
            std::thread::sleep(Duration::from_secs(60));
        }
        return;
    }
    // Who has seen enough is gone.
    let _gone = stream.write_all(&answer(target, plain));
    let _gone = stream.flush();
}

/// A server of this machine, with TLS or without; its address. It ends with the test.
fn server(config: Option<Arc<ServerConfig>>, plain: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let plain = plain.to_owned();
    let scheme = if config.is_some() { "https" } else { "http" };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (config, plain) = (config.clone(), plain.clone());
            std::thread::spawn(move || one(stream, config, &plain));
        }
    });
    format!("{scheme}://127.0.0.1:{port}")
}

fn one(stream: TcpStream, config: Option<Arc<ServerConfig>>, plain: &str) {
    let Some(config) = config else {
        return serve(stream, plain);
    };
    let connection = ServerConnection::new(config).expect("a connection");
    let mut secured = StreamOwned::new(connection, stream);
    serve(&mut secured, plain);
    secured.conn.send_close_notify();
    let _gone = secured.flush();
}

/// Runs the binary by whom one authority is believed, and with more variables.
fn run(session: &Session, authority: &Path, more: &[(&str, &Path)], arguments: &[&str]) -> Output {
    let mut command = session.command(arguments);
    command.env("SSL_CA_CERT_FILE", authority);
    command.envs(more.iter().copied());
    command.output().expect("the binary runs")
}

fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!text.contains("panicked"), "{text}");
    for secret in [PASSPHRASE, OTHER] {
        assert!(!text.contains(secret), "{text}");
    }
    text
}

#[track_caller]
fn done(output: &Output) {
    assert!(output.status.success(), "{}", said(output));
}

/// Whether the binary was built with https; one without says what it lacks.
fn has_https(output: &Output) -> bool {
    let text = said(output);
    if !text.contains("this build has no https") {
        return true;
    }
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("--features https"), "{text}");
    println!("skipped: this build has no https");
    false
}

fn status(session: &Session, dataset: &str) -> String {
    let text = session.ok(&["zfs", "get", "-Ho", "value", "keystatus", dataset]);
    text.trim().to_owned()
}

#[test]
fn keys_come_from_web_servers() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "authority");
    let ca = authority.file();
    let plain = server(None, "");
    let who = authority.identity("web", &["127.0.0.1"]);
    let secure = server(Some(who.server(None)), &format!("{plain}/key"));
    session.create("tank", 128, &[]);
    let run = |arguments: &[&str]| run(&session, &ca, &[], arguments);
    let location = format!("keylocation={secure}/key");
    let create = [
        "zfs",
        "create",
        "-o",
        "encryption=on",
        "-o",
        "keyformat=passphrase",
        "-o",
    ];
    let made = run(&[&create[..], &[&location, "tank/web"]].concat());
    if !has_https(&made) {
        return;
    }
    done(&made);
    fs::write(session.mount("tank/web").join("file"), "text").expect("a file");
    session.ok(&["zfs", "unmount", "-u", "tank/web"]);
    assert_eq!(status(&session, "tank/web"), "unavailable");
    // As often as it is needed, also by another way, and as anybody would type it.
    done(&run(&["zfs", "mount", "-l", "tank/web"]));
    let text = fs::read_to_string(session.mount("tank/web").join("file"));
    assert_eq!(text.expect("a file"), "text");
    for way in [format!("{secure}/moved"), format!("{plain}/key")] {
        done(&run(&["zfs", "load-key", "-n", "-L", &way, "tank/web"]));
    }
    let typed = session.given(
        &format!("{PASSPHRASE}\n"),
        &["zfs", "load-key", "-n", "-L", "prompt", "tank/web"],
    );
    done(&typed);
    // Another key, from elsewhere.
    let location = format!("keylocation={secure}/other");
    done(&run(&["zfs", "change-key", "-o", &location, "tank/web"]));
    let value = session.ok(&["zfs", "get", "-Ho", "value", "keylocation", "tank/web"]);
    assert_eq!(value.trim(), format!("{secure}/other"));
    session.ok(&["zpool", "export", "tank"]);
    let (images, mounts) = (session.images(), session.mounts());
    let import = ["zpool", "import", "-d", path(&images), "-R", path(&mounts)];
    done(&run(&[&import[..], &["-l", "tank"]].concat()));
    let text = fs::read_to_string(session.mount("tank/web").join("file"));
    assert_eq!(text.expect("a file"), "text");
    session.ok(&["zfs", "unmount", "-u", "tank/web"]);
    done(&run(&["zfs", "load-key", "-a"]));
    assert_eq!(status(&session, "tank/web"), "available");
    session.export_clean("tank");
}

/// Addresses from which no key comes, and why.
fn refusals(secure: &str, misnamed: &str) -> Vec<(String, &'static str)> {
    let at = |path: &str| format!("{secure}{path}");
    vec![
        (at("/none"), "the server answered with status 404"),
        (at("/large"), "the answer has 5000 bytes, more than any key"),
        (
            at("/long"),
            "the answer has more than 1024 bytes, more than any key",
        ),
        (at("/cut"), "Peer disconnected"),
        (
            at("/plain"),
            "the server redirects to an address without https",
        ),
        (at("/round"), "the server redirects too often"),
        (format!("{misnamed}/key"), "invalid peer certificate"),
        (at("/slow"), "it took longer than 15 seconds"),
    ]
}

#[test]
fn what_a_web_server_may_not_do_loads_no_key() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "authority");
    let stranger = Authority::new(folder.path(), "stranger");
    let plain = format!("{}/key", server(None, ""));
    let who = authority.identity("web", &["127.0.0.1"]);
    let elsewhere = authority.identity("elsewhere", &["web.example.org"]);
    let secure = server(Some(who.server(None)), &plain);
    let misnamed = server(Some(elsewhere.server(None)), &plain);
    session.create("tank", 128, &[]);
    let create = [
        "zfs",
        "create",
        "-o",
        "encryption=on",
        "-o",
        "keyformat=passphrase",
        "tank/web",
    ];
    done(&session.given(&format!("{PASSPHRASE}\n"), &create));
    session.ok(&["zfs", "unmount", "-u", "tank/web"]);
    let from = |ca: &Authority, place: &str| {
        run(
            &session,
            &ca.file(),
            &[],
            &["zfs", "load-key", "-L", place, "tank/web"],
        )
    };
    if !has_https(&from(&authority, &format!("{secure}/none"))) {
        return;
    }
    let begun = Instant::now();
    let at = |path: &str| format!("{secure}{path}");
    for (place, why) in refusals(&secure, &misnamed) {
        let refused = from(&authority, &place);
        assert_eq!(refused.status.code(), Some(255), "{place}");
        let text = said(&refused);
        let begin = "Key load error: Failed to get key material from the server: ";
        assert!(text.starts_with(begin), "{place}: {text}");
        assert!(text.contains(why), "{place}: {text}");
        assert_eq!(status(&session, "tank/web"), "unavailable", "{place}");
    }
    assert!(
        begun.elapsed() < Duration::from_secs(60),
        "{:?}",
        begun.elapsed()
    );
    let text = said(&from(&stranger, &at("/key")));
    assert!(
        text.contains("invalid peer certificate: UnknownIssuer"),
        "{text}"
    );
    let text = said(&from(&authority, &at("/other")));
    assert_eq!(
        text,
        "Key load error: Incorrect key provided for 'tank/web'.\n"
    );
    assert_eq!(status(&session, "tank/web"), "unavailable");
    done(&from(&authority, &at("/key")));
    assert_eq!(status(&session, "tank/web"), "available");
    session.export_clean("tank");
}

#[test]
fn a_web_server_may_want_to_know_who_asks() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "authority");
    let who = authority.identity("web", &["127.0.0.1"]);
    let host = authority.identity("host", &[]);
    let secure = server(Some(who.server(Some(&authority))), "");
    session.create("tank", 128, &[]);
    let create = [
        "zfs",
        "create",
        "-o",
        "encryption=on",
        "-o",
        "keyformat=passphrase",
        "tank/web",
    ];
    done(&session.given(&format!("{PASSPHRASE}\n"), &create));
    let load = |more: &[(&str, &Path)]| {
        let place = format!("{secure}/key");
        run(
            &session,
            &authority.file(),
            more,
            &["zfs", "load-key", "-n", "-L", &place, "tank/web"],
        )
    };
    let nobody = load(&[]);
    if !has_https(&nobody) {
        return;
    }
    assert!(!nobody.status.success(), "{}", said(&nobody));
    let certificate = ("SSL_CLIENT_CERT_FILE", host.certificate_file.as_path());
    let key = ("SSL_CLIENT_KEY_FILE", host.key_file.as_path());
    done(&load(&[certificate, key]));
    let text = said(&load(&[certificate]));
    assert!(
        text.contains("no private key is where SSL_CLIENT_KEY_FILE says"),
        "{text}"
    );
    let text = said(&load(&[
        certificate,
        ("SSL_CLIENT_KEY_FILE", Path::new("/no/such/file")),
    ]));
    assert!(
        text.contains("SSL_CLIENT_KEY_FILE cannot be read: No such file or directory"),
        "{text}"
    );
    // Both in one file.
    let both = folder.path().join("both.pem");
    let texts = [&host.certificate_file, &host.key_file]
        .map(|file| fs::read_to_string(file).expect("a file"));
    fs::write(&both, texts.concat()).expect("a file");
    done(&load(&[("SSL_CLIENT_CERT_FILE", both.as_path())]));
    session.export_clean("tank");
}
