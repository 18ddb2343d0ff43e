//! Keys of encrypted datasets: loading and unloading them.

use std::sync::Arc;

use admin::changes::{ChangeKey, LoadKey, UnloadKey};
use admin::{Failure, FailureKind, Permission};
use crypto::{KeyError, KeyFormat, KeyMaterial, WrappingKey};
use dsl::property::Row;
use dsl::property::dataset::{KEYFORMAT, KEYLOCATION, PBKDF2ITERS};
use dsl::{Actor, Directory, DslError};

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::new_keys;
use crate::service::refusal::reason;
use crate::service::reporter::Reporter;

impl PoolChange for LoadKey {
    fn authorize(&self, service: &Service, actor: &Actor) -> Result<(), Failure> {
        let denied = || load_failure(FailureKind::Permission, "Permission denied.");
        service.require(actor, &self.name, &[Permission::LOAD_KEY], denied)
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::refused("load the key of")
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::Never
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let invalid = |error: KeyError| load_failure(FailureKind::Invalid, &error.to_string());
        let material = KeyMaterial {
            format: KeyFormat::Hex,
            salt: 0,
            iterations: 0,
        };
        let key = WrappingKey::from_material(self.key.text().as_bytes(), material);
        let key = key.map_err(invalid)?;
        let root = directory(service, &self.name)?;
        let done = if self.dry_run {
            service.dsl.check_key(&root, &key)
        } else {
            service.dsl.load_key(&root, key)
        };
        done.map_err(|error| not_loaded(&self.name, &error))
    }
}

impl PoolChange for UnloadKey {
    fn authorize(&self, service: &Service, actor: &Actor) -> Result<(), Failure> {
        let denied = || unload_failure(FailureKind::Permission, "Permission denied.");
        service.require(actor, &self.name, &[Permission::LOAD_KEY], denied)
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::refused("unload the key of")
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::Never
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let root = directory(service, &self.name)?;
        let unloaded = service.pool.unload_key(&root);
        unloaded.map_err(|error| not_unloaded(&self.name, &error))
    }
}

impl PoolChange for ChangeKey {
    fn authorize(&self, service: &Service, actor: &Actor) -> Result<(), Failure> {
        let denied = || change_failure(FailureKind::Permission, "Permission denied.");
        service.require(actor, &self.name, &[Permission::CHANGE_KEY], denied)
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::REFUSED
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::After
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let refuse = |text: &str| change_failure(FailureKind::Invalid, text);
        let find = |row: &Row| self.properties.iter().find(|(name, _)| row.is(name));
        let number = |row: &Row| find(row).and_then(|(_, value)| value.number());
        let location = find(KEYLOCATION.row()).and_then(|(_, value)| value.text());
        if let Some(fault) = location.and_then(new_keys::location_fault) {
            return Err(refuse(fault));
        }
        let new = |key| {
            let format = number(KEYFORMAT.row()).unwrap_or_default();
            new_keys::new_key(format, number(PBKDF2ITERS.row()), key)
        };
        let key = self.key.as_ref().map(new).transpose();
        let task = dsl::tasks::ChangeKey {
            path: self.name.clone(),
            key: key.map_err(|text| refuse(&text))?,
            location: location.map(str::to_owned),
        };
        service.run(task).map_err(|error| {
            let (kind, text) = reason(&error);
            change_failure(kind, &text)
        })
    }
}

fn change_failure(kind: FailureKind, text: &str) -> Failure {
    Failure::new(kind, format!("Key change error: {text}"))
}

fn directory(service: &Service, name: &str) -> Result<Arc<Directory>, Failure> {
    Ok(service.head("open", name)?.directory())
}

fn load_failure(kind: FailureKind, text: &str) -> Failure {
    Failure::new(kind, format!("Key load error: {text}"))
}

fn unload_failure(kind: FailureKind, text: &str) -> Failure {
    Failure::new(kind, format!("Key unload error: {text}"))
}

/// Why a key was not loaded, as users know it.
fn not_loaded(name: &str, error: &DslError) -> Failure {
    let (kind, mut text) = reason(error);
    if let DslError::KeyLoaded { .. } = error {
        text = format!("Key already loaded for '{name}'.");
    } else if let DslError::NotEncrypted { .. } = error {
        text = format!("'{name}' is not encrypted.");
    } else if let DslError::NotEncryptionRoot { root, .. } = error {
        text = format!("Keys must be loaded for encryption root of '{name}' ({root}).");
    } else if let DslError::Key { source, .. } = error
        && *source == KeyError::WrongKey
    {
        text = format!("Incorrect key provided for '{name}'.");
    }
    load_failure(kind, &text)
}

/// The same of one that was not unloaded.
fn not_unloaded(name: &str, error: &DslError) -> Failure {
    let (kind, mut text) = reason(error);
    if let DslError::KeyUnloaded { .. } = error {
        text = format!("Key already unloaded for '{name}'.");
    } else if let DslError::Busy { .. } = error {
        text = format!("'{name}' is busy.");
    } else if let DslError::NotEncrypted { .. } = error {
        text = format!("'{name}' is not encrypted.");
    } else if let DslError::NotEncryptionRoot { root, .. } = error {
        text = format!("Keys must be unloaded for encryption root of '{name}' ({root}).");
    }
    unload_failure(kind, &text)
}
