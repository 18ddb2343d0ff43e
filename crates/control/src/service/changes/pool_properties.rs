//! Properties of the pool as a whole.

use std::path::PathBuf;

use admin::changes::SetPool;
use admin::{Assignments, Failure, FailureKind, PropertyName, Types, Value, find_pool_property};
use dsl::Actor;
use dsl::property::Access;
use dsl::property::pool::{ALTROOT, BOOTFS, CACHEFILE, COMPATIBILITY, VERSION};
use format::features::{self, Support};
use format::uberblock::{VERSION_FEATURES, version_is_known};
use format::version::BOOT_FILE_SYSTEM;

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::compatibility::Compatibility;
use crate::service::Service;
use crate::service::assignments::stored_value;
use crate::service::cache_file;
use crate::service::delegation::denied;
use crate::service::open::{NO_HOST_ID, is_multihost_on};
use crate::service::refusal::{kind_of, new_device_refused};
use crate::service::reporter::Reporter;

impl PoolChange for SetPool {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied("set property for", &service.dsl.pool_name()))
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
        service.set_pool(&self.properties)
    }
}

impl Service {
    pub(super) fn pool_refused(&self, verb: &str, error: &pool::PoolError) -> Failure {
        let name = self.pool.name();
        if let pool::PoolError::Device(error) = error {
            return new_device_refused(verb, &name, error);
        }
        Failure::cannot(kind_of(error), verb, &name, error)
    }

    /// Sets pool properties, features among them.
    pub(in crate::service) fn set_pool(&self, properties: &Assignments) -> Result<(), Failure> {
        const VERB: &str = "set property for";
        let name = self.pool.name();
        let refuse = |kind, reason: &str| Err(Failure::cannot(kind, VERB, &name, reason));
        if properties.iter().any(is_multihost_on) && pool::Host::current().id == 0 {
            return refuse(FailureKind::Invalid, NO_HOST_ID);
        }
        for (property, value) in properties {
            match find_pool_property(property) {
                Some(PropertyName::Computed(feature)) => {
                    self.set_feature(feature.trim_start_matches("feature@"), value)?;
                }
                Some(PropertyName::Native(row)) if row.access != Access::Settable => {
                    return refuse(
                        FailureKind::Invalid,
                        &format!("property '{property}' can only be set at import time"),
                    );
                }
                Some(PropertyName::Native(row)) if ALTROOT.is(row.name) => {
                    return refuse(
                        FailureKind::Invalid,
                        "property 'altroot' can only be set during pool creation or import",
                    );
                }
                Some(PropertyName::Native(row)) if CACHEFILE.is(row.name) => {
                    self.set_cache_file(value)?;
                }
                Some(PropertyName::Native(row)) if VERSION.is(row.name) => {
                    self.set_version(value)?;
                }
                Some(PropertyName::Native(row)) if BOOTFS.is(row.name) => {
                    self.set_boot_file_system(value)?;
                }
                Some(PropertyName::Native(_) | PropertyName::User(_)) => {
                    if let Value::Text(limit) = value
                        && COMPATIBILITY.is(property)
                        && let Err(reason) = Compatibility::read(limit)
                    {
                        return refuse(FailureKind::Invalid, &reason);
                    }
                    let Some(value) = stored_value(value) else {
                        continue;
                    };
                    self.pool
                        .set_properties(vec![(property.clone(), value)])
                        .map_err(|error| self.pool_refused(VERB, &error))?;
                }
                None => {
                    return refuse(
                        FailureKind::Invalid,
                        &format!("property '{property}' is not a valid pool or vdev property"),
                    );
                }
            }
        }
        Ok(())
    }

    /// Raises the version; features stay as they are.
    fn set_version(&self, value: &Value) -> Result<(), Failure> {
        let Value::Number(version) = value else {
            return Ok(());
        };
        if !version_is_known(*version) || *version < self.pool.version() {
            let text = format!("property 'version' number {version} is invalid.");
            let (kind, pool) = (FailureKind::Invalid, self.pool.name());
            return Err(Failure::cannot(kind, "set property for", &pool, text));
        }
        self.raise_pool_version(*version).map(drop)
    }

