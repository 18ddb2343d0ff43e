//! Whether the property assignments of a request may be made in this pool.

use admin::{Assignments, Failure, FailureKind, Value};
use dsl::property::Requirement;
use dsl::property::dataset::{COPIES, KEYLOCATION};

use super::Service;
use super::new_keys;
use super::refusal::unreadable;
use super::rules::{self, RuleError, Target};

impl Service {
    pub(super) fn feature_enabled(&self, feature: &format::features::Feature) -> bool {
        self.dsl.mos().services.is_enabled(feature)
    }

    /// Whether the pool has what a value needs.
    pub(super) fn has(&self, needed: Requirement) -> bool {
        match needed {
            Requirement::Feature(feature) => self.feature_enabled(feature),
            Requirement::Version(version) => self.pool.version() >= version,
        }
    }

    /// Refuses properties that cannot be set.
    pub(super) fn check_properties(
        &self,
        verb: &str,
        name: &str,
        target: Target,
        properties: &Assignments,
    ) -> Result<(), Failure> {
        let mut properties = properties.clone();
        self.check_encrypted(verb, name, &mut properties)?;
        rules::check(target, &properties, &|needed| self.has(needed)).map_err(|error| {
            let kind = match error {
                RuleError::Requirement(_) | RuleError::NotYet(_) => FailureKind::Unsupported,
                RuleError::Property(_)
                | RuleError::NoKey
                | RuleError::OnlyNew(_)
                | RuleError::Automatic
                | RuleError::Labels
                | RuleError::OnSnapshot
                | RuleError::UnknownOwner(_) => FailureKind::Invalid,
            };
            Failure::cannot(kind, verb, name, error)
        })
    }

    /// What encryption allows and forbids of a dataset that is there. What is looked at here is taken out.
    fn check_encrypted(
        &self,
        verb: &str,
        name: &str,
        properties: &mut Assignments,
    ) -> Result<(), Failure> {
        let refuse = |text: &str| Err(Failure::cannot(FailureKind::Invalid, verb, name, text));
        let Ok(head) = self.dsl.head(name) else {
            return Ok(());
        };
        let directory = head.directory();
        let Some(record) = directory.key_record().map_err(unreadable)? else {
            return Ok(());
        };
        let too_many = |value: &Value| value.number() == Some(new_keys::COPIES_TOO_MANY);
        if properties
            .iter()
            .any(|(name, value)| COPIES.is(name) && too_many(value))
        {
            return refuse(new_keys::TOO_MANY_COPIES);
        }
        if record.root().map(|root| root.id()) != Some(directory.id()) {
            return Ok(());
        }
        for (_, value) in properties.iter().filter(|(name, _)| KEYLOCATION.is(name)) {
            if let Some(fault) = value.text().and_then(new_keys::location_fault) {
                return refuse(fault);
            }
        }
        properties.retain(|(name, _)| !KEYLOCATION.is(name));
        Ok(())
    }
}
