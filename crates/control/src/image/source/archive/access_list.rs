//! POSIX access lists as text, as archives have them, to Linux's attribute.

/// The attribute of a list: version 2, then tag, permissions and id of each entry. None: it says what the mode says as
/// well. `is_default`: of what is made in a directory, which has no mode beside it.
///
/// # Errors
/// It names somebody by name only, or it is no access list.
pub(super) fn encode(text: &[u8], is_default: bool) -> Result<Option<Vec<u8>>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "it is not text".to_owned())?;
    let mut entries = Vec::new();
    for entry in text
        .split([',', '\n'])
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
    {
        entries.push(parse(entry)?);
    }
    let says_more = entries
        .iter()
        .any(|(tag, ..)| ![0x01, 0x04, 0x20].contains(tag));
    if entries.is_empty() || !(says_more || is_default) {
        return Ok(None);
    }
    entries.sort_unstable();
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, id, permissions) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    Ok(Some(bytes))
}

/// Tag, id and permissions of `user:name:rwx`, `user:name:rwx:1000` or `user::rwx`.
fn parse(entry: &str) -> Result<(u16, u32, u16), String> {
    /// Nobody in particular.
    const NO_ID: u32 = u32::MAX;
    let malformed = || format!("'{entry}' is malformed");
    let fields: Vec<&str> = entry.split(':').collect();
    let (kind, name, permissions, id) = match fields[..] {
        // `mask:rwx`, `other:rwx`
        [kind, permissions] => (kind, "", permissions, None),
        [kind, name, permissions] => (kind, name, permissions, None),
        [kind, name, permissions, id] => (kind, name, permissions, Some(id)),
        _ => return Err(malformed()),
    };
    let mut bits = 0;
    for letter in permissions.chars() {
        bits |= match letter {
            'r' => 4,
            'w' => 2,
            'x' => 1,
            '-' => 0,
            _ => return Err(malformed()),
        };
    }
    let named = |tag| {
        let number = id.unwrap_or(name).parse();
        let number: u32 = number.map_err(|_| format!("'{name}' has no number"))?;
        Ok::<_, String>((tag, number, bits))
    };
    match (kind, name) {
        ("user" | "u", "") => Ok((0x01, NO_ID, bits)),
        ("user" | "u", _) => named(0x02),
        ("group" | "g", "") => Ok((0x04, NO_ID, bits)),
        ("group" | "g", _) => named(0x08),
        ("mask" | "m", _) => Ok((0x10, NO_ID, bits)),
        ("other" | "o", _) => Ok((0x20, NO_ID, bits)),
        _ => Err(malformed()),
    }
}
