//! `zfs version`, `zpool version` and `--version`.

use crate::flags::JSON;
use crate::grammar::{Command, Invocation, Operands};
use crate::output::{Outcome, print};
use crate::render::{Json, JsonOptions};

/// `zfs version` and `zpool version`.
pub(crate) const COMMAND: Command = Command {
    name: "version",
    aliases: &[],
    summary: "Print the version.",
    forms: &[""],
    flags: &[JSON],
    operands: Operands::NONE,
    run: version,
};

fn version(call: &Invocation) -> Outcome {
    if !call.has("j") {
        return print(&text());
    }
    let [tools, engine] = versions();
    let program = call.line.split(' ').next().unwrap_or_default();
    let mut json = Json::new(&format!("{program} version"), JsonOptions::default());
    json.member(
        "zfs_version",
        serde_json::json!({"userland": tools, "kernel": engine}),
    );
    print(&json.text())
}

/// The version, in the two lines that scripts expect.
pub(crate) fn text() -> String {
    let [tools, engine] = versions();
    format!("{tools}\n{engine}\n")
}

/// The versions of the tools and of the engine; the pool format is that of OpenZFS 2.3.
fn versions() -> [String; 2] {
    let version = env!("CARGO_PKG_VERSION");
    [
        format!("zfs-2.3.0-millpond-{version}"),
        format!("zfs-kmod-none-millpond-{version}"),
    ]
}
