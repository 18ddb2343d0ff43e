//! Changes of the pool as a whole.

use std::path::PathBuf;

use format::features::{self, Support};
use pool::Actor;

use super::Service;
use super::cache_file;
use super::open::kind_of;
use super::voice::Voice;
use crate::compatibility::Compatibility;
use crate::message::{Assignments, Caller, Change, ScrubAction};
use crate::property::{Access, PropertyName, Types, Value, find_pool_property};
use crate::{Failure, FailureKind};

impl Service {
    fn pool_refused(&self, verb: &str, error: &pool::PoolError) -> Failure {
        Failure::cannot(kind_of(error), verb, &self.pool.name(), error)
    }

    /// Notes a command line in the pool's history.
    pub(super) fn record(&self, caller: &Caller, command: &str) {
        if command.is_empty() {
            return;
        }
        let host_name = pool::Host::current().name;
        self.pool.log_history(
            command,
            &Actor {
                user_id: u64::from(caller.uid),
                host_name,
            },
        );
    }

    pub(super) fn administer(&self, change: &Change, voice: &mut Voice<'_>) -> Result<(), Failure> {
        match change {
            Change::Sync if self.readonly => Ok(()),
            Change::Sync => self.sync(),
            Change::SetPool { properties } => self.set_pool(properties),
            Change::SetVdev { vdev, properties } => self.set_vdev(vdev, properties),
            Change::Upgrade => self.upgrade(voice),
            Change::Clear { device } => self.clear(device.as_deref()),
            Change::AddVdevs {
                vdevs,
                ashift,
                force,
                file_size,
            } => self.add_vdevs(vdevs, *ashift, *force, *file_size),
            Change::RemoveVdevs { devices } => self.remove_vdevs(devices),
            Change::Export { force: true } if self.pool.suspended().is_some() => {
                self.give_up(voice)
            }
            Change::Export { force } => self.export(*force),
            Change::DestroyPool { force } => self.destroy_pool(*force),
            Change::Scrub(action) => self.scrub(*action),
            Change::WaitScrub => self.wait_scrub(),
            Change::Trim { action, devices } => self.trim(*action, devices),
            Change::WaitTrim { devices } => self.wait_trim(devices),
            _ => Err(Failure::new(
                FailureKind::Unsupported,
                "this change is not supported",
            )),
        }
    }

    fn sync(&self) -> Result<(), Failure> {
        for mount in self.mounts().mounted() {
            self.mounts().barrier(&mount.dataset);
        }
        self.pool
            .sync()
            .map_err(|error| self.pool_refused("sync", &error))
    }

