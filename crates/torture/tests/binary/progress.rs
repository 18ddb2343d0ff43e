//! Long work says how far it is on a terminal, to programs that ask for JSON, and nothing in a pipe.

use crate::session::{Session, path};
use serde_json::Value;
use std::fs;
use std::process::{Command, Output, Stdio};

/// Runs the binary on a terminal of its own; none where there is no `script`.
pub(crate) fn on_a_terminal(session: &Session, arguments: &[&str]) -> Option<String> {
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

/// The one object on the standard output; on the standard error there is nothing but progress, an object a line.
fn object_of(output: &Output) -> (Value, Vec<Value>) {
    let parsed = |text: &[u8]| serde_json::from_slice::<Value>(text);
    let object = parsed(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let lines = output.stderr.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty()).map(|line| {
        let line = parsed(line).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        line.get("progress").expect("progress").clone()
    });
    (object, lines.collect())
}

#[test]
fn programs_read_progress_and_results_as_json() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &["-O", "compression=off"]);
    fs::write(session.mount("tank").join("file"), vec![7; 5 << 20]).expect("written");
    session.ok(&["zpool", "sync", "tank"]);
    let refused = session.refused(&["zpool", "scrub", "-j", "tank"]);
    assert!(refused.contains("-j without -w"), "{refused}");
    let (scrub, progress) = object_of(&session.run(&["zpool", "scrub", "-w", "--json", "tank"]));
    let scan = &scrub["pools"]["tank"]["scan_stats"];
    assert_eq!(scan["function"], "SCRUB", "{scrub}");
    assert_eq!(scan["state"], "FINISHED", "{scrub}");
    assert_eq!(scan["errors"], 0, "{scrub}");
    assert!(scan["examined"].as_u64() > Some(5 << 20), "{scrub}");
    assert!(!progress.is_empty(), "the first line comes at once");
    assert_eq!(progress[0]["what"], "scrub");
    assert_eq!(progress[0]["pool"], "tank");
    assert!(progress[0]["bytes_total"].is_u64(), "{progress:?}");
    session.export("tank");

    let image = session.images().join("tank.img");
    let copied = session.mounts().join("copied");
    let from = format!("{}:", image.display());
    let copy = session.run(&["cp", "-r", "--json", &from, path(&copied)]);
    let (copy, _) = object_of(&copy);
    assert_eq!(copy["bytes"], 5 << 20, "{copy}");
    assert_eq!(copy["problem_count"], 0, "{copy}");

    let made = session.images().join("made.img");
    let (made, _) = object_of(&session.run(&["mkimage", "-j", path(&copied), path(&made)]));
    assert_eq!(made["pool"], "made", "{made}");
    assert_eq!(made["bytes"], 5 << 20, "{made}");
    let length = fs::metadata(session.images().join("made.img")).expect("made");
    assert_eq!(made["size"], length.len(), "{made}");
}

#[test]
fn the_result_of_a_check_is_json() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &["-O", "compression=off"]);
    fs::write(
        session.mount("tank").join("file"),
        b"0123456789abcdef".repeat(8192),
    )
    .expect("written");
    session.export("tank");
    let image = session.images().join("tank.img");
    let verify = ["inspect", "--verify", "--json", path(&image)];
    let output = session.run(&verify);
    let (report, progress) = object_of(&output);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(report["pool"], "tank");
    assert_eq!(report["clean"], true, "{report}");
    assert_eq!(report["space_matches"], true, "{report}");
    assert_eq!(report["problems"], serde_json::json!([]));
    assert!(
        report["checksummed_bytes"].as_u64() > Some(128 << 10),
        "{report}"
    );
    assert_eq!(progress[0]["what"], "verifying", "{progress:?}");

    // The file's block, wherever it is.
    let mut bytes = fs::read(&image).expect("the image");
    let at = bytes
        .windows(48)
        .position(|window| window == b"0123456789abcdef".repeat(3));
    bytes[at.expect("the file's block")] ^= 1;
    fs::write(&image, bytes).expect("written");
    let output = session.run(&verify);
    let (report, _) = object_of(&output);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(report["clean"], false, "{report}");
    assert_eq!(report["problems"][0]["kind"], "bad copies", "{report}");
    assert_eq!(report["problems"][0]["count"], 1, "{report}");
    assert_eq!(report["damaged"][0]["name"], "tank:/file", "{report}");
    let text = session.run(&["inspect", "--verify", path(&image)]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("\n\ttank:/file: 1 block lost\n"), "{text}");
    let refused = session.refused(&["inspect", "-d", "--json", path(&image)]);
    assert!(refused.contains("--json goes with"), "{refused}");
}
