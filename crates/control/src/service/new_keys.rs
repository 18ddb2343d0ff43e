//! How a new dataset is encrypted: what its properties and the key that came with them say.

use admin::changes::NewKey;
use admin::{Assignments, Failure, FailureKind, Value};
use crypto::{
    KeyFormat, KeyMaterial, PBKDF2_ITERATIONS_DEFAULT, PBKDF2_ITERATIONS_MIN, Suite, WrappingKey,
};
use dsl::NewEncryption;
use dsl::property::dataset::{COPIES, ENCRYPTION, KEYFORMAT, KEYLOCATION, PBKDF2ITERS};
use dsl::property::{KeyLocation, Row};

const ON: u64 = 1;
const OFF: u64 = 2;
/// The third address of an encrypted block is no address.
pub(super) const COPIES_TOO_MANY: u64 = 3;
/// What is said of it.
pub(super) const TOO_MANY_COPIES: &str = "encrypted datasets cannot have copies=3";

/// What is wrong with a location of keys, if anything is.
pub(super) fn location_fault(location: &str) -> Option<&'static str> {
    let is_good = KeyLocation::parse(location).is_some_and(KeyLocation::is_lasting);
    (!is_good).then_some("Invalid keylocation.")
}

/// How a dataset is to be encrypted that is made with these properties, and the properties that are stored as they are.
pub(super) fn chosen(
    name: &str,
    properties: &Assignments,
    key: Option<&NewKey>,
) -> Result<(NewEncryption, Assignments), Failure> {
    let refuse = |text: &str| Err(Failure::cannot(FailureKind::Invalid, "create", name, text));
    let find = |row: &Row| properties.iter().find(|(property, _)| row.is(property));
    let number = |row: &Row| find(row).and_then(|(_, value)| value.number());
    let of_keys: [&Row; 4] = [
        ENCRYPTION.row(),
        KEYFORMAT.row(),
        PBKDF2ITERS.row(),
        KEYLOCATION.row(),
    ];
    let is_stored = |property: &str| !of_keys.iter().any(|row| row.is(property));
    let mut rest: Assignments = properties.clone();
    rest.retain(|(property, _)| is_stored(property));
    let suite = number(ENCRYPTION.row());
    let location = find(KEYLOCATION.row()).and_then(|(_, value)| value.text());
    let is_about_keys = number(KEYFORMAT.row()).is_some()
        || number(PBKDF2ITERS.row()).is_some()
        || location.is_some_and(|location| location != "none");
    if suite == Some(OFF) && is_about_keys {
        return refuse("Encryption must be turned on to set encryption properties.");
    }
    if suite.is_some_and(|suite| suite != OFF) && number(COPIES.row()) == Some(COPIES_TOO_MANY) {
        return refuse(TOO_MANY_COPIES);
    }
    let suite = suite.map(|suite| match suite {
        ON => Suite::DEFAULT_NUMBER,
        suite => suite,
    });
    let Some(format) = number(KEYFORMAT.row()).filter(|format| *format != 0) else {
        if is_about_keys {
            return refuse("Keyformat required for new encryption root.");
        }
        let encryption = match suite {
            None => NewEncryption::Inherited,
            Some(OFF) => NewEncryption::Off,
            Some(suite) => NewEncryption::Suite(suite),
        };
        return Ok((encryption, rest));
    };
    let Some(key) = key else {
        return refuse("no key was given");
    };
    let location = location.unwrap_or(KeyLocation::DEFAULT);
    if let Some(fault) = location_fault(location) {
        return refuse(fault);
    }
    let iterations = number(PBKDF2ITERS.row());
    let new = match new_key(format, iterations, key) {
        Ok(new) => new,
        Err(text) => return refuse(&text),
    };
    rest.push((
        KEYLOCATION.name.to_owned(),
        Value::Text(location.to_owned()),
    ));
    Ok((NewEncryption::Root(suite, new), rest))
}

/// A key as the client made it, with what it is made of.
pub(super) fn new_key(
    format: u64,
    iterations: Option<u64>,
    key: &NewKey,
) -> Result<dsl::NewKey, String> {
    let format = KeyFormat::from_number(format).map_err(|error| error.to_string())?;
    let is_derived = format.is_derived();
    if iterations.is_some() && !is_derived {
        return Err("Can only set pbkdf2iters with keyformat=passphrase.".to_owned());
    }
    let iterations = iterations.unwrap_or(PBKDF2_ITERATIONS_DEFAULT);
    if iterations < PBKDF2_ITERATIONS_MIN {
        return Err(format!("Minimum pbkdf2iters is {PBKDF2_ITERATIONS_MIN}."));
    }
    let hex = KeyMaterial {
        format: KeyFormat::Hex,
        salt: 0,
        iterations: 0,
    };
    let wrapping = WrappingKey::from_material(key.key.text().as_bytes(), hex);
    Ok(dsl::NewKey {
        material: KeyMaterial {
            format,
            salt: if is_derived { key.salt } else { 0 },
            iterations: if is_derived { iterations } else { 0 },
        },
        key: wrapping.map_err(|error| error.to_string())?,
    })
}

#[cfg(test)]
mod tests;
