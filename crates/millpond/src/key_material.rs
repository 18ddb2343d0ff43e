//! What a key is made of, from where its `keylocation` says, and the key. It is made here, not in the daemon: what
//! people type stays in the process that they typed it into.

use std::io::{self, IsTerminal, Read, Write};

use admin::{Failure, FailureKind, KeyRoot};
use crypto::{HEX_DIGITS, KeyError, KeyFormat, KeyMaterial, PASSPHRASE_BYTES, WrappingKey};
use zeroize::Zeroizing;

use crate::output::complain;

/// More than any material has; a longer one is refused for its length.
const LENGTH_MAX: usize = 1024;
const _: () = assert!(LENGTH_MAX > *PASSPHRASE_BYTES.end() && LENGTH_MAX > HEX_DIGITS);

/// A refusal, as users know it.
pub(crate) fn refused(kind: FailureKind, text: impl std::fmt::Display) -> Failure {
    Failure::new(kind, format!("Key load error: {text}"))
}

/// Whether the key is typed at a terminal, so that a mistake may be corrected.
pub(crate) fn is_typed(location: &str) -> bool {
    location == "prompt" && io::stdin().is_terminal()
}

/// The key of a root of encryption, from a location.
pub(crate) fn key(root: &KeyRoot, location: &str) -> Result<WrappingKey, Failure> {
    let invalid = |error: KeyError| refused(FailureKind::Invalid, error);
    let format = KeyFormat::from_number(root.format).map_err(invalid)?;
    let material = KeyMaterial {
        format,
        salt: root.salt,
        iterations: root.iterations,
    };
    let given = match location.split_once("://") {
        None if location == "prompt" => prompted(root, format),
        Some(("file", path)) => file(path),
        Some(("http" | "https", _)) => {
            let text = "keys are not fetched from web servers by this version";
            return Err(refused(FailureKind::Unsupported, text));
        }
        Some(_) | None => {
            let text = format!("Invalid keylocation '{location}'.");
            return Err(refused(FailureKind::Invalid, text));
        }
    }?;
    WrappingKey::from_material(&given, material).map_err(invalid)
}

fn file(path: &str) -> Result<Zeroizing<Vec<u8>>, Failure> {
    std::fs::File::open(path).and_then(read).map_err(|error| {
        let text = format!("Failed to open key material file: {error}");
        refused(FailureKind::Missing, text)
    })
}

/// All that is there, up to what is too long, in a buffer that does not grow.
fn read(mut from: impl Read) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut given = Zeroizing::new(vec![0; LENGTH_MAX]);
    let mut length = 0;
    while length < LENGTH_MAX {
        match from.read(&mut given[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    given.truncate(length);
    Ok(given)
}

/// One line of the standard input, or the bytes of a raw key. What comes after is for the next key.
fn prompted(root: &KeyRoot, format: KeyFormat) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let failed = |error: io::Error| refused(FailureKind::Invalid, format!("no key given: {error}"));
    let what = match format {
        KeyFormat::Raw => "raw key",
        KeyFormat::Hex => "hex key",
        KeyFormat::Passphrase => "passphrase",
    };
    let hidden = sys::HiddenInput::begin(io::stdin()).map_err(|errno| failed(errno.into()))?;
    if hidden.is_some() {
        let mut terminal = io::stderr();
        // A prompt that cannot be shown keeps nobody from typing.
        let _ = write!(terminal, "Enter {what} for '{}': ", root.name);
        let _ = terminal.flush();
    }
    let line_ends = format != KeyFormat::Raw;
    let mut given = Zeroizing::new(Vec::with_capacity(LENGTH_MAX));
    // Not by the buffered standard input: that would keep what it read.
    let mut input = unbuffered_input().map_err(failed)?;
    let mut byte = Zeroizing::new([0]);
    let enough = if line_ends { LENGTH_MAX } else { 32 };
    while given.len() < enough {
        let count = input.read(&mut *byte).map_err(failed)?;
        if count == 0 || (line_ends && byte[0] == b'\n') {
            break;
        }
        given.push(byte[0]);
    }
    let was_hidden = hidden.is_some();
    drop(hidden);
    if was_hidden {
        complain(&"");
    }
    Ok(given)
}

/// The standard input, of which nothing stays in a buffer.
fn unbuffered_input() -> io::Result<std::fs::File> {
    use std::os::fd::AsFd;
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}
