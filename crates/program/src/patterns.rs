//! Lua's patterns, with every step counted: one can be written that would be tried for ever.

use mlua::Error;

use crate::meter::Meter;

/// The most captures of a pattern.
const CAPTURES_MAX: usize = 32;
/// How deep items may wait for each other.
const DEPTH_MAX: usize = 200;
/// After so many steps they are counted.
const STEPS: u64 = 256;
const SPECIAL: &[u8] = b"^$*+?.([%-";

/// Whether a text means itself alone.
pub(crate) fn is_plain(pattern: &[u8]) -> bool {
    !pattern.iter().any(|byte| SPECIAL.contains(byte))
}

/// What a pair of parentheses took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capture {
    /// From there, but its end is not found yet.
    Open(usize),
    /// The place alone.
    Position(usize),
    /// A part: its begin and end.
    Part(usize, usize),
}

/// A pattern at work on a text.
pub(crate) struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    /// What the last match took.
    pub(crate) captures: Vec<Capture>,
    depth: usize,
    steps: u64,
    meter: &'a Meter,
}

fn malformed<T>(what: &str) -> mlua::Result<T> {
    Err(Error::runtime(format!("malformed pattern ({what})")))
}

impl<'a> Matcher<'a> {
    /// A pattern without its anchor.
    pub(crate) const fn new(text: &'a [u8], pattern: &'a [u8], meter: &'a Meter) -> Self {
        Self {
            text,
            pattern,
            captures: Vec::new(),
            depth: 0,
            steps: 0,
            meter,
        }
    }

    /// Where a match that begins at `at` ends.
    pub(crate) fn at(&mut self, at: usize) -> mlua::Result<Option<usize>> {
        self.captures.clear();
        self.depth = 0;
        let found = self.go(at, 0);
        let steps = std::mem::take(&mut self.steps);
        self.meter.work(steps)?;
        found
    }

    fn step(&mut self) -> mlua::Result<()> {
        self.steps += 1;
        if self.steps < STEPS {
            return Ok(());
        }
        let steps = std::mem::take(&mut self.steps);
        self.meter.work(steps)
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.get(at).copied()
    }

    fn item(&self, at: usize) -> Option<u8> {
        self.pattern.get(at).copied()
    }

    fn go(&mut self, text: usize, pattern: usize) -> mlua::Result<Option<usize>> {
        if self.depth == DEPTH_MAX {
            return Err(Error::runtime("pattern too complex"));
        }
        self.depth += 1;
        let found = self.items(text, pattern);
        self.depth -= 1;
        found
    }

