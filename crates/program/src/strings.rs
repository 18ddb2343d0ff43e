//! The functions of `string` that look for patterns or repeat: the interpreter's own do not count what they do.

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Error, Function, IntoLuaMulti, Lua, MultiValue, String as LuaString, Table, Value};

use crate::meter::Meter;
use crate::patterns::{Capture, Matcher, is_plain};

/// Puts them in the place of the interpreter's.
pub(crate) fn install(lua: &Lua, string: &Table, meter: &Rc<Meter>) -> mlua::Result<()> {
    let counted = Rc::clone(meter);
    let find = move |lua: &Lua, (text, pattern, init, plain): Search| {
        let is_plain =
            plain.is_some_and(|plain| !matches!(plain, Value::Nil | Value::Boolean(false)));
        search(
            lua,
            &counted,
            (&text, &pattern, init),
            Wanted::Places { is_plain },
        )
    };
    string.raw_set("find", lua.create_function(find)?)?;
    let counted = Rc::clone(meter);
    let find = move |lua: &Lua, (text, pattern, init, _): Search| {
        search(lua, &counted, (&text, &pattern, init), Wanted::Captures)
    };
    string.raw_set("match", lua.create_function(find)?)?;
    let counted = Rc::clone(meter);
    let all = move |lua: &Lua, (text, pattern): (LuaString, LuaString)| {
        every(lua, &counted, text, pattern)
    };
    string.raw_set("gmatch", lua.create_function(all)?)?;
    let counted = Rc::clone(meter);
    let replace = move |lua: &Lua, (text, pattern, by, count): Replacing| {
        substitute(lua, &counted, (&text, &pattern), &by, count)
    };
    string.raw_set("gsub", lua.create_function(replace)?)?;
    let counted = Rc::clone(meter);
    let repeat = move |lua: &Lua, (text, count, between): (LuaString, i64, Option<LuaString>)| {
        repeated(lua, &counted, &text, count, between.as_ref())
    };
    string.raw_set("rep", lua.create_function(repeat)?)
}

type Search = (LuaString, LuaString, Option<i64>, Option<Value>);
type Replacing = (LuaString, LuaString, Value, Option<i64>);

/// What a search gives.
#[derive(Clone, Copy)]
enum Wanted {
    /// Where it is, then the captures.
    Places { is_plain: bool },
    /// The captures, or all of it.
    Captures,
}

/// The place that a script's number means; none is behind the end.
fn place(init: Option<i64>, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    let init = init.unwrap_or(1);
    let from_one = match init {
        1.. => init,
        0 => 1,
        _ => length.saturating_add(init).saturating_add(1).max(1),
    };
    (from_one <= length + 1)
        .then(|| usize::try_from(from_one - 1).ok())
        .flatten()
}

/// Counted from one.
fn shown(at: usize) -> Value {
    Value::Integer(i64::try_from(at).unwrap_or(i64::MAX).saturating_add(1))
}

fn search(
    lua: &Lua,
    meter: &Meter,
    (text, pattern, init): (&LuaString, &LuaString, Option<i64>),
    wanted: Wanted,
) -> mlua::Result<MultiValue> {
    let (text, pattern) = (&*text.as_bytes(), &*pattern.as_bytes());
    let nothing = || Value::Nil.into_lua_multi(lua);
    let Some(begin) = place(init, text.len()) else {
        return nothing();
    };
    if let Wanted::Places { is_plain: plain } = wanted
        && (plain || is_plain(pattern))
    {
        let Some(found) = plain_place(meter, text, pattern, begin)? else {
            return nothing();
        };
        let end = Value::Integer(i64::try_from(found + pattern.len()).unwrap_or(i64::MAX));
        return Ok(MultiValue::from_vec(vec![shown(found), end]));
    }
    let (is_anchored, pattern) = anchored(pattern);
    let mut matcher = Matcher::new(text, pattern, meter);
    for at in begin..=text.len() {
        if let Some(end) = matcher.at(at)? {
            let mut values = match wanted {
                Wanted::Places { .. } => {
                    let last = Value::Integer(i64::try_from(end).unwrap_or(i64::MAX));
                    vec![shown(at), last]
                }
                Wanted::Captures => Vec::new(),
            };
            let whole = matches!(wanted, Wanted::Captures).then_some((at, end));
            values.extend(captures(lua, text, &matcher.captures, whole)?);
            return Ok(MultiValue::from_vec(values));
        }
        if is_anchored {
            break;
        }
    }
    nothing()
}

