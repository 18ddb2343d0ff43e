use std::cell::{Cell, RefCell};
use std::time::Instant;

use super::*;

/// A pool of two datasets, which notes what is done to it.
#[derive(Default)]
struct Fake {
    done: RefCell<Vec<(Action, Mode)>>,
    notes: RefCell<Vec<String>>,
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

impl Host for Fake {
    fn exists(&self, name: &str) -> Result<bool, String> {
        match name.split('/').next() {
            Some("p") => Ok(name == "p" || name == "p/a"),
            _ => Err(format!("'{name}' is not in pool 'p'")),
        }
    }

    fn property(
        &self,
        name: &str,
        property: &str,
    ) -> Result<Option<(Value, Option<String>)>, String> {
        match property {
            "guid" => Ok(Some((Value::Number(-2), None))),
            "compression" => Ok(Some((text("on"), Some(name.to_owned())))),
            "a:b" => Ok(None),
            _ => Err(format!("no property {property}")),
        }
    }

    fn list(&self, what: Listing, name: &str) -> Result<Vec<Entry>, String> {
        Ok(match what {
            Listing::Snapshots => vec![
                vec![text(&format!("{name}@1"))],
                vec![text(&format!("{name}@2"))],
            ],
            Listing::Holds => vec![vec![text("tag"), Value::Number(7)]],
            Listing::SystemProperties => vec![vec![text("guid")], vec![text("used")]],
            Listing::Children | Listing::Clones | Listing::Bookmarks | Listing::UserProperties => {
                Vec::new()
            }
        })
    }

    fn act(&self, action: &Action, mode: Mode) -> Result<(), Refusal> {
        self.done.borrow_mut().push((action.clone(), mode));
        match action {
            Action::Promote { .. } => Err(Refusal {
                errno: errno::EEXIST,
                details: vec!["1".to_owned()],
            }),
            Action::Destroy { name, .. } if name == "p/busy" => Err(Refusal::new(errno::EBUSY)),
            _ => Ok(()),
        }
    }