    /// The items of the pattern from one on, one after the other.
    fn items(&mut self, mut text: usize, mut pattern: usize) -> mlua::Result<Option<usize>> {
        loop {
            self.step()?;
            let Some(item) = self.item(pattern) else {
                return Ok(Some(text));
            };
            match (item, self.item(pattern + 1)) {
                (b'(', Some(b')')) => {
                    return self.open(text, pattern + 2, Capture::Position(text));
                }
                (b'(', _) => return self.open(text, pattern + 1, Capture::Open(text)),
                (b')', _) => return self.close(text, pattern + 1),
                (b'$', None) => return Ok((text == self.text.len()).then_some(text)),
                (b'%', Some(b'b')) => match self.balance(text, pattern + 2)? {
                    Some(after) => (text, pattern) = (after, pattern + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => {
                    let set = pattern + 2;
                    if self.item(set) != Some(b'[') {
                        return Err(Error::runtime("missing '[' after '%f' in pattern"));
                    }
                    let end = self.class_end(set)?;
                    let before = text.checked_sub(1).and_then(|at| self.byte(at));
                    let before = before.unwrap_or(0);
                    let here = self.byte(text).unwrap_or(0);
                    if self.in_set(before, set, end) || !self.in_set(here, set, end) {
                        return Ok(None);
                    }
                    pattern = end;
                }
                (b'%', Some(digit @ b'0'..=b'9')) => match self.again(text, digit)? {
                    Some(after) => (text, pattern) = (after, pattern + 2),
                    None => return Ok(None),
                },
                _ => {
                    let end = self.class_end(pattern)?;
                    match self.item(end) {
                        Some(b'*') => return self.most(text, pattern, end, 0),
                        Some(b'+') => return self.most(text, pattern, end, 1),
                        Some(b'-') => return self.fewest(text, pattern, end),
                        Some(b'?') => {
                            if self.single(text, pattern, end)
                                && let Some(found) = self.go(text + 1, end + 1)?
                            {
                                return Ok(Some(found));
                            }
                            pattern = end + 1;
                        }
                        _ if self.single(text, pattern, end) => (text, pattern) = (text + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    fn open(
        &mut self,
        text: usize,
        pattern: usize,
        capture: Capture,
    ) -> mlua::Result<Option<usize>> {
        if self.captures.len() >= CAPTURES_MAX {
            return Err(Error::runtime("too many captures"));
        }
        let level = self.captures.len();
        self.captures.push(capture);
        let found = self.go(text, pattern)?;
        if found.is_none() {
            self.captures.truncate(level);
        }
        Ok(found)
    }

    fn close(&mut self, text: usize, pattern: usize) -> mlua::Result<Option<usize>> {
        let is_open = |capture: &Capture| matches!(capture, Capture::Open(_));
        let level = self.captures.iter().rposition(is_open);
        let Some(level) = level else {
            return Err(Error::runtime("invalid pattern capture"));
        };
        let Some(slot) = self.captures.get_mut(level) else {
            return Ok(None);
        };
        let before = *slot;
        if let Capture::Open(begin) = before {
            *slot = Capture::Part(begin, text);
        }
        let found = self.go(text, pattern)?;
        if found.is_none()
            && let Some(slot) = self.captures.get_mut(level)
        {
            *slot = before;
        }
        Ok(found)
    }

    /// `%bxy`: from an `x` to the `y` that belongs to it.
    fn balance(&mut self, text: usize, pattern: usize) -> mlua::Result<Option<usize>> {
        let (Some(open), Some(close)) = (self.item(pattern), self.item(pattern + 1)) else {
            return malformed("missing arguments to '%b'");
        };
        if self.byte(text) != Some(open) {
            return Ok(None);
        }
        let (mut at, mut depth) = (text + 1, 1_usize);
        while let Some(byte) = self.byte(at) {
            self.step()?;
            at += 1;
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// `%1`: what a capture took, once more.
    fn again(&mut self, text: usize, digit: u8) -> mlua::Result<Option<usize>> {
        let index = usize::from(digit - b'0').checked_sub(1);
        let capture = index.and_then(|index| self.captures.get(index)).copied();
        let Some(Capture::Part(begin, end)) = capture else {
            let text = format!("invalid capture index %{}", char::from(digit));
            return Err(Error::runtime(text));
        };
        self.steps += (end - begin) as u64;
        self.step()?;
        let wanted = self.text.get(begin..end).unwrap_or_default();
        let rest = self.text.get(text..).unwrap_or_default();
        Ok(rest.starts_with(wanted).then_some(text + (end - begin)))
    }

    fn most(
        &mut self,
        text: usize,
        pattern: usize,
        end: usize,
        least: usize,
    ) -> mlua::Result<Option<usize>> {
        let mut count = 0;
        while self.single(text + count, pattern, end) {
            self.step()?;
            count += 1;
        }
        loop {
            if count < least {
                return Ok(None);
            }
            if let Some(found) = self.go(text + count, end + 1)? {
                return Ok(Some(found));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    fn fewest(
        &mut self,
        mut text: usize,
        pattern: usize,
        end: usize,
    ) -> mlua::Result<Option<usize>> {
        loop {
            if let Some(found) = self.go(text, end + 1)? {
                return Ok(Some(found));
            }
            if !self.single(text, pattern, end) {
                return Ok(None);
            }
            text += 1;
        }
    }

    /// Where the class of characters at a place of the pattern ends.
    fn class_end(&self, pattern: usize) -> mlua::Result<usize> {
        match self.item(pattern) {
            Some(b'%') => match self.item(pattern + 1) {
                Some(_) => Ok(pattern + 2),
                None => malformed("ends with '%'"),
            },
            Some(b'[') => {
                let mut at = pattern + 1;
                if self.item(at) == Some(b'^') {
                    at += 1;
                }
                loop {
                    // The first character may be the bracket itself.
                    let byte = self.item(at);
                    at += 1;
                    match byte {
                        None => return malformed("missing ']'"),
                        Some(b'%') if self.item(at).is_some() => at += 1,
                        Some(_) => {}
                    }
                    if self.item(at) == Some(b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(pattern + 1),
        }
    }

    /// Whether the character at a place of the text is of the class.
    fn single(&self, text: usize, pattern: usize, end: usize) -> bool {
        let Some(byte) = self.byte(text) else {
            return false;
        };
        match self.item(pattern) {
            Some(b'.') => true,
            Some(b'%') => self.item(pattern + 1).is_some_and(|kind| is_of(byte, kind)),
            Some(b'[') => self.in_set(byte, pattern, end),
            other => other == Some(byte),
        }
    }

    /// Whether a character is in the set from its bracket to after its end.
    fn in_set(&self, byte: u8, begin: usize, end: usize) -> bool {
        let mut at = begin + 1;
        let is_negated = self.item(at) == Some(b'^');
        if is_negated {
            at += 1;
        }
        let last = end.saturating_sub(1);
        while at < last {
            let first = self.item(at).unwrap_or(0);
            let second = self.item(at + 1).unwrap_or(0);
            let matches;
            if first == b'%' {
                matches = is_of(byte, second);
                at += 2;
            } else if second == b'-' && at + 2 < last {
                matches = (first..=self.item(at + 2).unwrap_or(0)).contains(&byte);
                at += 3;
            } else {
                matches = first == byte;
                at += 1;
            }
            if matches {
                return !is_negated;
            }
        }
        is_negated
    }
}

/// Whether a character is of a kind with a letter; other characters mean themselves.
fn is_of(byte: u8, kind: u8) -> bool {
    let is = match kind.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        _ => return kind == byte,
    };
    is != kind.is_ascii_uppercase()
}
