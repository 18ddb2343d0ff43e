//! What a key is made of, from where its `keylocation` says, and the key. It is made here, not in the daemon: what
//! people type stays in the process that they typed it into.

use std::io::{self, IsTerminal, Read, Write};

use admin::changes::NewKey;
use admin::rows::dataset::{ENCRYPTION, KEYFORMAT, KEYLOCATION, PBKDF2ITERS};
use admin::rows::{KeyLocation, Row};
use admin::{Assignments, Failure, FailureKind, KeyRoot, Secret};
use base::random::Rng;
use crypto::{
    KeyError, KeyFormat, KeyMaterial, PBKDF2_ITERATIONS_DEFAULT, PBKDF2_ITERATIONS_SECONDS,
    WrappingKey,
};
use inspect::printable;
use zeroize::Zeroizing;

use crate::output::complain;

#[cfg(feature = "https")]
mod web;

/// More than any material has; a longer one is refused for its length.
const LENGTH_MAX: usize = 1024;
const _: () = {
    let mut at = 0;
    while at < KeyFormat::ALL.len() {
        assert!(LENGTH_MAX > KeyFormat::ALL[at].size_max());
        at += 1;
    }
};

/// The variables that say whom the servers of keys are believed by, and who we are to them; OpenZFS's.
pub(crate) const ENVIRONMENT: &[(&str, &str)] = &[
    (
        "SSL_CA_CERT_FILE",
        "Key locations with https: the file of certificate authorities (PEM) that are believed, instead of the host's.",
    ),
    (
        "SSL_CA_CERT_PATH",
        "The same as a directory, with names by hashes as OpenSSL's rehash makes them.",
    ),
    (
        "SSL_CLIENT_CERT_FILE",
        "The file (PEM) of the certificate that servers of keys are shown.",
    ),
    (
        "SSL_CLIENT_KEY_FILE",
        "The file (PEM) of its private key, if that is not in the same file.",
    ),
];

/// A refusal, as users know it.
pub(crate) fn refused(kind: FailureKind, text: impl std::fmt::Display) -> Failure {
    Failure::new(kind, format!("Key load error: {text}"))
}

/// Whether the key is typed at a terminal, so that a mistake may be corrected.
pub(crate) fn is_typed(location: &str) -> bool {
    KeyLocation::parse(location).is_some_and(KeyLocation::is_standard_input)
        && io::stdin().is_terminal()
}

/// The key of a root of encryption that a daemon told of, from a location.
pub(crate) fn of_root(root: &KeyRoot, location: &str) -> Result<WrappingKey, Failure> {
    let format = KeyFormat::from_number(root.format);
    let material = KeyMaterial {
        format: format.map_err(|error| refused(FailureKind::Invalid, error))?,
        salt: root.salt,
        iterations: root.iterations,
    };
    key(&root.name, material, location)
}

/// The key of a root of encryption, from a location.
pub(crate) fn key(
    name: &str,
    material: KeyMaterial,
    location: &str,
) -> Result<WrappingKey, Failure> {
    let format = material.format;
    if material.iterations > PBKDF2_ITERATIONS_SECONDS && format.is_derived() {
        let count = material.iterations;
        let shown = printable(name);
        complain(&format!(
            "the key of '{shown}' takes {count} iterations: that may take long"
        ));
    }
    let prompt = format!("Enter {} for '{}': ", name_of(format), printable(name));
    let given = at_location(location, &|| prompted(&prompt, format))?;
    WrappingKey::from_material(&given, material)
        .map_err(|error| refused(FailureKind::Invalid, error))
}

/// The key that a dataset is to be made with, if its properties say that it has one of its own.
pub(crate) fn for_new_dataset(
    verb: &str,
    name: &str,
    properties: &Assignments,
) -> Result<Option<NewKey>, Failure> {
    let find = |row: &Row| properties.iter().find(|(property, _)| row.is(property));
    let number = |row: &Row| find(row).and_then(|(_, value)| value.number());
    // Without encryption the pool refuses it: nobody is to type a key for that.
    const OFF: u64 = 2;
    let is_off = number(ENCRYPTION.row()) == Some(OFF);
    let Some(format) = number(KEYFORMAT.row()).filter(|format| *format != 0 && !is_off) else {
        return Ok(None);
    };
    let location = find(KEYLOCATION.row()).and_then(|(_, value)| value.text());
    let place = (location.unwrap_or(KeyLocation::DEFAULT), None);
    let iterations = number(PBKDF2ITERS.row());
    new_key(format, iterations, place)
        .map(Some)
        .map_err(|failure| Failure::cannot(FailureKind::Invalid, verb, name, failure))
}