    fn note(&self, text: &str) {
        self.notes.borrow_mut().push(text.to_owned());
    }
}

fn limits() -> Limits {
    Limits {
        instructions: 1_000_000,
        memory_bytes: 10 << 20,
        cpu_ns: Box::new(|| 0),
        interrupted: Box::new(|| false),
    }
}

fn run_on(host: &Fake, text: &str) -> Result<Option<Value>, ProgramError> {
    let arguments = ["one".to_owned(), "two".to_owned()];
    let script = Script {
        text: text.as_bytes(),
        arguments: &arguments,
        read_only: false,
    };
    run(&script, limits(), host)
}

fn result(text: &str) -> Result<Option<Value>, ProgramError> {
    run_on(&Fake::default(), text)
}

/// The value of a script that is to be true.
fn holds(text: &str) {
    assert_eq!(result(text), Ok(Some(Value::Boolean(true))), "{text}");
}

fn fails(text: &str, part: &str) {
    match result(text) {
        Err(error) if error.to_string().contains(part) => {}
        other => panic!("{text}: {other:?}, not {part}"),
    }
}

#[test]
fn values_come_back_as_they_are() {
    assert_eq!(result(""), Ok(None));
    assert_eq!(result("return nil"), Ok(Some(Value::Nil)));
    assert_eq!(result("return -3"), Ok(Some(Value::Number(-3))));
    assert_eq!(result("return 2^10"), Ok(Some(Value::Number(1024))));
    assert_eq!(result("return (...).argv[2]"), Ok(Some(text("two"))));
    let table = "return {foo='bar', baz=2, 'x', [10]='z', [true]={}}";
    let entry = |key: &str, value| (key.to_owned(), value);
    let expected = vec![
        entry("1", text("x")),
        entry("10", text("z")),
        entry("baz", Value::Number(2)),
        entry("foo", text("bar")),
        entry("true", Value::Table(Vec::new())),
    ];
    assert_eq!(result(table), Ok(Some(Value::Table(expected))));
}

#[test]
fn what_cannot_be_returned_is_refused() {
    fails("return 1, 2", "Multiple return values not supported");
    fails("return {[true]=1, ['true']=2}", "two keys");
    fails("return {[1]=1, ['1']=2}", "two keys");
    fails("return type", "a function cannot be returned");
    fails(
        "return {[type]=1}",
        "a function as a key cannot be returned",
    );
}

#[test]
fn a_table_in_itself_is_refused() {
    fails("local t = {} t.t = t return t", "nested");
    let wide = "local t = {} for i = 1, 19 do t = {t, t, t, t} end return t";
    assert_eq!(result(wide), Err(ProgramError::TooLarge));
}

#[test]
fn numbers_are_whole() {
    holds("return 7/2 == 3 and 1//1 == 1 and '/' .. \"a/b\" .. [[/]] == '/a/b/' -- a/b");
    holds("--[[ 1.5 ]] return 0x10 == 16 and 10 .. '' == '10'");
    fails("\nreturn 1.5", ":2: malformed number near '1.5'");
    fails("return 1e3", "malformed number");
    fails("return 1/0", "attempt to");
}

#[test]
fn what_reaches_outside_is_not_there() {
    let absent =
        "dofile loadfile load pcall xpcall print require io os package debug math utf8 bit32";
    for name in absent.split(' ') {
        holds(&format!("return {name} == nil"));
    }
    holds("return string.dump == nil and table.move == nil");
    fails("\x1bLua", "attempt to load a binary chunk");
    fails("setmetatable({}, {__gc = function() end})", "finalizers");
}

#[test]
fn errors_say_where() {
    fails(
        "x = = 1",
        "[string \"channel program\"]:1: unexpected symbol",
    );
    fails(
        "\nerror('bad')",
        "[string \"channel program\"]:2: bad\nstack traceback:",
    );
    fails("error({code = 1})", "table");
    fails(
        "\nzfs.exists('q/a')",
        "[string \"channel program\"]:2: 'q/a' is not in pool 'p'",
    );
    fails("zfs.exists()", "missing argument 'dataset'");
    fails("zfs.exists('p', 'q')", "too many arguments");
    fails(
        "zfs.sync.destroy{'p', deferred = true}",
        "unknown argument 'deferred'",
    );
}

#[test]
fn programs_ask_and_change() {
    let host = Fake::default();
    let script = "
        zfs.debug('hello')
        assert(zfs.exists('p/a') and not zfs.exists('p/b'))
        local value, source = zfs.get_prop('p/a', 'compression')
        assert(value == 'on' and source == 'p/a')
        value, source = zfs.get_prop('p/a', 'guid')
        assert(value == -2 and source == nil)
        assert(zfs.get_prop('p/a', 'a:b') == nil)
        for tag, time in zfs.list.holds('p@1') do assert(tag == 'tag' and time == 7) end
        assert(#zfs.list.system_properties('p') == 2)
        for snap in zfs.list.snapshots('p') do assert(zfs.sync.destroy{snap, defer = true} == 0) end
        assert(zfs.check.destroy('p/busy') == EBUSY)
        local errno, details = zfs.check.promote('p/a')
        assert(errno == EEXIST and details[1] == '1')
    ";
    assert_eq!(run_on(&host, script), Ok(None));
    assert_eq!(*host.notes.borrow(), ["hello"]);
    let destroyed = |name: &str| Action::Destroy {
        name: name.to_owned(),
        deferred: true,
    };
    let done = host.done.borrow();
    assert_eq!(done[0], (destroyed("p@1"), Mode::Do));
    assert_eq!(done[1], (destroyed("p@2"), Mode::Do));
    assert_eq!(done[2].1, Mode::Check);
}

#[test]
fn a_program_that_may_only_look_changes_nothing() {
    let host = Fake::default();
    let script = Script {
        text: b"assert(zfs.check.snapshot('p@1') == 0) zfs.sync.snapshot('p@1')",
        arguments: &[],
        read_only: true,
    };
    let error = run(&script, limits(), &host).unwrap_err();
    assert!(error.to_string().contains("not with -n"), "{error}");
    assert_eq!(host.done.borrow().len(), 1);
}

#[test]
fn limits_that_are_none_are_refused() {
    for (instructions, memory_bytes) in [
        (0, 1),
        (1, 0),
        (INSTRUCTIONS_MAX + 1, 1),
        (1, MEMORY_MAX + 1),
    ] {
        let limits = Limits {
            instructions,
            memory_bytes,
            cpu_ns: Box::new(|| 0),
            interrupted: Box::new(|| false),
        };
        let script = Script {
            text: b"",
            arguments: &[],
            read_only: true,
        };
        let error = run(&script, limits, &Fake::default());
        assert_eq!(error, Err(ProgramError::Limits));
    }
}

#[test]
fn an_interrupted_program_ends() {
    let limits = Limits {
        interrupted: Box::new(|| true),
        ..limits()
    };
    let script = Script {
        text: b"while true do end",
        arguments: &[],
        read_only: true,
    };
    let error = run(&script, limits, &Fake::default());
    assert_eq!(error, Err(ProgramError::Interrupted));
}

/// Instructions can be dear: those that join large strings.
#[test]
fn a_program_ends_by_its_cpu_time() {
    let run_for = |ns: u64| {
        let looks = Cell::new(0);
        let limits = Limits {
            // Each look comes so much later than the one before.
            cpu_ns: Box::new(move || looks.replace(looks.get() + ns)),
            ..limits()
        };
        let script = Script {
            text: b"for i = 1, 1000 do end return true",
            arguments: &[],
            read_only: true,
        };
        run(&script, limits, &Fake::default())
    };
    // A million instructions have a second, and these are some thousand: ten looks or more.
    let timed_out = Err(ProgramError::Instructions);
    assert_eq!(run_for(300_000_000), timed_out);
    assert_eq!(run_for(10_000), Ok(Some(Value::Boolean(true))));
}

/// Scripts that would run for ever, or as long as it takes to count to 2^60.
#[test]
fn hostile_programs_end_by_their_instructions() {
    let scripts = [
        "while true do end",
        "local function f() return f() end f()",
        "local c = coroutine.wrap(function() while true do end end) c()",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "local function f() for i = 1, 50 do coroutine.resume(coroutine.create(f)) end end f()",
        "string.find(string.rep('a', 5000), string.rep('a-', 30) .. 'b')",
        "string.match(string.rep('a', 50000), '.-.-.-b')",
        "for x in string.gmatch(string.rep('a', 50000), '.-.-.-b') do end",
        "string.gsub(string.rep('a', 50000), '.-.-.-b', '')",
        "string.find(string.rep('a', 100000), string.rep('a', 50000) .. 'b', 1, true)",
        "local s = string.rep('a', 100000) while true do s:gsub('a', 'b') end",
        "setmetatable(_G, {__index = function(t, k) return t[k] end}) while true do local s = '' .. 1 end",
    ];
    for script in scripts {
        let begun = Instant::now();
        assert_eq!(result(script), Err(ProgramError::Instructions), "{script}");
        assert!(begun.elapsed().as_secs() < 20, "{script}");
    }
    // Its length is 2^61 or so, as the interpreter looks for an end.
    let keys: String = (0..62).map(|bit| format!("[1 << {bit}] = 1,")).collect();
    for call in ["insert(t, 1, 1)", "remove(t, 1)", "sort(t)", "concat(t)"] {
        let script = format!("local t = {{{keys}}} assert(#t > 1 << 40) table.{call}");
        assert_eq!(result(&script), Err(ProgramError::Instructions), "{script}");
    }
    for script in [
        "return string.rep('', 1 << 62) == ''",
        "return #string.rep('', 3, ',') == 2",
    ] {
        holds(script);
    }
    fails("string.rep('', 1 << 62, ',')", "exhausted");
    fails("string.rep('abcd', 1 << 62, ',')", "too large");
    fails(
        "table.remove(setmetatable({}, {__len = function() return 1 << 60 end}), 1)",
        "__len",
    );
}

#[test]
fn hostile_programs_end_by_their_memory() {
    let scripts = [
        "local s = 'a' while true do s = s .. s end",
        "local t = {} for i = 1, 1 << 60 do t[i] = {} end",
        "string.rep('a', 1 << 40)",
        "string.gsub(string.rep('a', 100000), 'a', string.rep('b', 10000))",
        "local t = {} for i = 1, 2000 do t[i] = string.rep('a', 10000) end",
        "local t = {} for i = 1, 1000 do t[i] = string.rep('a', 9000) end return table.concat(t) .. ''",
    ];
    for script in scripts {
        assert_eq!(result(script), Err(ProgramError::Memory), "{script}");
    }
}

#[test]
fn deep_recursion_is_an_error() {
    let of_c = "local function f(s) return string.gsub(s, '.', f) end f('a')";
    for script in [
        "local function f() return 1 + f() end f()",
        of_c,
        "local function f() coroutine.wrap(f)() end f()",
        "local function f() table.sort({3, 2, 1}, f) end f()",
        "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x",
    ] {
        assert!(result(script).is_err(), "{script}");
    }
    let nested = format!("return {}1{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(result(&nested).is_err());
    fails("string.find('aaa', string.rep('(', 40))", "");
    fails(
        "string.find(string.rep('a', 500), string.rep('a?', 500) .. 'b')",
        "too complex",
    );
}

#[test]
fn patterns_are_lua_s() {
    for script in [
        "return ('hello world'):find('o w') == 5",
        "local a, b, c = ('key = value'):find('(%w+) =') return a == 1 and b == 5 and c == 'key'",
        "return ('  x '):match('^%s*(.-)%s*$') == 'x'",
        "return ('a.b'):gsub('%.', '%%') == 'a%b'",
        "return ('THE (quick) fox'):find('%((%a+)%)') == 5",
        "return ('f(a(b)c)d'):match('%b()') == '(a(b)c)'",
        "return ('THE (quick) fox'):match('%f[%a]%a+%f[%A]', 5) == 'quick'",
        "return ('\"a\\'b\"'):match('([\"\\'])(.-)%1') == '\"'",
        "return select(2, ('abc'):gsub('', '-')) == 4 and ('abc'):gsub('', '-') == '-a-b-c-'",
        "return ('abc'):gsub('%w', '%0%0', 2) == 'aabbc'",
        "return ('$name is $age'):gsub('%$(%w+)', {name = 'Bo', age = 7}) == 'Bo is 7'",
        "return ('abc'):gsub('.', function(c) if c == 'b' then return 'X' end end) == 'aXc'",
        "local n = 0 for k, v in ('a=1,b=2'):gmatch('(%w+)=(%w+)') do n = n + v end return n == 3",
        "return ('x'):find('', 10) == nil and ('x'):find('', 2) == 2 and ('abc'):find('b', -2) == 2",
        "return ('a]b'):match('[]]') == ']' and ('a-b'):match('[a%-]+') == 'a-' and ('q'):match('[^%d]') == 'q'",
        "return ('x'):match('()') == 1 and ('2024-05'):match('^(%d%d%d%d)-(%d+)$') == '2024'",
        "return ('abc'):gsub('^a', 'x') == 'xbc' and ('a+b'):find('+', 1, true) == 2",
    ] {
        holds(script);
    }
    fails("return ('a'):find('[a')", "malformed pattern (missing ']')");
    fails(
        "return ('a'):find('%')",
        "malformed pattern (ends with '%')",
    );
    fails("return ('a'):gsub('a', '%9')", "invalid capture index");
    fails("return ('a'):match('a)')", "invalid pattern capture");
}

#[test]
fn the_tables_and_coroutines_of_lua_work() {
    for script in [
        "local t = {3, 1, 2} table.sort(t) return table.concat(t, ',') == '1,2,3'",
        "local t = {1, 2} table.insert(t, 1, 0) return table.remove(t) == 2 and #t == 2 and table.unpack(t) == 0",
        "local c = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end) return c() + c() + c() == 6",
        "getmetatable('').__index = function(s, k) return k end return ('x').y == 'y'",
        "return collectgarbage('count') >= 0 and collectgarbage() == 0",
        "return string.format('%s %d', 'a', 3) == 'a 3' and EINVAL == 22",
    ] {
        holds(script);
    }
}

/// Pieces of which random programs are made.
const PIECES: &[&str] = &[
    "while true do",
    "for i = 1, 1 << 60 do",
    "for k, v in pairs(t) do",
    "repeat",
    "until false",
    "end",
    "if x then",
    "else",
    "local",
    "x",
    "t",
    "s",
    "f",
    "=",
    "..",
    "+",
    "//",
    "^",
    "#",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ",",
    "t[1 << 40] = 1",
    "s = s .. s",
    "t[#t + 1] = s",
    "string.rep(s, 1 << 20)",
    "string.find(s, '.-.-b')",
    "string.gsub(s, '.', f)",
    "string.format('%s', t)",
    "f = function(...)",
    "return",
    "coroutine.wrap(f)()",
    "coroutine.resume(coroutine.create(f))",
    "coroutine.yield(1)",
    "setmetatable(t, t)",
    "t.__index = f",
    "t.__gc = f",
    "t.__len = f",
    "t.__concat = f",
    "t.__mode = 'k'",
    "table.sort(t, f)",
    "table.insert(t, 1, s)",
    "table.concat(t)",
    "table.unpack(t)",
    "zfs.list.holds(s)",
    "zfs.sync.destroy{s, defer = true}",
    "zfs.get_prop(s, 'guid')",
    "collectgarbage()",
    "goto x",
    "::x::",
    "'a'",
    "1",
    "nil",
    "error(t)",
    "select(-1, t, s)",
    "next(t)",
    "getmetatable(s).__index = t",
];

#[test]
fn random_programs_end() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut compiled = 0;
    for round in 0..2000 {
        let mut script = "local x, t, s, f = 1, {}, 'abc', type\n".to_owned();
        for _ in 0..12 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let index = usize::try_from(state >> 33).unwrap() % PIECES.len();
            let piece = PIECES[index];
            script += piece;
            script.push(' ');
            let opens = ["do", "then", "function(...)"]
                .iter()
                .any(|end| piece.ends_with(end));
            if opens && round % 2 == 0 {
                script += "x = x + 1 end ";
            }
        }
        let begun = Instant::now();
        let outcome = result(&script);
        assert!(begun.elapsed().as_secs() < 20, "{script}");
        compiled += u32::from(!matches!(outcome, Err(ProgramError::Syntax(_))));
    }
    println!("{compiled} of 2000 were programs");
}