    /// The dataset that a boot loader takes; an empty name for none.
    fn set_boot_file_system(&self, value: &Value) -> Result<(), Failure> {
        const VERB: &str = "set property for";
        let pool = self.pool.name();
        let Value::Text(name) = value else {
            return Ok(());
        };
        if self.pool.version() < BOOT_FILE_SYSTEM {
            let text = "pool must be upgraded to support this property";
            return Err(Failure::cannot(FailureKind::Unsupported, VERB, &pool, text));
        }
        let mut id = 0;
        if !name.is_empty() {
            let kind = FailureKind::Invalid;
            let refuse = |reason: String| Failure::cannot(kind, VERB, &pool, reason);
            if admin::name::pool_of(name) != pool {
                return Err(refuse(format!("'{name}' is an invalid name")));
            }
            let found = self.dsl.dataset(name);
            let dataset = found.map_err(|_| refuse(format!("no such dataset '{name}'")))?;
            if self.dataset_index().kind_of(&dataset)? == Types::VOLUME {
                return Err(refuse(format!("'{name}' is not a file system")));
            }
            id = dataset.id().0;
        }
        let properties = vec![(BOOTFS.name.to_owned(), dsl::PropertyValue::Number(id))];
        self.pool
            .set_properties(properties)
            .map_err(|error| self.pool_refused(VERB, &error))
    }

    /// Keeps the pool in another cache file from now on, or in none.
    fn set_cache_file(&self, value: &Value) -> Result<(), Failure> {
        let Value::Text(path) = value else {
            return Ok(());
        };
        self.leave_cache_file();
        let place = PathBuf::from(path);
        if place.is_absolute() {
            let name = self.pool.name();
            let list = self.pool.config().to_mos();
            cache_file::change(&place, &name, Some(list)).map_err(|error| {
                let text = format!("{path}: {error}");
                Failure::cannot(FailureKind::Medium, "set property for", &name, text)
            })?;
        }
        *self.cache_file.lock() = (!path.is_empty()).then_some(place);
        Ok(())
    }

    /// Takes the pool out of its cache file. That it cannot be written changes nothing for the
    /// pool: an entry that is out of date is only a hint where to look.
    pub(super) fn leave_cache_file(&self) {
        let path = self.cache_file.lock().take();
        if let Some(path) = path.filter(|path| path.is_absolute()) {
            let _ = cache_file::change(&path, &self.pool.name(), None);
        }
    }

    pub(in crate::service) fn cache_file_text(&self) -> Option<String> {
        let path = self.cache_file.lock().clone();
        path.map(|path| path.to_string_lossy().into_owned())
    }

    fn set_feature(&self, feature: &str, value: &Value) -> Result<(), Failure> {
        let name = self.pool.name();
        let refuse =
            |kind, reason: &str| Err(Failure::cannot(kind, "set property for", &name, reason));
        let Some(found) = features::by_name(feature) else {
            return refuse(
                FailureKind::Invalid,
                &format!("invalid property 'feature@{feature}'"),
            );
        };
        if *value != Value::Text("enabled".to_owned()) {
            let text = format!(
                "property 'feature@{feature}' can only be set to 'disabled' at \
                                creation time"
            );
            return refuse(FailureKind::Invalid, &text);
        }
        if found.support != Support::Write {
            let text = format!("feature '{feature}' is not supported for writing");
            return refuse(FailureKind::Unsupported, &text);
        }
        if self.pool.version() < VERSION_FEATURES {
            let text = "pool must be upgraded to support feature flags";
            return refuse(FailureKind::Unsupported, text);
        }
        self.pool
            .enable_features(&[found])
            .map(drop)
            .map_err(|error| self.pool_refused("set property for", &error))
    }

    /// The features that the pool is to be limited to.
    pub(in crate::service) fn compatibility(&self) -> Result<Compatibility, String> {
        let config = self.pool.config();
        Compatibility::read(config.list.str(COMPATIBILITY.name).unwrap_or("off"))
    }
}
