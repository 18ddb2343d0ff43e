//! The properties of what is received: those that the stream brings, set by the command, and inherited in spite of
//! the stream.

use admin::{
    Assignments, Failure, FailureKind, PropertyName, ReceiveRequest, RowText, Types, Value,
    check_user_property, find_dataset_property,
};
use dsl::property::dataset::{
    ENCRYPTION, KEYLOCATION, QUOTA, REFQUOTA, REFRESERVATION, RESERVATION, find,
};
use dsl::property::{Access, Home, PropertyValue, StoredProperty};
use dsl::{Dataset, PropertyChange, SetProperties};
use format::ObjectSetKind;
use stream::PackageValue;

use crate::service::Service;
use crate::service::assignments::stored;
use crate::service::refusal::{refused, unreadable};
use crate::service::reporter::Reporter;
use crate::service::rules::{self, RuleError, Target};

/// The longest value of a user property, its terminator included.
const USER_VALUE_MAX: usize = 8192;

/// What changes of a dataset's properties when a stream is received.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    /// What the command sets here.
    local: Assignments,
    /// What the command sets at the topmost dataset, and has all others inherit.
    inherited: Vec<String>,
    /// What the command keeps as it is.
    excluded: Vec<String>,
    /// What the stream brings; none of a stream without properties.
    received: Option<Vec<(String, PropertyValue)>>,
    /// What is set when all data is there.
    later: Vec<(String, PropertyChange)>,
    /// Where the key is of what is received as it is encrypted.
    key_location: Option<String>,
}

impl Wanted {
    /// What the command says, of the topmost dataset or of one below it.
    pub(super) fn of(request: &ReceiveRequest, is_top: bool) -> Self {
        let (local, inherited) = if is_top {
            (request.properties.clone(), Vec::new())
        } else {
            let names = request.properties.iter().map(|(name, _)| name.clone());
            (
                Assignments::new(),
                names.filter(|name| inherits(name)).collect(),
            )
        };
        Self {
            local,
            inherited,
            excluded: request.excluded.clone(),
            received: None,
            later: Vec::new(),
            key_location: None,
        }
    }

    /// What comes as it is encrypted has a key, though nobody knows that before it is there: where that key is, by the
    /// command or else by the stream, is set at the end.
    pub(super) fn take_key_location(&mut self, sent: &[(String, PackageValue)]) {
        let named = self.local.iter().find(|(name, _)| KEYLOCATION.is(name));
        let named = named.and_then(|(_, value)| value.text().map(str::to_owned));
        self.local.retain(|(name, _)| !KEYLOCATION.is(name));
        let is_excluded = self.excluded.iter().any(|name| KEYLOCATION.is(name));
        let brought = sent.iter().find(|(name, _)| KEYLOCATION.is(name));
        let brought = brought.and_then(|(_, value)| match value {
            PackageValue::Text(text) if !is_excluded => Some(text.clone()),
            PackageValue::Text(_) | PackageValue::Number(_) => None,
        });
        let is_valid = |text: &String| {
            find(KEYLOCATION.name).is_some_and(|row| row.accepts(&Value::Text(text.clone())))
        };
        self.key_location = named.or(brought).filter(is_valid);
    }

    /// Sets where the key is, at a root of encryption.
    fn set_key_location(&mut self, service: &Service, path: &str, reporter: &mut Reporter<'_>) {
        let Some(location) = self.key_location.take() else {
            return;
        };
        let is_root = service
            .dsl
            .directory(path)
            .and_then(|directory| service.dsl.encryption_root(&directory));
        if is_root.is_err() {
            return;
        }
        let value = PropertyChange::Set(PropertyValue::Text(location));
        let task = SetProperties {
            name: path.to_owned(),
            changes: vec![(KEYLOCATION.name.to_owned(), value)],
        };
        if let Err(error) = service.dsl.run(task) {
            reporter.warn(refused("set properties of", path, &error));
        }
    }

    /// Takes in what the stream brings for a dataset.
    pub(super) fn receive(
        &mut self,
        service: &Service,
        (path, kind): (&str, Types),
        properties: &[(String, PackageValue)],
        reporter: &mut Reporter<'_>,
    ) {
        let mut received = Vec::new();
        for (name, value) in properties {
            if self.excluded.contains(name) && !inherits(name) {
                continue;
            }
            match acceptable(service, kind, name, value) {
                Ok(Some(value)) => received.push((name.clone(), value)),
                Ok(None) => {}
                Err(failure) => {
                    let text = format!("cannot receive {name} property on {path}");
                    let text = format!("{text}: {}", failure.message);
                    reporter.warn(Failure::new(failure.kind, text));
                }
            }
        }
        self.received = Some(received);
    }