fn anchored(pattern: &[u8]) -> (bool, &[u8]) {
    match pattern.strip_prefix(b"^") {
        Some(rest) => (true, rest),
        None => (false, pattern),
    }
}

fn plain_place(
    meter: &Meter,
    text: &[u8],
    wanted: &[u8],
    begin: usize,
) -> mlua::Result<Option<usize>> {
    let rest = text.get(begin..).unwrap_or_default();
    let Some(&first) = wanted.first() else {
        return Ok(Some(begin));
    };
    meter.work(rest.len() as u64)?;
    for (at, _) in rest.iter().enumerate().filter(|(_, byte)| **byte == first) {
        let rest = rest.get(at..).unwrap_or_default();
        // What is the same up to there is looked at again and again.
        let same = rest
            .iter()
            .zip(wanted)
            .take_while(|(one, other)| one == other);
        let same = same.count();
        if same == wanted.len() {
            return Ok(Some(begin + at));
        }
        if same > 16 {
            meter.work(same as u64)?;
        }
    }
    Ok(None)
}

/// What the parentheses took; without any all of it, where that is wanted.
fn captures(
    lua: &Lua,
    text: &[u8],
    captures: &[Capture],
    whole: Option<(usize, usize)>,
) -> mlua::Result<Vec<Value>> {
    let part = |begin, end| {
        let part = text.get(begin..end).unwrap_or_default();
        lua.create_string(part).map(Value::String)
    };
    match (captures, whole) {
        ([], Some((begin, end))) => Ok(vec![part(begin, end)?]),
        (captures, _) => captures
            .iter()
            .map(|capture| match *capture {
                Capture::Open(_) => Err(Error::runtime("unfinished capture")),
                Capture::Position(at) => Ok(shown(at)),
                Capture::Part(begin, end) => part(begin, end),
            })
            .collect(),
    }
}

fn every(
    lua: &Lua,
    meter: &Rc<Meter>,
    text: LuaString,
    pattern: LuaString,
) -> mlua::Result<Function> {
    let next = Cell::new(0_usize);
    let meter = Rc::clone(meter);
    lua.create_function(move |lua, ()| {
        let (text, pattern) = (&*text.as_bytes(), &*pattern.as_bytes());
        let mut matcher = Matcher::new(text, pattern, &meter);
        for at in next.get()..=text.len() {
            if let Some(end) = matcher.at(at)? {
                next.set(if end == at { end + 1 } else { end });
                let values = captures(lua, text, &matcher.captures, Some((at, end)))?;
                return Ok(MultiValue::from_vec(values));
            }
        }
        next.set(text.len() + 1);
        Value::Nil.into_lua_multi(lua)
    })
}