    /// Sets pool properties, features among them.
    pub(super) fn set_pool(&self, properties: &Assignments) -> Result<(), Failure> {
        const VERB: &str = "set property for";
        let name = self.pool.name();
        let refuse = |kind, reason: &str| Err(Failure::cannot(kind, VERB, &name, reason));
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
                Some(PropertyName::Native(row)) if row.name == "altroot" => {
                    return refuse(
                        FailureKind::Invalid,
                        "property 'altroot' can only be set during pool creation or import",
                    );
                }
                Some(PropertyName::Native(row)) if row.name == "cachefile" => {
                    self.set_cache_file(value)?;
                }
                Some(PropertyName::Native(row)) if row.name == "version" => {
                    return refuse(
                        FailureKind::Unsupported,
                        "use 'zpool upgrade' to enable features",
                    );
                }
                Some(PropertyName::Native(row)) if row.name == "bootfs" => {
                    self.set_boot_file_system(value)?;
                }
                Some(_) => {
                    if let (Value::Text(limit), "compatibility") = (value, property.as_str())
                        && let Err(reason) = Compatibility::read(limit)
                    {
                        return refuse(FailureKind::Invalid, &reason);
                    }
                    let value = match value {
                        Value::Number(number) => dsl::PropertyValue::Number(*number),
                        Value::Text(text) => dsl::PropertyValue::Text(text.clone()),
                        Value::Absent => continue,
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

    /// The dataset that a boot loader takes; an empty name for none.
    fn set_boot_file_system(&self, value: &Value) -> Result<(), Failure> {
        const VERB: &str = "set property for";
        let pool = self.pool.name();
        let Value::Text(name) = value else {
            return Ok(());
        };
        let mut id = 0;
        if !name.is_empty() {
            let kind = FailureKind::Invalid;
            let refuse = |reason: String| Failure::cannot(kind, VERB, &pool, reason);
            if crate::name::pool_of(name) != pool {
                return Err(refuse(format!("'{name}' is an invalid name")));
            }
            let found = self.dsl.dataset(name);
            let dataset = found.map_err(|_| refuse(format!("no such dataset '{name}'")))?;
            if self.catalogue().kind_of(&dataset)? == Types::VOLUME {
                return Err(refuse(format!("'{name}' is not a file system")));
            }
            id = dataset.id().0;
        }
        let properties = vec![("bootfs".to_owned(), dsl::PropertyValue::Number(id))];
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
    fn leave_cache_file(&self) {
        let path = self.cache_file.lock().take();
        if let Some(path) = path.filter(|path| path.is_absolute()) {
            let _ = cache_file::change(&path, &self.pool.name(), None);
        }
    }

    pub(super) fn cache_file_text(&self) -> Option<String> {
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
        self.pool
            .enable_features(&[found])
            .map(drop)
            .map_err(|error| self.pool_refused("set property for", &error))
    }

    /// The features that the pool is to be limited to.
    pub(super) fn compatibility(&self) -> Result<Compatibility, String> {
        let config = self.pool.config();
        Compatibility::read(config.list.str("compatibility").unwrap_or("off"))
    }

    fn upgrade(&self, voice: &mut Voice<'_>) -> Result<(), Failure> {
        let name = self.pool.name();
        if self.pool.version() < 5000 {
            let reason = "pools of a legacy version cannot be upgraded by this version";
            return Err(Failure::cannot(
                FailureKind::Unsupported,
                "upgrade",
                &name,
                reason,
            ));
        }
        let limit = self
            .compatibility()
            .map_err(|reason| Failure::cannot(FailureKind::Invalid, "upgrade", &name, reason))?;
        let mut wanted = pool::default_features();
        wanted.retain(|feature| limit.allows(feature.name));
        let enabled = self
            .pool
            .enable_features(&wanted)
            .map_err(|error| self.pool_refused("upgrade", &error))?;
        if enabled.is_empty() {
            voice.line(format!(
                "Pool '{name}' already has all supported and requested features enabled."
            ));
        } else {
            voice.line(format!("Enabled the following features on '{name}':"));
            for feature in enabled {
                voice.line(format!("  {}", feature.name));
            }
        }
        Ok(())
    }

    fn clear(&self, device: Option<&str>) -> Result<(), Failure> {
        let named = |leaf: &vdev::Leaf| {
            let path = leaf.path();
            device.is_none_or(|device| *path == *device || path.rsplit('/').next() == Some(device))
        };
        let name = self.pool.name();
        let picked = self.pool.clear(&named).map_err(|error| {
            let text = format!("cannot clear errors for {name}: {error}");
            Failure::new(FailureKind::Medium, text)
        })?;
        match device {
            Some(device) if picked == 0 => {
                let text = format!("cannot clear errors for {device}: no such device in pool");
                Err(Failure::new(FailureKind::Missing, text))
            }
            _ => Ok(()),
        }
    }

    fn export(&self, force: bool) -> Result<(), Failure> {
        self.end("export", force, &|| self.pool.export())
    }

    /// Lets go of a suspended pool, whose last changes cannot be written.
    fn give_up(&self, voice: &mut Voice<'_>) -> Result<(), Failure> {
        let unmounted = self.unmount_all(true)?;
        let name = self.pool.name();
        if let Some(txg) = self.pool.abandon() {
            voice.line(format!(
                "pool '{name}' was suspended: changes after txg {txg} are lost, but for what was \
                 synchronized to files, and it is not marked as exported"
            ));
        }
        for mount in unmounted {
            // An empty directory that was made for the mount goes with it.
            let _gone = std::fs::remove_dir(&mount.path);
        }
        self.finish();
        Ok(())
    }

    fn destroy_pool(&self, force: bool) -> Result<(), Failure> {
        self.end("destroy", force, &|| self.pool.destroy())
    }

    /// Unmounts all, then lets the pool go.
    fn end(
        &self,
        verb: &str,
        force: bool,
        finish: &dyn Fn() -> pool::Result<()>,
    ) -> Result<(), Failure> {
        let name = self.pool.name();
        for mount in self.mounts().mounted() {
            self.mounts().barrier(&mount.dataset);
        }
        let unmounted = self.unmount_all(force).map_err(|failure| {
            if failure.kind == FailureKind::Busy {
                failure
                    .advise(format!("cannot {verb} '{name}': pool is busy"))
                    .advise(format!(
                        "close what uses it, or use 'zpool {verb} -f {name}'"
                    ))
            } else {
                failure
            }
        })?;
        if let Err(error) = finish() {
            self.mount_again(&unmounted);
            return Err(self.pool_refused(verb, &error));
        }
        self.leave_cache_file();
        for mount in unmounted {
            // An empty directory that was made for the mount goes with it.
            let _gone = std::fs::remove_dir(&mount.path);
        }
        self.finish();
        Ok(())
    }

    fn scrub(&self, action: ScrubAction) -> Result<(), Failure> {
        let verb = match action {
            ScrubAction::Start => "scrub",
            ScrubAction::Stop => "cancel scrubbing",
            ScrubAction::Pause => "pause scrubbing",
        };
        let outcome = match action {
            ScrubAction::Start => self.pool.start_scrub(),
            ScrubAction::Stop => self.pool.stop_scrub(),
            ScrubAction::Pause => self.pool.pause_scrub(),
        };
        let name = self.pool.name();
        outcome.map_err(|error| {
            Failure::new(kind_of(&error), format!("cannot {verb} {name}: {error}"))
        })
    }

    /// Waits until no scrub runs.
    pub(super) fn wait_scrub(&self) -> Result<(), Failure> {
        self.pool
            .wait_scrub()
            .map_err(|error| self.pool_refused("wait for scrub of", &error))
    }
}
