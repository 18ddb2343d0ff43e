//! Which snapshots the words of `destroy` name: `a`, `a%b`, `%b`, `a%`, `%`.

use thiserror::Error;

#[cfg(test)]
mod tests;

/// Why the words make no sense.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum SpecError {
    /// An end of a range does not exist.
    #[error("could not find any snapshots to destroy; check snapshot names.")]
    NoEnd(String),
    /// A range that runs backwards.
    #[error("invalid range: '{0}' is not older than '{1}'")]
    Backwards(String, String),
    /// An empty word.
    #[error("empty snapshot name")]
    Empty,
}

/// The snapshots that the words name, oldest first; a single name that does not exist is passed
/// over (the caller complains if nothing is left). `all` is ordered by age.
pub(crate) fn select(all: &[String], specs: &[String]) -> Result<Vec<String>, SpecError> {
    let mut chosen = vec![false; all.len()];
    let place = |name: &str| all.iter().position(|snapshot| snapshot == name);
    for spec in specs {
        let Some((first, last)) = spec.split_once('%') else {
            if spec.is_empty() {
                return Err(SpecError::Empty);
            }
            if let Some(at) = place(spec) {
                chosen[at] = true;
            }
            continue;
        };
        let end = |name: &str| place(name).ok_or_else(|| SpecError::NoEnd(name.to_owned()));
        let from = if first.is_empty() { 0 } else { end(first)? };
        let to = if last.is_empty() {
            all.len()
        } else {
            end(last)? + 1
        };
        if from >= to && !all.is_empty() {
            return Err(SpecError::Backwards(first.to_owned(), last.to_owned()));
        }
        chosen[from..to].fill(true);
    }
    Ok(all
        .iter()
        .zip(chosen)
        .filter(|(_, chosen)| *chosen)
        .map(|(name, _)| name.clone())
        .collect())
}
