use super::*;
use crate::grammar::Parsed;

fn parse(line: &str) -> Result<&'static str, String> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    match PROGRAM.parse(&words) {
        Ok(Parsed::Run(command, _)) => Ok(command.name),
        Ok(_) => Ok("help"),
        Err((error, _)) => Err(error.to_string()),
    }
}

#[test]
fn lines_that_people_type() {
    for (line, name) in [
        (
            "list -Hp -t all -o name,type,used,available -r tank",
            "list",
        ),
        ("list -t snapshot -S used -s name", "list"),
        ("get -Hp all -r tank", "get"),
        ("get -o value -H compressratio tank/a", "get"),
        ("snap -r tank@now", "snapshot"),
        ("destroy -rv tank/a@b%c", "destroy"),
        ("create -o compression=zstd -V 1G -s -b 8k tank/v", "create"),
        ("rollback -R tank@x", "rollback"),
        ("umount -f tank", "unmount"),
        ("mount", "mount"),
        ("hold -r keep tank@a", "hold"),
        ("set atime=off compression=lz4 tank/a tank/b", "set"),
        ("inherit -r compression tank", "inherit"),
        ("help list", "help"),
    ] {
        assert_eq!(parse(line).as_deref(), Ok(name), "{line}");
    }
}

#[test]
fn lines_that_make_no_sense() {
    assert_eq!(parse(""), Err("missing command".into()));
    assert_eq!(
        parse("frobnicate"),
        Err("unrecognized command 'frobnicate'".into())
    );
    assert_eq!(parse("list -Z"), Err("invalid option 'Z'".into()));
    assert_eq!(parse("create"), Err("missing filesystem argument".into()));
    assert_eq!(parse("create a b"), Err("too many arguments".into()));
}

#[test]
fn every_command_explains_itself() {
    for command in COMMANDS {
        assert!(!command.usage().is_empty());
        assert!(command.summary.ends_with('.'));
        for (at, flag) in command.flags.iter().enumerate() {
            assert!(
                !command.flags[..at]
                    .iter()
                    .any(|other| other.key == flag.key)
            );
        }
    }
}
