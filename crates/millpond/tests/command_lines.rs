//! The real binary without any pool: usage, refusals, exit statuses.

mod support;

use support::{Ran, Sandbox};

fn refused(ran: &Ran, status: i32, line: &str) {
    assert_eq!(ran.status, status, "{ran:?}");
    assert!(
        ran.errors.lines().next().is_some_and(|first| first == line),
        "{ran:?}"
    );
}

#[test]
fn nothing_is_running() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run("zpool list");
    assert_eq!(
        (ran.status, ran.output.as_str()),
        (0, "no pools available\n")
    );
    let ran = sandbox.run("zfs list");
    assert_eq!(
        (ran.status, ran.errors.as_str()),
        (0, "no datasets available\n")
    );
    for quiet in ["zfs list -H", "zfs get all"] {
        let ran = sandbox.run(quiet);
        assert_eq!((ran.status, ran.errors.as_str()), (0, ""), "{quiet}");
    }
    let ran = sandbox.run("zpool status");
    assert_eq!(
        (ran.status, ran.errors.as_str()),
        (0, "no pools available\n")
    );
    refused(
        &sandbox.run("zpool list tank"),
        1,
        "cannot open 'tank': no such pool",
    );
    refused(
        &sandbox.run("zpool export tank"),
        1,
        "cannot open 'tank': no such pool",
    );
    refused(
        &sandbox.run("zfs list tank/a"),
        1,
        "cannot open 'tank/a': dataset does not exist",
    );
    refused(
        &sandbox.run("zfs create tank/a"),
        1,
        "cannot create 'tank/a': no such pool 'tank'",
    );
}

#[test]
fn wrong_command_lines_end_with_status_2() {
    let sandbox = Sandbox::new();
    refused(&sandbox.run("zpool"), 2, "missing command");
    refused(
        &sandbox.run("zfs frobnicate"),
        2,
        "unrecognized command 'frobnicate'",
    );
    refused(&sandbox.run("zfs list -Z"), 2, "invalid option 'Z'");
    refused(
        &sandbox.run("zfs list -o nope"),
        2,
        "bad property list: invalid property 'nope'",
    );
    refused(
        &sandbox.run("zpool create tank"),
        2,
        "missing vdev specification",
    );
    refused(
        &sandbox.run("zfs set tank"),
        2,
        "missing property=value or dataset argument",
    );
    refused(&sandbox.run("zfs snapshot"), 2, "missing snapshot argument");
    refused(
        &sandbox.run("zfs userspace -o name,size tank"),
        2,
        "invalid field 'size'",
    );
    refused(
        &sandbox.run("zfs groupspace -t posixuser,user tank"),
        2,
        "invalid type 'user'",
    );
    refused(
        &sandbox.run("zfs projectspace -n tank"),
        2,
        "invalid option 'n'",
    );
    for (words, why) in [
        ("-c -C p", "cannot specify '-C' '-c' '-s' together"),
        ("-k p", "'-k' is only valid together with '-C'"),
        ("-p 4294967295 p", "invalid project ID"),
        ("-p x p", "project ID must be less than 4294967295"),
    ] {
        refused(&sandbox.run(&format!("zfs project {words}")), 2, why);
    }
    refused(
        &sandbox.run("zfs project nosuch"),
        1,
        "failed to stat nosuch: No such file or directory",
    );
    refused(
        &sandbox.run("zpool import -n tank"),
        2,
        "-n or -X only meaningful with -F",
    );
}

#[test]
fn names_and_values_are_checked_before_anyone_is_asked() {
    let sandbox = Sandbox::new();
    refused(
        &sandbox.run("zpool create mirror1 x"),
        1,
        "cannot create 'mirror1': name is reserved",
    );
    refused(
        &sandbox.run("zpool create tank/a x"),
        1,
        "cannot create 'tank/a': invalid character '/' in pool name",
    );
    refused(
        &sandbox.run("zfs create -o recordsize=3 tank/a"),
        1,
        "cannot create 'tank/a': 'recordsize' must be power of 2 from 512B to 16M",
    );
    refused(
        &sandbox.run("zfs create tank/a%b"),
        1,
        "cannot create 'tank/a%b': invalid character '%' in name",
    );
    refused(
        &sandbox.run("zfs set atime=perhaps tank"),
        1,
        "cannot set property for 'tank': 'atime' must be one of 'on | off'",
    );
    refused(
        &sandbox.run("zfs rename tank/a tank/a/b"),
        1,
        "cannot rename to 'tank/a/b': New dataset name cannot be a descendant of current dataset \
         name",
    );
}