/// A new key, from a location, for a dataset that is to be made or to have another. What is typed is asked for twice.
pub(crate) fn new_key(
    format: u64,
    iterations: Option<u64>,
    (location, prompt_for): (&str, Option<&str>),
) -> Result<NewKey, Failure> {
    let invalid = |error: KeyError| Failure::new(FailureKind::Invalid, error.to_string());
    let format = KeyFormat::from_number(format).map_err(invalid)?;
    let salt = if format.is_derived() {
        sys::SystemRng.next_u64()
    } else {
        0
    };
    let material = KeyMaterial {
        format,
        salt,
        iterations: iterations.unwrap_or(PBKDF2_ITERATIONS_DEFAULT),
    };
    let given = at_location(location, &|| typed_twice(prompt_for, format))?;
    let key = WrappingKey::from_material(&given, material).map_err(invalid)?;
    Ok(NewKey {
        key: Secret::new(key.to_hex()),
        salt,
    })
}

/// What a location has; `typed` asks for it.
fn at_location(
    location: &str,
    typed: &dyn Fn() -> Result<Zeroizing<Vec<u8>>, Failure>,
) -> Result<Zeroizing<Vec<u8>>, Failure> {
    match KeyLocation::parse(location) {
        Some(KeyLocation::Prompt) => typed(),
        Some(KeyLocation::File(path)) => file(path),
        Some(KeyLocation::Web(address)) => from_web(address),
        None => {
            let text = format!("Invalid keylocation '{location}'.");
            Err(refused(FailureKind::Invalid, text))
        }
    }
}

/// What a web server has.
#[cfg(feature = "https")]
fn from_web(address: &str) -> Result<Zeroizing<Vec<u8>>, Failure> {
    web::get(address).map_err(|reason| {
        let text = format!("Failed to get key material from the server: {reason}");
        refused(FailureKind::Missing, text)
    })
}

/// What a web server has is not to be had.
#[cfg(not(feature = "https"))]
fn from_web(_address: &str) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let text = "this build has no https, by which keys come from web servers";
    let advice = "build it with 'cargo install --locked --path crates/millpond --features https'";
    Err(refused(FailureKind::Unsupported, text).advise(advice))
}

/// A new key, typed twice at a terminal; a pipe gives it once.
fn typed_twice(prompt_for: Option<&str>, format: KeyFormat) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let what = name_of(format);
    let of = prompt_for
        .map(|name| format!(" for '{name}'"))
        .unwrap_or_default();
    let given = prompted(&format!("Enter new {what}{of}: "), format)?;
    if io::stdin().is_terminal()
        && *prompted(&format!("Re-enter new {what}{of}: "), format)? != *given
    {
        let text = "Provided keys do not match.";
        return Err(Failure::new(FailureKind::Invalid, text));
    }
    Ok(given)
}

const fn name_of(format: KeyFormat) -> &'static str {
    match format {
        KeyFormat::Raw => "raw key",
        KeyFormat::Hex => "hex key",
        KeyFormat::Passphrase => "passphrase",
    }
}

fn file(path: &str) -> Result<Zeroizing<Vec<u8>>, Failure> {
    std::fs::File::open(path).and_then(read).map_err(|error| {
        let reason = base::host_reason(&error);
        let text = format!("Failed to open key material file: {reason}");
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
fn prompted(prompt: &str, format: KeyFormat) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let failed = |error: io::Error| refused(FailureKind::Invalid, format!("no key given: {error}"));
    let hidden = sys::HiddenInput::begin(io::stdin()).map_err(|errno| failed(errno.into()))?;
    if hidden.is_some() {
        let mut terminal = io::stderr();
        // A prompt that cannot be shown keeps nobody from typing.
        let _ = write!(terminal, "{prompt}");
        let _ = terminal.flush();
    }
    let line_ends = !format.is_binary();
    let mut given = Zeroizing::new(Vec::with_capacity(LENGTH_MAX));
    // Not by the buffered standard input: that would keep what it read.
    let mut input = unbuffered_input().map_err(failed)?;
    let mut byte = Zeroizing::new([0]);
    let enough = if line_ends {
        LENGTH_MAX
    } else {
        format.size_max()
    };
    while given.len() < enough {
        let count = input.read(&mut *byte).map_err(failed)?;
        if count == 0 || (line_ends && byte[0] == b'\n') {
            break;
        }
        if hidden
            .as_ref()
            .is_some_and(|hidden| hidden.is_interrupt(byte[0]))
        {
            hidden.into_iter().for_each(sys::HiddenInput::interrupt);
            return Err(failed(io::ErrorKind::Interrupted.into()));
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
