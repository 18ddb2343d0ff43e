use super::*;
use std::collections::BTreeMap;

/// A dataset made of the facts that a test gives it.
#[derive(Default)]
struct Fake {
    name: String,
    kind: Types,
    head: Types,
    measured: BTreeMap<&'static str, Value>,
    stored: BTreeMap<&'static str, Setting>,
}

impl PropertySource for Fake {
    fn name(&self) -> &str {
        &self.name
    }
    fn kind(&self) -> Types {
        self.kind
    }
    fn head_kind(&self) -> Types {
        self.head
    }
    fn created_txg(&self) -> u64 {
        1
    }
    fn figure(&self, figure: Figure) -> Result<Option<Value>, Failure> {
        let mut rows = DATASET_PROPERTIES.iter();
        let row = rows.find(|row| row.measured.dataset() == Some(figure));
        Ok(row.and_then(|row| self.measured.get(row.name).cloned()))
    }
    fn computed(&self, _name: &str) -> Result<Option<Value>, Failure> {
        Ok(None)
    }
    fn stored(&self, row: &'static Row) -> Result<Option<Setting>, Failure> {
        Ok(self.stored.get(row.name).cloned())
    }
    fn user_property(&self, name: &str) -> Result<Option<Setting>, Failure> {
        Ok(self.stored.get(name).cloned())
    }
    fn user_properties(&self) -> Result<Vec<(String, Setting)>, Failure> {
        Ok(Vec::new())
    }
}

fn one(fake: &Fake, name: &str) -> Option<(String, String)> {
    let found = named(fake, &[name.to_owned()]).unwrap();
    let (_, setting) = found.first()?;
    let property = dataset::find(name).unwrap();
    Some((property.format(&setting.value, true), setting.source.text()))
}

fn shown(value: &str, source: &str) -> Option<(String, String)> {
    Some((value.to_owned(), source.to_owned()))
}

#[test]
fn defaults_and_sources() {
    let mut fake = Fake {
        name: "p/a".into(),
        kind: Types::FILESYSTEM,
        head: Types::FILESYSTEM,
        ..Fake::default()
    };
    assert_eq!(one(&fake, "recordsize"), shown("131072", "default"));
    assert_eq!(one(&fake, "filesystem_count"), shown("none", "default"));
    assert_eq!(one(&fake, "encryption"), shown("off", "default"));
    assert_eq!(one(&fake, "keylocation"), shown("none", "default"));
    assert_eq!(one(&fake, "origin"), None);
    assert_eq!(one(&fake, "volsize"), None);
    assert_eq!(one(&fake, "type"), shown("filesystem", "-"));
    fake.measured.insert("version", Value::Number(5));
    assert_eq!(one(&fake, "version"), shown("5", "-"));
    fake.measured.insert("quota", Value::Number(0));
    assert_eq!(one(&fake, "quota"), shown("0", "default"));
    fake.measured.insert("quota", Value::Number(7));
    assert_eq!(one(&fake, "quota"), shown("7", "local"));
    let inherited = Setting::from(Value::Number(0), Source::Inherited("p".into()));
    fake.stored.insert("atime", inherited);
    assert_eq!(one(&fake, "atime"), shown("off", "inherited from p"));
}

#[test]
fn snapshots_have_what_their_heads_have() {
    let mut fake = Fake {
        name: "p/v@s".into(),
        kind: Types::SNAPSHOT,
        head: Types::VOLUME,
        ..Fake::default()
    };
    fake.measured.insert("volsize", Value::Number(1 << 20));
    assert_eq!(one(&fake, "volsize"), shown("1048576", "local"));
    assert_eq!(one(&fake, "devices"), None);
    assert_eq!(one(&fake, "primarycache"), shown("all", "default"));
    assert_eq!(one(&fake, "atime"), None);
    let file_system = Fake {
        name: "p/a@s".into(),
        kind: Types::SNAPSHOT,
        head: Types::FILESYSTEM,
        ..Fake::default()
    };
    assert_eq!(one(&file_system, "volsize"), None);
    assert_eq!(one(&file_system, "devices"), shown("on", "default"));
}

#[test]
fn the_block_size_of_a_volume_is_its_own_or_the_default() {
    let mut volume = Fake {
        name: "p/v".into(),
        kind: Types::VOLUME,
        head: Types::VOLUME,
        ..Fake::default()
    };
    // Nobody knows it without the key.
    assert_eq!(one(&volume, "volblocksize"), None);
    let mut of = |size: u64| {
        volume.measured.insert("volblocksize", Value::Number(size));
        one(&volume, "volblocksize")
    };
    assert_eq!(of(16 << 10), shown("16384", "default"));
    assert_eq!(of(8 << 10), shown("8192", "-"));
}

#[test]
fn encryption_keys() {
    let mut child = Fake {
        name: "p/a/b".into(),
        kind: Types::FILESYSTEM,
        head: Types::FILESYSTEM,
        ..Fake::default()
    };
    child.measured.insert("encryption", Value::Number(8));
    child
        .measured
        .insert("encryptionroot", Value::Text("p/a".into()));
    child.measured.insert("pbkdf2iters", Value::Number(350_000));
    assert_eq!(one(&child, "encryption"), shown("aes-256-gcm", "-"));
    assert_eq!(one(&child, "pbkdf2iters"), shown("350000", "-"));
    // As OpenZFS prints it of a child that has its parent's key.
    assert_eq!(one(&child, "keylocation"), shown("none", "default"));
}
