//! Names of pools, datasets, snapshots, bookmarks and hold tags: what is allowed, and why not.
//!
//! Pure; called by the commands before they ask a daemon, and by the service again, for a request
//! may come from anyone. The texts are those that users of OpenZFS know.

use thiserror::Error;

#[cfg(test)]
mod tests;

/// Full names must stay below this, snapshot part included.
pub(crate) const NAME_LENGTH_MAX: usize = 256;
/// Pool names must stay below this, so that the names of internal datasets still fit.
pub(crate) const POOL_NAME_LENGTH_MAX: usize = 240;
/// How many components a dataset name may have.
pub(crate) const NESTING_MAX: usize = 50;

/// Why a name is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    /// Longer than the limit.
    #[error("name is too long")]
    TooLong,
    /// Begins with a slash.
    #[error("leading slash in name")]
    LeadingSlash,
    /// Ends with a slash.
    #[error("trailing slash in name")]
    TrailingSlash,
    /// Two slashes in a row, or nothing before or after a delimiter.
    #[error("empty component or misplaced '@' or '#' delimiter in name")]
    EmptyComponent,
    /// More than one snapshot or bookmark delimiter.
    #[error("multiple '@' and/or '#' delimiters in name")]
    MultipleDelimiters,
    /// A component is a single dot.
    #[error("self reference, '.' is found in name")]
    SelfReference,
    /// A component is two dots.
    #[error("parent reference, '..' is found in name")]
    ParentReference,
    /// A character outside the allowed set.
    #[error("invalid character '{0}' in name")]
    Character(char),
    /// A character outside the allowed set, in a pool's name.
    #[error("invalid character '{0}' in pool name")]
    PoolCharacter(char),
    /// A pool name begins with something else than a letter.
    #[error("name must begin with a letter")]
    NoLetter,
    /// A pool name that could be taken for a kind of vdev.
    #[error("name is reserved")]
    Reserved,
    /// `@` in a name that must not have one.
    #[error("snapshot delimiter '@' is not expected here")]
    SnapshotDelimiter,
    /// `#` in a name that must not have one.
    #[error("bookmark delimiter '#' is not expected here")]
    BookmarkDelimiter,
    /// No `@` in the name of a snapshot.
    #[error("missing '@' delimiter in snapshot name")]
    NoSnapshotDelimiter,
    /// No `#` in the name of a bookmark.
    #[error("must contain a '#'")]
    NoBookmarkDelimiter,
    /// Too many components.
    #[error("maximum name nesting depth exceeded")]
    TooDeep,
}

/// What a name says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// A file system or volume.
    Dataset,
    /// `dataset@snapshot`.
    Snapshot,
    /// `dataset#bookmark`.
    Bookmark,
}

/// The pool that a dataset, snapshot or bookmark name is in.
#[must_use]
pub fn pool_of(name: &str) -> &str {
    name.split(['/', '@', '#']).next().unwrap_or(name)
}

/// The dataset part of a snapshot's or bookmark's name; a dataset's own name otherwise.
#[must_use]
pub fn dataset_of(name: &str) -> &str {
    name.split(['@', '#']).next().unwrap_or(name)
}

/// The parent of a dataset, or nothing for a pool's root.
#[must_use]
pub fn parent_of(name: &str) -> Option<&str> {
    dataset_of(name).rsplit_once('/').map(|(parent, _)| parent)
}

/// True if `name` is `ancestor` or below it (snapshots and bookmarks included).
#[must_use]
pub fn is_within(name: &str, ancestor: &str) -> bool {
    name.strip_prefix(ancestor)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '@', '#']))
}

/// What the name says it is, whether valid or not.
#[must_use]
pub fn kind_of(name: &str) -> NameKind {
    match name.find(['@', '#']).map(|at| name.as_bytes()[at]) {
        Some(b'@') => NameKind::Snapshot,
        Some(_) => NameKind::Bookmark,
        None => NameKind::Dataset,
    }
}

/// True for the characters that may appear inside a component.
#[must_use]
fn is_allowed(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.' | ':' | ' ')
}

/// Checks the name of any dataset, snapshot or bookmark and says which it is.
pub fn check(name: &str) -> Result<NameKind, NameError> {
    if name.len() >= NAME_LENGTH_MAX {
        return Err(NameError::TooLong);
    }
    if name.starts_with('/') {
        return Err(NameError::LeadingSlash);
    }
    if name.is_empty() {
        return Err(NameError::EmptyComponent);
    }
    if name.ends_with('/') {
        return Err(NameError::TrailingSlash);
    }
    let mut delimiters = name.match_indices(['@', '#']);
    let delimiter = delimiters.next();
    if delimiters.next().is_some() {
        return Err(NameError::MultipleDelimiters);
    }
    let (dataset, kind) = match delimiter {
        None => (name, NameKind::Dataset),
        Some((at, sign)) => {
            check_component(&name[at + 1..])?;
            let kind = if sign == "@" {
                NameKind::Snapshot
            } else {
                NameKind::Bookmark
            };
            (&name[..at], kind)
        }
    };
    for component in dataset.split('/') {
        check_component(component)?;
    }
    if dataset.split('/').count() > NESTING_MAX {
        return Err(NameError::TooDeep);
    }
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(NameError::NoLetter);
    }
    Ok(kind)
}

fn check_component(component: &str) -> Result<(), NameError> {
    match component {
        "" => return Err(NameError::EmptyComponent),
        "." => return Err(NameError::SelfReference),
        ".." => return Err(NameError::ParentReference),
        _ => {}
    }
    if component.contains('/') {
        // Only reached for what follows a delimiter.
        return Err(NameError::Character('/'));
    }
    match component.chars().find(|&c| !is_allowed(c)) {
        Some(bad) => Err(NameError::Character(bad)),
        None => Ok(()),
    }
}

/// Checks the name of a file system or volume.
pub fn check_dataset(name: &str) -> Result<(), NameError> {
    match check(name)? {
        NameKind::Dataset => Ok(()),
        NameKind::Snapshot => Err(NameError::SnapshotDelimiter),
        NameKind::Bookmark => Err(NameError::BookmarkDelimiter),
    }
}

/// Checks the full name of a snapshot.
pub fn check_snapshot(name: &str) -> Result<(), NameError> {
    match check(name)? {
        NameKind::Snapshot => Ok(()),
        NameKind::Bookmark => Err(NameError::BookmarkDelimiter),
        NameKind::Dataset => Err(NameError::NoSnapshotDelimiter),
    }
}

/// Checks the full name of a bookmark.
pub fn check_bookmark(name: &str) -> Result<(), NameError> {
    match check(name)? {
        NameKind::Bookmark => Ok(()),
        NameKind::Snapshot => Err(NameError::SnapshotDelimiter),
        NameKind::Dataset => Err(NameError::NoBookmarkDelimiter),
    }
}

/// Checks the name of a new pool.
pub fn check_pool(name: &str) -> Result<(), NameError> {
    if name.len() >= POOL_NAME_LENGTH_MAX {
        return Err(NameError::TooLong);
    }
    if let Some(bad) = name.chars().find(|&c| !is_allowed(c)) {
        return Err(NameError::PoolCharacter(bad));
    }
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(NameError::NoLetter);
    }
    if dsl::name::is_reserved_pool(name) {
        return Err(NameError::Reserved);
    }
    Ok(())
}
