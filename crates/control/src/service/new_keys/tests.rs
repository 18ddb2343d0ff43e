use admin::Secret;
use zeroize::Zeroizing;

use super::*;

fn key() -> NewKey {
    NewKey {
        key: Secret::new(Zeroizing::new("07".repeat(32))),
        salt: 9,
    }
}

/// What comes of some assignments, as a word or a refusal.
fn outcome(assignments: &[(&str, Value)]) -> String {
    let owned = assignments.iter().cloned();
    let properties: Assignments = owned
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    match chosen("tank/e", &properties, Some(&key())) {
        Ok((NewEncryption::Inherited, _)) => "inherited".to_owned(),
        Ok((NewEncryption::Off, _)) => "off".to_owned(),
        Ok((NewEncryption::Suite(suite), _)) => format!("suite {suite}"),
        Ok((NewEncryption::Received(..), _)) => "received".to_owned(),
        Ok((NewEncryption::Root(suite, new), rest)) => {
            let (_, location) = rest.last().unwrap();
            format!("root {suite:?} {:?} {location:?}", new.material)
        }
        Err(failure) => failure.to_string(),
    }
}

#[test]
fn what_is_asked_for_is_taken_or_refused() {
    let number = |name, number| (name, Value::Number(number));
    let text = |name, text: &str| (name, Value::Text(text.to_owned()));
    assert_eq!(outcome(&[]), "inherited");
    assert_eq!(outcome(&[number("encryption", 2)]), "off");
    assert_eq!(outcome(&[number("encryption", 1)]), "suite 8");
    assert_eq!(outcome(&[number("encryption", 4)]), "suite 4");
    let refused = |assignments: &[_], reason: &str| {
        let wanted = format!("cannot create 'tank/e': {reason}");
        assert_eq!(outcome(assignments), wanted);
    };
    let off = "Encryption must be turned on to set encryption properties.";
    refused(&[number("encryption", 2), number("keyformat", 3)], off);
    refused(
        &[number("encryption", 2), text("keylocation", "prompt")],
        off,
    );
    let needed = "Keyformat required for new encryption root.";
    refused(
        &[number("encryption", 1), text("keylocation", "prompt")],
        needed,
    );
    refused(&[text("keylocation", "file:///key")], needed);
    refused(
        &[number("encryption", 1), number("copies", 3)],
        "encrypted datasets cannot have copies=3",
    );
    let root = [number("encryption", 1), number("keyformat", 2)];
    refused(
        &[&root[..], &[text("keylocation", "file://key")]].concat(),
        "Invalid keylocation.",
    );
    refused(
        &[&root[..], &[number("pbkdf2iters", 200_000)]].concat(),
        "Can only set pbkdf2iters with keyformat=passphrase.",
    );
    refused(
        &[number("keyformat", 3), number("pbkdf2iters", 99_999)],
        "Minimum pbkdf2iters is 100000.",
    );
    let made = outcome(&root);
    assert!(
        made.starts_with("root Some(8)") && made.contains("prompt"),
        "{made}"
    );
    assert!(made.contains("salt: 0, iterations: 0"), "{made}");
    let made = outcome(&[number("keyformat", 3)]);
    assert!(made.starts_with("root None"), "{made}");
    assert!(made.contains("salt: 9, iterations: 350000"), "{made}");
}