#[test]
fn files_are_checked_before_anything_is_made() {
    let sandbox = Sandbox::new();
    let missing = sandbox.path("missing.img");
    let ran = sandbox.run(&format!("zpool create tank {}", missing.display()));
    refused(
        &ran,
        1,
        &format!(
            "cannot open '{}': no such file or device",
            missing.display()
        ),
    );
    assert!(!missing.exists());
    let mountpoint = sandbox.path("full");
    std::fs::create_dir(&mountpoint).unwrap();
    std::fs::write(mountpoint.join("file"), "x").unwrap();
    let (place, file) = (mountpoint.display(), missing.display());
    let ran = sandbox.run(&format!("zpool create --size 64M -m {place} tank {file}"));
    refused(
        &ran,
        1,
        &format!("mountpoint '{place}' exists and is not empty"),
    );
    assert!(!missing.exists());
    let ran = sandbox.run(&format!("zpool create -n --size 64M -m none tank {file}"));
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(
        ran.output
            .starts_with("would create 'tank' with the following layout:\n")
    );
    assert!(!missing.exists());
}

#[test]
fn every_name_of_the_binary_answers() {
    let sandbox = Sandbox::new();
    for name in ["zpool", "zfs"] {
        let link = sandbox.path(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_millpond"), &link).unwrap();
        let ran = sandbox.run_program(&link, &["version"]);
        assert_eq!(ran.status, 0);
        assert!(ran.output.starts_with("zfs-"), "{ran:?}");
    }
    assert!(
        sandbox
            .run("zpool upgrade -v")
            .output
            .contains("\nlz4_compress")
    );
    assert!(
        sandbox
            .run("completions")
            .output
            .contains("complete -o default -F _millpond_zfs zfs")
    );
    let completions = sandbox.run("completions").output;
    for program in ["zpool", "zfs", "stream", "zstream"] {
        let others = "in zpool|zfs|stream|zstream)";
        assert!(
            completions.contains(others) && completions.contains(&format!("_millpond_{program}()"))
        );
    }
    assert!(completions.contains(" atime= ") && completions.contains(" compressratio "));
    let zsh = sandbox.run("completions zsh").output;
    assert!(zsh.starts_with("#compdef zpool zfs zstream millpond\n"));
    assert!(
        sandbox
            .run("completions fish")
            .output
            .contains("complete -c zpool")
    );
    refused(
        &sandbox.run("completions ksh"),
        2,
        "no completions for the shell 'ksh'",
    );
    assert!(sandbox.run("zfs help list").output.contains("flags:"));
}

#[test]
fn bench_runs_on_any_directory_and_cleans_up() {
    let sandbox = Sandbox::new();
    let place = sandbox.path("place");
    std::fs::create_dir(&place).unwrap();
    let ran = sandbox.run("bench meta place -n 50 -j --probe .");
    assert_eq!(ran.status, 0, "{ran:?}");
    let found: serde_json::Value = serde_json::from_str(&ran.output).unwrap();
    assert_eq!(found["phases"][0]["name"], "create");
    assert_eq!(found["phases"][3]["count"], 50);
    assert!(found["device"]["f_us"].as_f64().unwrap() > 0.0);
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0);
    let ran = sandbox.run("bench varmail place -t 2 -n 20 -s 1");
    assert!(ran.output.contains("\nfsync "), "{ran:?}");
    refused(
        &sandbox.run("bench nonsense place"),
        2,
        "no such scenario 'nonsense'",
    );
    refused(
        &sandbox.run("bench varmail place -t 0"),
        2,
        "'threads' must be at least 1",
    );
    assert_eq!(sandbox.run("bench meta nowhere").status, 1);
    assert!(ran.output.contains(" CPUs, "), "where it ran: {ran:?}");
}

