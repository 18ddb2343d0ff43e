//! Whether the property assignments of a request may be made in this pool.

use admin::{Assignments, Failure, FailureKind};

use super::Service;
use super::rules::{self, RuleError, Target};

impl Service {
    pub(super) fn feature_enabled(&self, feature: &format::features::Feature) -> bool {
        self.dsl.mos().services.is_enabled(feature)
    }

    /// Refuses properties that cannot be set.
    pub(super) fn check_properties(
        &self,
        verb: &str,
        name: &str,
        target: Target,
        properties: &Assignments,
    ) -> Result<(), Failure> {
        rules::check(target, properties, &|feature| self.feature_enabled(feature)).map_err(
            |error| {
                let kind = match error {
                    RuleError::Feature(_) | RuleError::NotYet(_) => FailureKind::Unsupported,
                    RuleError::Property(_)
                    | RuleError::NoKey
                    | RuleError::OnlyNew(_)
                    | RuleError::Automatic
                    | RuleError::Labels
                    | RuleError::OnSnapshot
                    | RuleError::UnknownOwner(_) => FailureKind::Invalid,
                };
                Failure::cannot(kind, verb, name, error)
            },
        )
    }
}