    /// Whether a new dataset is to be plain, whatever is above it: its properties came with it, and the command says
    /// nothing else.
    pub(super) fn is_unencrypted(&self) -> bool {
        self.received.is_some() && !self.excluded.iter().any(|name| ENCRYPTION.is(name))
    }

    /// Refuses what cannot be set.
    pub(super) fn check(
        &self,
        service: &Service,
        path: &str,
        kind: ObjectSetKind,
    ) -> Result<(), Failure> {
        let target = Target {
            kind: types_of(kind),
            creating: false,
        };
        service.check_properties("receive", path, target, &self.local)
    }

    /// Sets what the data is written by at a new dataset, before any is.
    pub(super) fn set_first(&mut self, service: &Service, head: &Dataset) -> Result<(), Failure> {
        let path = head.directory().name();
        let all = self.changes(head, true)?;
        let (last, first): (Vec<_>, _) = all.into_iter().partition(|(name, _)| is_limit(name));
        self.later = last;
        self.received = None;
        if first.is_empty() {
            return Ok(());
        }
        let task = SetProperties {
            name: path.clone(),
            changes: first,
        };
        let set = service.dsl.run(task);
        set.map_err(|error| refused("set properties of", &path, &error))
    }

    /// Finds out what is to be set at a dataset that is there, once its data is.
    pub(super) fn prepare(&mut self, head: &Dataset) -> Result<(), Failure> {
        self.later = self.changes(head, false)?;
        Ok(())
    }

    /// Sets what is left, when all data is there. What cannot be set is warned of.
    pub(super) fn set_last(
        &mut self,
        service: &Service,
        path: &str,
        keep_mounts: bool,
        reporter: &mut Reporter<'_>,
    ) {
        self.set_key_location(service, path, reporter);
        let changes = std::mem::take(&mut self.later);
        let (limits, others): (Vec<_>, _) =
            changes.into_iter().partition(|(name, _)| is_limit(name));
        let mut one_by_one = limits;
        if !others.is_empty()
            && service
                .change_properties(path, others.clone(), keep_mounts, reporter)
                .is_err()
        {
            one_by_one.splice(0..0, others);
        }
        for change in one_by_one {
            let set = service.change_properties(path, vec![change], keep_mounts, reporter);
            if let Err(failure) = set {
                reporter.warn(failure);
            }
        }
    }

    /// What changes at a dataset.
    fn changes(
        &self,
        head: &Dataset,
        is_new: bool,
    ) -> Result<Vec<(String, PropertyChange)>, Failure> {
        let has_received = !head.is_snapshot() && {
            let directory = head.directory();
            directory.has_received_properties().map_err(unreadable)?
        };
        let before = head.stored_properties().map_err(unreadable)?;
        let mut changes = Vec::new();
        if let Some(received) = &self.received {
            if !has_received {
                changes.push((String::new(), PropertyChange::NoteReceived));
            }
            self.change_received(received, &before, &mut changes);
            if !is_new && !has_received {
                // What is set here was received before the two were told apart.
                let own = before.iter().filter(|one| {
                    one.local.is_some() && is_sent(&one.name) && !self.is_named(&one.name)
                });
                changes.extend(own.map(|one| (one.name.clone(), PropertyChange::RevertToReceived)));
            }
            let keeps = |name: &str| {
                let stored = before.iter().find(|one| one.name == *name);
                stored.is_some_and(|one| one.local.is_some() || one.inherits)
            };
            let hidden = self.excluded.iter().filter(|name| !keeps(name));
            let hidden = hidden.chain(&self.inherited);
            let is_received = |name: &&String| received.iter().any(|(other, _)| other == *name);
            changes.extend(
                hidden
                    .filter(is_received)
                    .map(|name| (name.clone(), PropertyChange::Inherit)),
            );
        }
        let local = stored(&self.local)?.into_iter();
        changes.extend(local.map(|(name, value)| (name, PropertyChange::Set(value))));
        Ok(changes)
    }

    /// What the stream brings anew, and no longer brings.
    fn change_received(
        &self,
        received: &[(String, PropertyValue)],
        before: &[StoredProperty],
        changes: &mut Vec<(String, PropertyChange)>,
    ) {
        for (name, value) in received {
            let stored = before.iter().find(|one| one.name == *name);
            if stored.and_then(|one| one.received.as_ref()) != Some(value) {
                changes.push((name.clone(), PropertyChange::Receive(value.clone())));
            }
        }
        let gone = before.iter().filter(|one| {
            let is_there = received.iter().any(|(name, _)| *name == one.name);
            one.received.is_some() && !is_there && !self.excluded.contains(&one.name)
        });
        changes.extend(gone.map(|one| (one.name.clone(), PropertyChange::ClearReceived)));
    }