/// The names in a directory, in order.
fn names(place: &std::path::Path) -> Vec<String> {
    let names = std::fs::read_dir(place)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn bench_touches_no_file_of_the_user() {
    let sandbox = Sandbox::new();
    let place = sandbox.path("place");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(sandbox.path("precious"), "precious").unwrap();
    std::os::unix::fs::symlink("../precious", place.join("big")).unwrap();
    std::fs::write(place.join("shared"), "mine").unwrap();
    for line in [
        "mkbig -b 1",
        "fanread -b 1 -t 2",
        "fanread -b 1 -t 2 --stride",
    ] {
        let ran = sandbox.run(&format!("bench {line} place"));
        assert_eq!(ran.status, 0, "{line}: {ran:?}");
    }
    let text = |name: &str| std::fs::read_to_string(sandbox.path(name)).unwrap();
    assert_eq!(
        [text("precious"), text("place/shared")],
        ["precious", "mine"]
    );
    assert_eq!(names(&place), ["big", "shared"]);
}

#[test]
fn what_mkbig_keeps_is_read_by_rdbig() {
    let sandbox = Sandbox::new();
    let place = sandbox.path("place");
    std::fs::create_dir(&place).unwrap();
    let advice = format!(
        "\nrun 'millpond bench mkbig -k {}' first\n",
        place.display()
    );
    let ran = sandbox.run("bench rdbig place");
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(ran.errors.ends_with(&advice), "{ran:?}");
    let done = |line: &str| {
        let ran = sandbox.run(line);
        assert_eq!(ran.status, 0, "{line}: {ran:?}");
        assert_eq!(names(&place), ["millpond-bench"], "{line}");
    };
    done("bench mkbig -k -b 2 place");
    done("bench rdbig place");
    done("bench mkbig -b 1 place");
    let kept = place.join("millpond-bench");
    assert_eq!(std::fs::metadata(kept.join("big")).unwrap().len(), 2 << 20);
    let ran = sandbox.run("bench mkbig -k -b 1 place");
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(
        ran.errors.ends_with(" exists\nremove it first\n"),
        "{ran:?}"
    );
    // Nothing is written through a link of that name.
    let elsewhere = sandbox.path("elsewhere");
    std::fs::rename(&kept, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &kept).unwrap();
    assert_eq!(sandbox.run("bench mkbig -k -b 1 place").status, 1);
    assert_eq!(
        std::fs::metadata(elsewhere.join("big")).unwrap().len(),
        2 << 20
    );
}

#[test]
fn a_signal_ends_bench_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    let place = sandbox.path("place");
    std::fs::create_dir(&place).unwrap();
    let script = "\"$0\" bench fsync -s 600 place & bench=$!\n\
                  until ls place/*/fsync-0 >&2; do sleep 0.02; done\n\
                  kill -TERM $bench; wait $bench";
    let words = ["-c", script, env!("CARGO_BIN_EXE_millpond")];
    let ran = sandbox.run_program(std::path::Path::new("/bin/sh"), &words);
    assert_eq!((ran.status, &ran.output[..]), (143, ""), "{ran:?}");
    assert_eq!(names(&place), [""; 0]);
}

