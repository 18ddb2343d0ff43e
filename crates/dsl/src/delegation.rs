//! Delegation: who beside the administrator may do what with a dataset.
//!
//! A directory's grants are a ZAP of keys `<who><scope>$<id>`, each leading to a ZAP of permissions.
//! who: `u` a user, `g` a group, `e` everyone, `c` whoever creates a dataset below, `s` a named set;
//! in upper case the permissions are names of sets. scope: `l` here, `d` below, `-` for `c` and `s`.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::ObjectId;
use dmu::Tx;
use format::{ObjectType, version};

use crate::actor::Actor;
use crate::directory::Directory;
use crate::error::{DslError, Result};
use crate::layer::Dsl;
use crate::mos::name_of;
use crate::services::HistoryEvent;
use crate::task::{Task, TaskContext};

/// What one key of a directory grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The key: `<who><scope>$<id>`.
    pub key: String,
    /// The permissions, or names of sets, in the order of their names.
    pub permissions: Vec<String>,
}

/// The keys of what is granted to somebody with some scope: `ul$7`, `gl$8`, `el$`.
fn keys_of(actor: &Actor, scope: char) -> Vec<String> {
    let mut found = vec![format!("u{scope}${}", actor.user), format!("e{scope}$")];
    found.extend(actor.groups.iter().map(|group| format!("g{scope}${group}")));
    found
}

/// The key that names sets instead of permissions.
fn of_sets(key: &str) -> String {
    let mut letters = key.chars();
    let who = letters.next().map(|letter| letter.to_ascii_uppercase());
    who.into_iter().chain(letters).collect()
}

impl Directory {
    /// What is granted at this directory, in the order of the keys.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn grants(&self) -> Result<Vec<Grant>> {
        let table = self.phys()?.delegation;
        if table.0 == 0 {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for entry in self.dsl.mos.zap(table)?.entries()? {
            let permissions = self.dsl.mos.zap(ObjectId(entry.value))?.entries()?;
            let mut permissions: Vec<String> = permissions
                .iter()
                .map(|entry| name_of(&entry.name))
                .collect();
            permissions.sort();
            found.push(Grant {
                key: name_of(&entry.name),
                permissions,
            });
        }
        found.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(found)
    }

    /// Whether `actor` has a permission here: granted here, or above for what is below.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn permits(self: &Arc<Self>, actor: &Actor, permission: &str) -> Result<bool> {
        if actor.privileged {
            return Ok(true);
        }
        let mut sets = BTreeSet::new();
        let mut resolved = BTreeSet::new();
        let mut scope = 'l';
        let mut current = Some(Arc::clone(self));
        while let Some(directory) = current {
            let grants = directory.grants()?;
            let of = |key: &str| grants.iter().find(|grant| grant.key == key);
            for key in keys_of(actor, scope) {
                if of(&key).is_some_and(|grant| grant.permissions.iter().any(|p| p == permission)) {
                    return Ok(true);
                }
                if let Some(grant) = of(&of_sets(&key)) {
                    sets.extend(grant.permissions.iter().cloned());
                }
            }
            // The nearest definition of a set counts. A set may name others.
            loop {
                let found = sets.iter().find(|set| {
                    let defined = |who: &str| of(&format!("{who}-${set}")).is_some();
                    !resolved.contains(*set) && (defined("s") || defined("S"))
                });
                let Some(set) = found.cloned() else { break };
                if of(&format!("s-${set}"))
                    .is_some_and(|grant| grant.permissions.iter().any(|p| p == permission))
                {
                    return Ok(true);
                }
                if let Some(grant) = of(&format!("S-${set}")) {
                    sets.extend(grant.permissions.iter().cloned());
                }
                resolved.insert(set);
            }
            scope = 'd';
            current = directory.parent();
        }
        Ok(false)
    }
}

/// Grants permissions, or takes them back.
pub struct ChangeGrants {
    /// The dataset.
    pub path: String,
    /// Grant; else take back.
    pub grant: bool,
    /// Keys and what is granted or taken back; nothing: all that the key has.
    pub changes: Vec<Grant>,
}

