use super::*;
use crate::grammar::{HOST, Invocation, Operands, PropertyTable, option, switch};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command as Process;

fn nothing(_: &Invocation) -> crate::output::Outcome {
    Ok(())
}

static COMMANDS: [Command; 2] = [
    Command {
        name: "get",
        aliases: &["fetch"],
        summary: "Show: the pool's properties.",
        forms: &["[pool]"],
        flags: &[
            switch("H", "don't align").or("tabs"),
            option("size", "SIZE", "how much"),
        ],
        operands: Operands::between(0, 2, ""),
        run: nothing,
    },
    Command {
        name: "set",
        aliases: &[],
        summary: "Set.",
        forms: &["property=value pool"],
        flags: &[],
        operands: Operands::between(0, 2, ""),
        run: nothing,
    },
];

static OTHER: Program = Program {
    others: &[],
    absent: &[],
    name: "zfs",
    summary: "One.",
    properties: &[PropertyTable {
        title: "",
        rows: &[admin::rows::dataset::ATIME.row()],
    }],
    environment: &[],
    commands: &COMMANDS,
};
static STREAM: Program = Program {
    others: &[],
    absent: &[],
    name: "zstream",
    summary: "Two.",
    properties: &[],
    environment: &[],
    commands: &COMMANDS,
};
static HOSTING: Program = Program {
    others: &[&OTHER, &STREAM],
    absent: &[],
    name: HOST,
    summary: "All.",
    properties: &[],
    environment: &[],
    commands: &COMMANDS,
};

fn script(shell: Shell) -> String {
    [
        shell.preamble().to_owned(),
        OTHER.completion(shell),
        STREAM.completion(shell),
        HOSTING.completion(shell),
    ]
    .concat()
}

/// What a shell prints, run on `script` followed by `command`; nothing where there is no such shell.
fn run(shell: &str, script: &str, command: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("completions");
    std::fs::write(&file, format!("{script}\n{command}\n")).unwrap();
    // Stands for the program that lists names.
    let lists = folder.path().join(HOST);
    std::fs::write(
        &lists,
        "#!/bin/sh\n[ \"$*\" = 'zfs list -H -o name' ] && echo tank/home\n",
    )
    .unwrap();
    std::fs::set_permissions(&lists, Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let Ok(ran) = Process::new(shell)
        .arg(&file)
        .env("HOME", folder.path())
        .env("PATH", format!("{}:{path}", folder.path().display()))
        .output()
    else {
        println!("skipped: no {shell} on this machine");
        return None;
    };
    assert!(ran.status.success(), "{ran:?}");
    assert!(ran.stderr.is_empty(), "{ran:?}");
    Some(String::from_utf8(ran.stdout).unwrap())
}

#[test]
fn bash_offers_commands_and_flags() {
    let script = script(Shell::Bash);
    let offers = |program: &str, words: &str, at: usize| {
        let ask = format!(
            "COMP_WORDS=({words}); COMP_CWORD={at}; _millpond_{program}; echo ${{COMPREPLY[@]}}"
        );
        run("bash", &script, &ask)
    };
    if let Some(found) = offers("zfs", "zfs ''", 1) {
        assert_eq!(found, "get set\n");
        assert_eq!(
            offers("zfs", "zfs fetch -", 2).unwrap(),
            "-H --tabs --size\n"
        );
        assert_eq!(offers("zfs", "zfs get ta", 2).unwrap(), "tank/home\n");
        assert_eq!(offers("zfs", "zfs set a", 2).unwrap(), "atime=\n");
        assert_eq!(
            offers("millpond", "millpond z", 1).unwrap(),
            "zfs zstream\n"
        );
        assert_eq!(
            offers("millpond", "millpond zfs get --t", 3).unwrap(),
            "--tabs\n"
        );
        assert_eq!(
            offers("millpond", "millpond zstream fetch --t", 3).unwrap(),
            "--tabs\n"
        );
    }
}

#[test]
fn fish_offers_commands_and_flags() {
    // Without what fish brings itself, which it reads where OpenZFS's commands are installed.
    let script = format!("set -g fish_complete_path\n{}", script(Shell::Fish));
    let offers = |line: &str| run("fish", &script, &format!("complete -C '{line}'"));
    if let Some(found) = offers("zfs g") {
        assert_eq!(found, "get\tShow: the pool's properties.\n");
        assert_eq!(offers("zfs fetch --t").unwrap(), "--tabs\tdon't align\n");
        assert_eq!(offers("zfs get tan").unwrap(), "tank/home\n");
        assert_eq!(offers("zfs set at").unwrap(), "atime=\n");
        assert_eq!(offers("millpond z").unwrap(), "zfs\nzstream\n");
    }
}

#[test]
fn zsh_reads_what_it_is_given() {
    // What zsh offers needs a terminal; here its functions are called with what stands for the terminal's.
    let stand_ins = r#"
        compdef() { }
        _files() { }
        _describe() { shift; [[ $1 == flag ]] && shift; (( ${(P)#1} )) && print -rl -- ${(P)1} }
        compadd() { local offered=${@[-1]}; (( ${(P)#offered} )) && print -rl -- ${(P)offered} }
    "#;
    let ask = "words=(zfs ''); CURRENT=2; _millpond_zfs\nwords=(millpond zfs fetch -); CURRENT=4; _millpond_millpond\n\
               words=(zfs set a); CURRENT=3; _millpond_zfs";
    if let Some(found) = run("zsh", &format!("{stand_ins}{}", script(Shell::Zsh)), ask) {
        let expected = [
            "get:Show\\: the pool's properties.",
            "set:Set.",
            "-H:don't align",
            "--tabs:don't align",
            "--size:how much",
            "tank/home",
            "atime=",
            "tank/home",
        ];
        assert_eq!(found.lines().collect::<Vec<_>>(), expected);
    }
}