#[test]
fn runs_of_bench_are_compared() {
    let sandbox = Sandbox::new();
    let place = sandbox.path("place");
    std::fs::create_dir(&place).unwrap();
    for name in ["a", "b"] {
        let ran = sandbox.run("bench meta place -n 20 -j");
        std::fs::write(sandbox.path(&format!("{name}.json")), ran.output).unwrap();
    }
    let ran = sandbox.run("bench compare --html both.html a.json b.json");
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.output.contains("cold stat  b.json"), "{ran:?}");
    let page = std::fs::read_to_string(sandbox.path("both.html")).unwrap();
    assert_eq!(page.matches("<polyline").count(), 2 * 4);
    let other = sandbox.run("bench meta place -n 30 -j");
    std::fs::write(sandbox.path("c.json"), other.output).unwrap();
    refused(
        &sandbox.run("bench compare a.json c.json"),
        1,
        "no two of these runs are of the same scenario with the same parameters",
    );
    std::fs::write(sandbox.path("d.json"), "[]").unwrap();
    refused(
        &sandbox.run("bench compare a.json d.json"),
        1,
        "'d.json' line 1 is not what 'bench -j' writes",
    );
}

#[test]
fn iostat_and_stat_refuse_what_makes_no_sense() {
    let sandbox = Sandbox::new();
    refused(
        &sandbox.run("zpool iostat -w -r"),
        2,
        "-w and -r cannot be combined",
    );
    refused(
        &sandbox.run("stat -j --prometheus"),
        2,
        "-j and --prometheus cannot be combined",
    );
    let ran = sandbox.run("zpool iostat -v 1 2");
    assert_eq!(
        (ran.status, ran.errors.as_str()),
        (0, "no pools available\n")
    );
}

/// What a library has to say that no call returns goes to the binary's standard error: a daemon's log.
#[test]
fn notices_are_printed() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_millpond"))
        .arg("daemon-child")
        .env("MILLPOND_TUNABLES", "nonsense=1")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "MILLPOND_TUNABLES: not understood: nonsense=1\n"
    );
    let ran = Sandbox::new().run("inspect nowhere.img");
    assert_eq!(ran.status, 2);
    assert!(ran.errors.starts_with("inspect: "), "{ran:?}");
}

#[test]
fn a_mistyped_command_is_guessed_and_one_that_is_not_there_yet_says_so_alone() {
    let sandbox = Sandbox::new();
    for (line, text) in [
        (
            "zfs creat tank/a",
            "unrecognized command 'creat'; did you mean 'create'?",
        ),
        (
            "zpool lst",
            "unrecognized command 'lst'; did you mean 'list'?",
        ),
        (
            "zpool help statsu",
            "unrecognized command 'statsu'; did you mean 'status'?",
        ),
        ("zfs share tank", "'zfs share' is not there yet: "),
        ("zfs unshare tank", "'zfs unshare' is not there yet: "),
    ] {
        let output = sandbox.run(line);
        assert_eq!(output.status, 2, "{line}: {output:?}");
        assert!(output.errors.starts_with(text), "{line}: {output:?}");
        assert_eq!(output.errors.lines().count(), 1, "{line}: {output:?}");
    }
}

#[test]
fn help_knows_the_other_programs() {
    let sandbox = Sandbox::new();
    for (line, text) in [
        ("help zpool", "usage: zpool command args ..."),
        (
            "help zpool scrub",
            "Read every block and verify its checksum",
        ),
        ("help zfs", "usage: zfs command args ..."),
    ] {
        let output = sandbox.run(line);
        assert_eq!(output.status, 0, "{line}: {output:?}");
        assert!(output.output.contains(text), "{line}: {output:?}");
    }
}

#[test]
fn events_of_a_pool_that_is_not_there_are_not_waited_for() {
    let sandbox = Sandbox::new();
    let output = sandbox.run("zpool events -H -f tank");
    refused(&output, 1, "cannot open 'tank': no such pool");
}

#[test]
fn devices_of_several_sizes_need_force() {
    let sandbox = Sandbox::new();
    for (name, megabytes) in [("a", 96), ("b", 128), ("c", 100)] {
        let file = std::fs::File::create(sandbox.path(name)).unwrap();
        file.set_len(megabytes << 20).unwrap();
    }
    let refused = |kind: &str| {
        format!(
            "invalid vdev specification\nuse '-f' to override the following errors:\n\
             {kind} contains devices of different sizes\n"
        )
    };
    for (words, kind) in [("mirror ./a ./b", "mirror"), ("raidz ./a ./b ./c", "raidz")] {
        let ran = sandbox.run(&format!("zpool create -n tank {words}"));
        assert_eq!((ran.status, ran.errors), (1, refused(kind)));
        assert_eq!(
            sandbox
                .run(&format!("zpool create -nf tank {words}"))
                .status,
            0
        );
    }
    // Alike enough; and sizes of devices that stand alone are their own.
    for words in ["mirror ./a ./c", "./a ./b"] {
        assert_eq!(
            sandbox.run(&format!("zpool create -n tank {words}")).status,
            0
        );
    }
}

