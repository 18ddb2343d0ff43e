//! Lua with whole numbers only, as the interpreter takes it.
//!
//! Programs know whole numbers alone, so `/` divides without a remainder. The interpreter knows two kinds of numbers
//! and calls that `//`. Literals with a fraction or an exponent are refused, as are numbers that do not fit.

/// The text with `//` for `/`.
///
/// # Errors
/// A number has a fraction; the line, and what stands there.
pub(crate) fn translate(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len() + 16);
    let mut at = 0;
    let mut line = 1_usize;
    while let Some(&byte) = text.get(at) {
        let rest = text.get(at..).unwrap_or_default();
        let length = match byte {
            b'-' if rest.starts_with(b"--") => comment(rest),
            b'"' | b'\'' => quoted(rest, byte),
            b'[' => long_bracket(rest).unwrap_or(1),
            b'/' => {
                out.push(b'/');
                if rest.starts_with(b"//") { 2 } else { 1 }
            }
            b'0'..=b'9' => {
                let length = number(rest);
                check_number(rest.get(..length).unwrap_or_default(), line)?;
                length
            }
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => word(rest),
            _ => 1,
        };
        let token = rest.get(..length).unwrap_or(rest);
        line += token.iter().filter(|byte| **byte == b'\n').count();
        match byte {
            b'/' => out.push(b'/'),
            _ => out.extend_from_slice(token),
        }
        at += length;
    }
    Ok(out)
}

fn line_end(text: &[u8]) -> usize {
    let end = text.iter().position(|byte| *byte == b'\n');
    end.unwrap_or(text.len())
}

fn comment(text: &[u8]) -> usize {
    let inner = text.get(2..).unwrap_or_default();
    match long_bracket(inner) {
        Some(length) => 2 + length,
        None => line_end(text),
    }
}

/// The length of `[[…]]` or `[=[…]=]` at the beginning of a text, to the end if it is open.
fn long_bracket(text: &[u8]) -> Option<usize> {
    let level = text
        .iter()
        .skip(1)
        .take_while(|byte| **byte == b'=')
        .count();
    if text.first() != Some(&b'[') || text.get(1 + level) != Some(&b'[') {
        return None;
    }
    let close = [b"]".as_slice(), &vec![b'='; level], b"]"].concat();
    let begin = 2 + level;
    let inner = text.get(begin..).unwrap_or_default();
    let end = inner
        .windows(close.len())
        .position(|window| window == close);
    Some(end.map_or(text.len(), |end| begin + end + close.len()))
}

fn quoted(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            _ if byte == quote => return at + 1,
            // The interpreter complains.
            b'\n' => return at,
            _ => at += 1,
        }
    }
    text.len()
}

fn word(text: &[u8]) -> usize {
    let part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    text.iter().take_while(part).count()
}

fn number(text: &[u8]) -> usize {
    let is_hexadecimal = matches!(text.get(1), Some(b'x' | b'X'));
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let before = at.checked_sub(1).and_then(|before| text.get(before));
        let is_sign =
            matches!(byte, b'+' | b'-') && !is_hexadecimal && matches!(before, Some(b'e' | b'E'));
        if !is_sign && !byte.is_ascii_alphanumeric() && byte != b'.' {
            break;
        }
        at += 1;
    }
    at
}

fn check_number(token: &[u8], line: usize) -> Result<(), String> {
    let text = String::from_utf8_lossy(token);
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let is_whole = match hexadecimal {
        Some(digits) => u64::from_str_radix(digits, 16).is_ok(),
        None => text.parse::<i64>().is_ok(),
    };
    if is_whole {
        return Ok(());
    }
    Err(format!(
        "[string \"channel program\"]:{line}: malformed number near '{text}'"
    ))
}
