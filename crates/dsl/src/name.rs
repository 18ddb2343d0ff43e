//! Which names datasets, snapshots and bookmarks may have.

use std::fmt;

/// The longest name, bytes, with its snapshot or bookmark part.
pub const NAME_MAX: usize = 255;
/// The most levels of a dataset name.
pub const DEPTH_MAX: usize = 50;

/// How no pool's name begins: it could be taken for a kind of vdev.
pub const RESERVED_POOL_PREFIXES: [&str; 4] = ["mirror", "raidz", "draid", "spare"];
/// What no pool is called.
pub const RESERVED_POOL_NAMES: [&str; 1] = ["log"];

/// Why a name is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameProblem {
    /// It is longer than [`NAME_MAX`].
    TooLong,
    /// It starts with a slash.
    LeadingSlash,
    /// A component is empty.
    EmptyComponent,
    /// It ends with a slash.
    TrailingSlash,
    /// A character that no name may hold.
    BadCharacter(char),
    /// More than one `@` or `#`.
    MultipleDelimiters,
    /// The pool's name does not begin with a letter.
    NoLetter,
    /// A word that a pool may not be called.
    Reserved,
    /// `.` or `..` as a component.
    DotComponent,
    /// More than [`DEPTH_MAX`] levels.
    TooDeep,
    /// A `@` or `#` is missing.
    NoDelimiter,
    /// A `@` or `#` that has no place here.
    UnexpectedDelimiter,
}

impl fmt::Display for NameProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "name is too long"),
            Self::LeadingSlash => write!(f, "leading slash in name"),
            Self::EmptyComponent => write!(f, "empty component or misplaced '@' or '#' in name"),
            Self::TrailingSlash => write!(f, "trailing slash in name"),
            Self::BadCharacter(character) => {
                write!(f, "invalid character '{character}' in name")
            }
            Self::MultipleDelimiters => write!(f, "multiple '@' and/or '#' delimiters in name"),
            Self::NoLetter => write!(f, "pool doesn't begin with a letter"),
            Self::Reserved => write!(f, "name is reserved"),
            Self::DotComponent => write!(f, "self reference, '.' or '..', is found in name"),
            Self::TooDeep => write!(f, "name has too many levels"),
            Self::NoDelimiter => write!(f, "missing '@' or '#' delimiter in name"),
            Self::UnexpectedDelimiter => write!(f, "snapshot delimiter '@' or '#' is not expected"),
        }
    }
}

/// What a full name names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// A head: `pool/a/b`.
    Head {
        /// The dataset.
        dataset: &'a str,
    },
    /// A snapshot: `pool/a@s`.
    Snapshot {
        /// The dataset.
        dataset: &'a str,
        /// The snapshot.
        snapshot: &'a str,
    },
    /// A bookmark: `pool/a#b`.
    Bookmark {
        /// The dataset.
        dataset: &'a str,
        /// The bookmark.
        bookmark: &'a str,
    },
}

/// Takes a full name apart.
///
/// # Errors
/// What is wrong with it.
pub fn parse(name: &str) -> Result<Target<'_>, NameProblem> {
    if name.len() > NAME_MAX {
        return Err(NameProblem::TooLong);
    }
    let Some(at) = name.find(['@', '#']) else {
        check_path(name)?;
        return Ok(Target::Head { dataset: name });
    };
    let (dataset, rest) = name.split_at(at);
    let (delimiter, short) = rest.split_at(1);
    if short.contains(['@', '#']) {
        return Err(NameProblem::MultipleDelimiters);
    }
    check_path(dataset)?;
    check_component(short)?;
    if short.contains('/') {
        return Err(NameProblem::BadCharacter('/'));
    }
    Ok(if delimiter == "@" {
        Target::Snapshot {
            dataset,
            snapshot: short,
        }
    } else {
        Target::Bookmark {
            dataset,
            bookmark: short,
        }
    })
}

/// Checks the path of a head: `pool/a/b`.
///
/// # Errors
/// What is wrong with it.
pub fn check_path(path: &str) -> Result<(), NameProblem> {
    if path.len() > NAME_MAX {
        return Err(NameProblem::TooLong);
    }
    if path.starts_with('/') {
        return Err(NameProblem::LeadingSlash);
    }
    if path.len() > 1 && path.ends_with('/') {
        return Err(NameProblem::TrailingSlash);
    }
    let mut depth = 0;
    for component in path.split('/') {
        check_component(component)?;
        depth += 1;
    }
    if depth > DEPTH_MAX {
        return Err(NameProblem::TooDeep);
    }
    Ok(())
}

/// Checks one component, or the short name of a snapshot or bookmark.
///
/// # Errors
/// What is wrong with it.
pub fn check_component(component: &str) -> Result<(), NameProblem> {
    if component.is_empty() {
        return Err(NameProblem::EmptyComponent);
    }
    if component.len() > NAME_MAX {
        return Err(NameProblem::TooLong);
    }
    let allowed = |character: char| {
        character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.' | ':' | ' ')
    };
    if let Some(bad) = component.chars().find(|character| !allowed(*character)) {
        return Err(NameProblem::BadCharacter(bad));
    }
    if matches!(component, "." | "..") {
        return Err(NameProblem::DotComponent);
    }
    Ok(())
}

/// Checks the name of a pool.
///
/// # Errors
/// What is wrong with it.
pub fn check_pool(name: &str) -> Result<(), NameProblem> {
    /// Names of hidden datasets and two levels of `/` more must still fit.
    const POOL_NAME_MAX: usize = 239;
    if name.len() > POOL_NAME_MAX {
        return Err(NameProblem::TooLong);
    }
    if !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return Err(NameProblem::NoLetter);
    }
    check_component(name)?;
    if is_reserved_pool(name) {
        return Err(NameProblem::Reserved);
    }
    Ok(())
}

/// Whether a pool's name is one of those, or begins as one of those, that words of `zpool` commands need.
#[must_use]
pub fn is_reserved_pool(name: &str) -> bool {
    RESERVED_POOL_NAMES.contains(&name)
        || RESERVED_POOL_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// Whether a directory or snapshot is hidden from listings.
#[must_use]
pub fn is_hidden(component: &str) -> bool {
    component.starts_with(['$', '%'])
}

#[cfg(test)]
mod tests;
