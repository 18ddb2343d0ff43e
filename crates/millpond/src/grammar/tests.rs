use super::*;

fn nothing(_: &Invocation) -> crate::output::Outcome {
    Ok(())
}

static LIST: Command = Command {
    name: "list",
    aliases: &["ls"],
    summary: "List things.",
    forms: &["[dataset] ..."],
    flags: &[
        switch("H", "tabs"),
        switch("p", "exact"),
        switch("j", "JSON").or("json"),
        option("o", "property[,...]", "columns"),
        option("s", "property", "sort"),
        option("size", "SIZE", "size"),
        switch("json-int", "numbers"),
    ],
    operands: Operands::between(0, 2, ""),
    run: nothing,
};

static PROGRAM: Program = Program {
    others: &[],
    absent: &[],
    name: "zfs",
    summary: "Datasets.",
    properties: &[],
    environment: &[],
    commands: std::slice::from_ref(&LIST),
};

fn parse(line: &str) -> Result<Invocation, GrammarError> {
    LIST.parse(
        &line
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>(),
    )
}

#[test]
fn bundled_attached_and_mixed() {
    let found = parse("-Hpo name,used tank -sused --size=10G -s name x --json").unwrap();
    assert!(found.has("H") && found.has("p") && found.has("j"));
    assert_eq!(found.value("o"), Some("name,used"));
    assert_eq!(found.values("s").collect::<Vec<_>>(), ["used", "name"]);
    assert_eq!(found.value("size"), Some("10G"));
    assert_eq!(found.operands(), ["tank", "x"]);
}

#[test]
fn two_dashes_end_the_flags() {
    let found = parse("-H -- -p -").unwrap();
    assert!(!found.has("p"));
    assert_eq!(found.operands(), ["-p", "-"]);
}

#[test]
fn refusals() {
    let error = |line| parse(line).unwrap_err().to_string();
    assert_eq!(error("-x"), "invalid option 'x'");
    assert_eq!(error("--nope"), "invalid option '--nope'");
    assert_eq!(error("-o"), "missing argument for 'o' option");
    assert_eq!(error("--size"), "missing argument for 'size' option");
    assert_eq!(error("--json=1"), "option 'json' takes no argument");
    assert_eq!(error("a b c"), "too many arguments");
}

#[test]
fn programs() {
    let arguments = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let parse = |line: &str| PROGRAM.parse(&arguments(line));
    assert!(matches!(parse(""), Err((GrammarError::NoCommand, None))));
    assert!(matches!(
        parse("nope"),
        Err((GrammarError::NoSuchCommand(_), None))
    ));
    assert!(matches!(parse("help list"), Ok(Parsed::Help(_))));
    assert!(matches!(parse("list -?"), Ok(Parsed::Help(_))));
    assert!(matches!(parse("--version"), Ok(Parsed::Version)));
    let Ok(Parsed::Run(command, invocation)) = parse("ls -H  tank") else {
        panic!()
    };
    assert_eq!(command.name, "list");
    assert_eq!(invocation.line, "zfs ls -H tank");
}

#[test]
fn usage_comes_from_the_table() {
    assert_eq!(
        LIST.usage(),
        "\tlist [-Hpj] [-o property[,...]] [-s property] [--size SIZE] [--json-int] [dataset] ...\n"
    );
    assert!(LIST.help().contains("-j, --json"));
}
