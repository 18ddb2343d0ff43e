use super::shown;

#[test]
fn results_are_shown_with_their_tables() {
    let text = shown(r#"{"return":{"baz":2,"e":{},"foo":"bar","none":null,"t":{"1":true}}}"#);
    let lines = [
        "Channel program fully executed and produced output:",
        "    return:",
        "        baz: 2",
        "        e:",
        "        foo: 'bar'",
        "        none",
        "        t:",
        "            1: true",
        "",
    ];
    assert_eq!(text, lines.join("\n"));
    let nothing = "Channel program fully executed with no return value.\n";
    assert_eq!(shown("{}"), nothing);
}