    fn is_named(&self, name: &str) -> bool {
        let is_set = self.local.iter().any(|(other, _)| other == name);
        is_set || self.excluded.iter().any(|other| other == name)
    }
}

/// Gives a snapshot the properties that the stream has for it.
pub(super) fn receive_of_snapshot(
    service: &Service,
    snapshot: &Dataset,
    name: &str,
    properties: &[(String, PackageValue)],
    reporter: &mut Reporter<'_>,
) -> Result<(), Failure> {
    let mut wanted = Wanted::default();
    let is_plain = snapshot.stored_properties().map_err(unreadable)?.is_empty();
    if properties.is_empty() && is_plain {
        return Ok(());
    }
    wanted.receive(service, (name, Types::SNAPSHOT), properties, reporter);
    let received = wanted.received.take().unwrap_or_default();
    let before = snapshot.stored_properties().map_err(unreadable)?;
    let mut changes = Vec::new();
    wanted.change_received(&received, &before, &mut changes);
    if changes.is_empty() {
        return Ok(());
    }
    let task = SetProperties {
        name: name.to_owned(),
        changes,
    };
    let set = service.dsl.run(task);
    set.map_err(|error| refused("set properties of", name, &error))
}

/// The property as it is stored, if this is one that a dataset of that kind can have; none if it is not looked at.
fn acceptable(
    service: &Service,
    kind: Types,
    name: &str,
    value: &PackageValue,
) -> Result<Option<PropertyValue>, Failure> {
    let invalid = || Failure::new(FailureKind::Invalid, "invalid property value");
    let stored = match value {
        PackageValue::Number(number) => PropertyValue::Number(*number),
        PackageValue::Text(text) => PropertyValue::Text(text.clone()),
    };
    let travels = match value {
        PackageValue::Number(number) => Value::Number(*number),
        PackageValue::Text(text) => Value::Text(text.clone()),
    };
    if name.contains(':') {
        let is_long = travels
            .text()
            .is_none_or(|text| text.len() >= USER_VALUE_MAX);
        if check_user_property(name).is_err() || is_long {
            return Err(invalid());
        }
        return Ok(Some(stored));
    }
    let Some(row) = find(name) else {
        return Ok(None);
    };
    // What is inside of a file system or volume comes with its data.
    if row.home != Home::Table || row.access != Access::Settable || !row.types.intersects(kind) {
        return Ok(None);
    }
    if !row.accepts(&travels) {
        return Err(invalid());
    }
    let target = Target {
        kind,
        creating: false,
    };
    let one = vec![(name.to_owned(), travels)];
    match rules::check(target, &one, &|needed| service.has(needed)) {
        Ok(()) => Ok(Some(stored)),
        // Only what has a key of its own has a place for it.
        Err(RuleError::NoKey | RuleError::OnlyNew(_) | RuleError::OnSnapshot) => Ok(None),
        Err(error @ (RuleError::Requirement(_) | RuleError::NotYet(_))) => {
            Err(Failure::new(FailureKind::Unsupported, error.to_string()))
        }
        Err(
            error @ (RuleError::Property(_)
            | RuleError::Automatic
            | RuleError::Labels
            | RuleError::UnknownOwner(_)),
        ) => Err(Failure::new(FailureKind::Invalid, error.to_string())),
    }
}

/// The kinds of dataset that a stream is of.
pub(super) const fn types_of(kind: ObjectSetKind) -> Types {
    match kind {
        ObjectSetKind::Volume => Types::VOLUME,
        ObjectSetKind::FileSystem
        | ObjectSetKind::None
        | ObjectSetKind::Meta
        | ObjectSetKind::Other => Types::FILESYSTEM,
    }
}

/// Whether datasets below have the value as well; so it is with what users gave names.
fn inherits(name: &str) -> bool {
    find(name).is_none_or(|row| row.inherits)
}

/// Whether a package has such properties.
fn is_sent(name: &str) -> bool {
    match find_dataset_property(name) {
        Some(PropertyName::Native(row)) => {
            row.access == Access::Settable && row.home == Home::Table
        }
        Some(PropertyName::User(_)) => true,
        Some(PropertyName::Computed(_)) | None => false,
    }
}

/// Whether a property says how much there may be, which holds once all is there.
fn is_limit(name: &str) -> bool {
    QUOTA.is(name) || REFQUOTA.is(name) || RESERVATION.is(name) || REFRESERVATION.is(name)
}