#[test]
fn files_that_never_were_a_pools_are_not_complained_about() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("papers")).unwrap();
    for name in ["a.txt", "b.txt"] {
        std::fs::write(sandbox.path("papers").join(name), "text").unwrap();
    }
    let ran = sandbox.run("zpool import -d papers");
    assert_eq!(ran.errors, "no pools available to import\n");
    // One that is named is.
    let ran = sandbox.run("zpool import -d papers/a.txt");
    assert!(ran.errors.contains("no pool: "), "{}", ran.errors);
}

/// The flags that a command's help explains, as they are typed.
fn flags_of(help: &str) -> Vec<&str> {
    let (_, lines) = help.split_once("\nflags:\n").expect("flags");
    let words = lines.lines().flat_map(|line| {
        let words = line.split_whitespace();
        words.take_while(|word| word.starts_with('-'))
    });
    words.map(|word| word.trim_end_matches(',')).collect()
}

#[test]
fn the_inspector_explains_its_flags() {
    let sandbox = Sandbox::new();
    let help = sandbox.run("help inspect");
    let asked = sandbox.run("inspect --help");
    assert_eq!((asked.status, &asked.errors[..]), (0, ""), "{asked:?}");
    assert_eq!(asked.output, help.output);
    for text in [
        "inspect [-bcCdhijlmuLPve] [--verify] [-t txg] [-p directory] image|directory ...",
        "\n    --verify ",
        "\n    -d, --datasets ",
    ] {
        assert!(help.output.contains(text), "{text}: {}", help.output);
    }
    let flags = flags_of(&help.output);
    assert!(flags.len() > 20, "{flags:?}");
    // Each is one that the inspector knows: it asks for what is missing besides.
    for flag in flags {
        let ran = sandbox.run(&format!("inspect {flag}"));
        let text = match flag {
            "-t" | "-p" => format!("inspect: {flag} needs a value"),
            _ => "inspect: name the pool's images or disks, or a directory with -p".to_owned(),
        };
        refused(&ran, 2, &text);
    }
}

#[test]
fn the_overview_has_every_program() {
    let overview = Sandbox::new().run("--help").output;
    for program in ["zpool", "zfs", "stream", "zstream"] {
        let line = format!("\n    {program:<12} ");
        assert!(overview.contains(&line), "{program}: {overview}");
    }
}

#[test]
fn usage_lines_do_not_repeat_flags() {
    let sandbox = Sandbox::new();
    for (command, lines) in [
        (
            "nbd",
            "\tnbd [flags] --socket path volume|snapshot ...\n\
             \tnbd [flags] --listen [address:]port volume|snapshot ...\n",
        ),
        (
            "zfs send",
            "\tsend [flags] [-i|-I snapshot] snapshot\n\tsend [flags] -R [-i|-I snapshot] snapshot\n\
             \tsend [flags] -S filesystem|volume\n\tsend [flags] -t resume_token\n",
        ),
        (
            "zpool remove",
            "\tremove [-npw] pool device ...\n\tremove -s pool\n",
        ),
    ] {
        let help = sandbox.run(&format!("{command} --help")).output;
        assert!(help.contains(&format!("\nusage:\n{lines}\n")), "{help}");
    }
    // Where the flags are not explained, they are listed once.
    let wrong = sandbox.run("bench meta").errors;
    assert_eq!(wrong.matches("[-t threads]").count(), 1, "{wrong}");
    assert_eq!(wrong.matches("bench [flags] ").count(), 3, "{wrong}");
}