impl Task for ChangeGrants {
    type Output = ();

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        const LENGTH_MAX: usize = 255;
        context.dsl.require_version(version::DELEGATION)?;
        context.dsl.head(&self.path)?;
        for change in &self.changes {
            let names = change.permissions.iter().chain([&change.key]);
            for name in names {
                if name.is_empty() || name.len() > LENGTH_MAX {
                    return Err(DslError::BadValue {
                        name: self.path.clone(),
                        property: change.key.clone(),
                        value: name.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let head = context.dsl.head(&self.path)?;
        let directory = head.directory();
        for change in &self.changes {
            let record = |name: &str, text: &str| {
                context.record(&HistoryEvent {
                    name,
                    dataset: &self.path,
                    dataset_id: head.id(),
                    text,
                })
            };
            if self.grant {
                add(context.dsl, context.tx, &directory, change)?;
            } else {
                remove(context.dsl, context.tx, &directory, change)?;
            }
            if change.permissions.is_empty() && !self.grant {
                record("permission who remove", &change.key)?;
            }
            for permission in &change.permissions {
                let verb = if self.grant { "update" } else { "remove" };
                let text = format!("{} {permission}", change.key);
                record(&format!("permission {verb}"), &text)?;
            }
        }
        Ok(())
    }
}

fn add(dsl: &Dsl, tx: &Tx, directory: &Directory, grant: &Grant) -> Result<()> {
    let kind = ObjectType::DSL_PERMISSIONS;
    let table = match directory.phys()?.delegation {
        ObjectId(0) => {
            let table = dsl.mos.new_zap(tx, kind, 0)?;
            directory.change(tx, |phys| phys.delegation = table.object().id())?;
            table
        }
        table => dsl.mos.zap(table)?,
    };
    let key = grant.key.as_bytes();
    let permissions = if let Some(id) = table.lookup(key)? {
        dsl.mos.zap(ObjectId(id))?
    } else {
        let permissions = dsl.mos.new_zap(tx, kind, 0)?;
        table.add(tx, key, permissions.object().id().0)?;
        permissions
    };
    for permission in &grant.permissions {
        permissions.update(tx, permission.as_bytes(), 0)?;
    }
    Ok(())
}

fn remove(dsl: &Dsl, tx: &Tx, directory: &Directory, change: &Grant) -> Result<()> {
    let table = directory.phys()?.delegation;
    if table.0 == 0 {
        return Ok(());
    }
    let table = dsl.mos.zap(table)?;
    let Some(id) = table.lookup(change.key.as_bytes())? else {
        return Ok(());
    };
    let permissions = dsl.mos.zap(ObjectId(id))?;
    for permission in &change.permissions {
        if permissions.lookup(permission.as_bytes())?.is_some() {
            permissions.remove(tx, permission.as_bytes())?;
        }
    }
    if change.permissions.is_empty() || permissions.is_empty()? {
        table.remove(tx, change.key.as_bytes())?;
        dsl.mos.free(tx, ObjectId(id))?;
    }
    Ok(())
}

/// What the directories above grant to whoever creates something below them becomes `creator`'s,
/// here.
pub(crate) fn grant_to_creator(
    dsl: &Dsl,
    tx: &Tx,
    directory: &Arc<Directory>,
    creator: u32,
) -> Result<()> {
    let mut current = directory.parent();
    while let Some(above) = current {
        for grant in above.grants()? {
            let who = match grant.key.as_str() {
                "c-$" => 'u',
                "C-$" => 'U',
                _ => continue,
            };
            let key = format!("{who}l${creator}");
            add(dsl, tx, directory, &Grant { key, ..grant })?;
        }
        current = above.parent();
    }
    Ok(())
}

/// Frees a directory's grants.
pub(crate) fn free_grants(dsl: &Dsl, tx: &Tx, table: ObjectId) -> Result<()> {
    if table.0 == 0 {
        return Ok(());
    }
    for entry in dsl.mos.zap(table)?.entries()? {
        dsl.mos.free(tx, ObjectId(entry.value))?;
    }
    dsl.mos.free(tx, table)
}