fn substitute(
    lua: &Lua,
    meter: &Meter,
    (text, pattern): (&LuaString, &LuaString),
    by: &Value,
    count: Option<i64>,
) -> mlua::Result<(LuaString, i64)> {
    let by = if matches!(by, Value::Integer(_) | Value::Number(_)) {
        let text = lua.coerce_string(by.clone())?;
        text.map_or(Value::Nil, Value::String)
    } else {
        by.clone()
    };
    if !matches!(by, Value::String(_) | Value::Table(_) | Value::Function(_)) {
        let text = "bad argument #3 to 'gsub' (string/function/table expected)";
        return Err(Error::runtime(text));
    }
    let (text, pattern) = (&*text.as_bytes(), &*pattern.as_bytes());
    let (is_anchored, pattern) = anchored(pattern);
    let mut matcher = Matcher::new(text, pattern, meter);
    let (mut out, mut at, mut done) = (Vec::new(), 0, 0_i64);
    while done < count.unwrap_or(i64::MAX) {
        let found = matcher.at(at)?;
        if let Some(end) = found {
            done += 1;
            let whole = text.get(at..end).unwrap_or_default();
            let values = captures(lua, text, &matcher.captures, Some((at, end)))?;
            replacement(lua, &by, whole, values, &mut out)?;
        }
        match (found, text.get(at)) {
            (Some(end), _) if end > at => at = end,
            (_, Some(byte)) => {
                out.push(*byte);
                at += 1;
            }
            (_, None) => break,
        }
        meter.string(out.len().min(16))?;
        check_length(meter, &out)?;
        if is_anchored {
            break;
        }
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
    meter.string(out.len())?;
    Ok((lua.create_string(&out)?, done))
}

/// Refuses what grows beyond the program's memory.
fn check_length(meter: &Meter, out: &[u8]) -> mlua::Result<()> {
    if meter.fits(out.len()) {
        return Ok(());
    }
    meter.string(out.len())
}

/// Adds what stands in the place of a match.
fn replacement(
    lua: &Lua,
    by: &Value,
    whole: &[u8],
    captures: Vec<Value>,
    out: &mut Vec<u8>,
) -> mlua::Result<()> {
    if let Value::String(by) = by {
        return template(lua, &by.as_bytes(), whole, &captures, out);
    }
    let value = if let Value::Table(by) = by {
        let key = captures.into_iter().next().unwrap_or(Value::Nil);
        by.get(key)?
    } else if let Value::Function(by) = by {
        by.call::<Value>(MultiValue::from_vec(captures))?
    } else {
        Value::Nil
    };
    if matches!(value, Value::Nil | Value::Boolean(false)) {
        out.extend_from_slice(whole);
        return Ok(());
    }
    if matches!(
        value,
        Value::String(_) | Value::Integer(_) | Value::Number(_)
    ) {
        return push_text(lua, value, out);
    }
    let kind = value.type_name();
    let text = format!("invalid replacement value (a {kind})");
    Err(Error::runtime(text))
}

fn push_text(lua: &Lua, value: Value, out: &mut Vec<u8>) -> mlua::Result<()> {
    if let Some(text) = lua.coerce_string(value)? {
        out.extend_from_slice(&text.as_bytes());
    }
    Ok(())
}

/// A text in which `%1` stands for a capture, `%0` for all.
fn template(
    lua: &Lua,
    by: &[u8],
    whole: &[u8],
    captures: &[Value],
    out: &mut Vec<u8>,
) -> mlua::Result<()> {
    let mut rest = by.iter();
    while let Some(&byte) = rest.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'%') => out.push(b'%'),
            Some(b'0') => out.extend_from_slice(whole),
            Some(digit @ b'1'..=b'9') => {
                let index = usize::from(digit - b'1');
                let Some(value) = captures.get(index) else {
                    let text = format!("invalid capture index %{}", index + 1);
                    return Err(Error::runtime(text));
                };
                push_text(lua, value.clone(), out)?;
            }
            _ => {
                let text = "invalid use of '%' in replacement string";
                return Err(Error::runtime(text));
            }
        }
    }
    Ok(())
}

fn repeated(
    lua: &Lua,
    meter: &Meter,
    text: &LuaString,
    count: i64,
    between: Option<&LuaString>,
) -> mlua::Result<LuaString> {
    let text = text.as_bytes();
    let between = between.map(LuaString::as_bytes);
    let between = between.as_deref().unwrap_or_default();
    let Some(count) = usize::try_from(count).ok().filter(|count| *count != 0) else {
        return lua.create_string("");
    };
    let bytes = text.len().checked_mul(count);
    let more = between.len().checked_mul(count - 1);
    let bytes = bytes
        .zip(more)
        .and_then(|(one, other)| one.checked_add(other));
    let bytes = bytes.ok_or_else(|| Error::runtime("resulting string too large"))?;
    meter.string(bytes)?;
    if bytes == 0 {
        return lua.create_string("");
    }
    let mut out = Vec::with_capacity(bytes);
    for index in 0..count {
        if index != 0 {
            out.extend_from_slice(between);
        }
        out.extend_from_slice(&text);
    }
    lua.create_string(&out)
}
