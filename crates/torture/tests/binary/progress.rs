//! Long work says how far it is on a terminal, and nothing in a pipe.

use crate::session::{Session, path};
use std::fs;
use std::process::{Command, Output, Stdio};

/// Runs the binary on a terminal of its own; none where there is no `script`.
fn on_a_terminal(session: &Session, arguments: &[&str]) -> Option<String> {
    let binary = std::env::var("MILLPOND_BIN").expect("the binary");
    let line = format!("{binary} {}", arguments.join(" "));
    let output: Output = Command::new("script")
        .args(["-qefc", &line, "/dev/null"])
        .env("MILLPOND_RUN", session.images().with_file_name("run"))
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{line}: {text}");
    Some(text)
}

#[test]
fn long_work_is_shown_on_a_terminal_only() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 256, &["-O", "compression=off"]);
    let noise: Vec<u8> = (0..96_u32 << 20)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    fs::write(session.mount("tank").join("noise"), &noise).expect("written");
    session.ok(&["zpool", "sync", "tank"]);

    let Some(text) = on_a_terminal(&session, &["zpool", "scrub", "-w", "tank"]) else {
        println!("skipped: there is no script(1)");
        return;
    };
    assert!(text.contains("\rtank: scrub: "), "{text:?}");
    assert!(text.contains(" of 9"), "{text:?}");
    assert!(text.ends_with("\r\x1b[K"), "{text:?}");
    session.ok(&["zpool", "scrub", "tank"]);
    let text = on_a_terminal(&session, &["zpool", "wait", "tank"]).expect("as before");
    assert!(text.contains("\rtank: busy: "), "{text:?}");
    let output = session.run(&["zpool", "scrub", "-w", "tank"]);
    assert!(output.status.success() && output.stderr.is_empty() && output.stdout.is_empty());

    session.export("tank");
    let images = session.images();
    let verify = ["inspect", "-p", path(&images), "-e", "-bcc", "tank"];
    let text = on_a_terminal(&session, &verify).expect("as before");
    assert!(text.contains("\rverifying: "), "{text:?}");
    let output = session.run(&verify);
    assert!(output.status.success());
    assert!(!String::from_utf8_lossy(&output.stderr).contains("verifying"));
}
