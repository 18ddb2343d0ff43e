//! One word for one thing: the last table of `docs/glossary.md` says which words are not used.

use crate::run::{TaskError, TaskResult};
use std::path::{Path, PathBuf};

const GLOSSARY: &str = "docs/glossary.md";

/// Where a word stands all the same, and why.
const ALLOWED: [(&str, &str, &str); 1] = [(
    "crates/millpond/src/render/status.rs",
    "in core",
    "what `zpool status -D` of OpenZFS prints",
)];

/// Faults of the sources and pages in the tree.
pub(super) fn check(root: &Path, files: &[PathBuf]) -> TaskResult<Vec<String>> {
    let read = |file: &Path| {
        let path = root.join(file);
        std::fs::read_to_string(&path).map_err(|error| TaskError::File(path, error))
    };
    let unused = unused_words(&read(Path::new(GLOSSARY))?);
    let mut faults = Vec::new();
    if unused.is_empty() {
        faults.push(format!("{GLOSSARY}: its table of words is gone"));
    }
    for file in files {
        let kind = file.extension().and_then(|kind| kind.to_str());
        let name = file.to_string_lossy();
        if matches!(kind, Some("rs" | "md" | "sh")) && name != GLOSSARY && name != file!() {
            faults.extend(faults_of(&name, &read(file)?, &unused));
        }
    }
    Ok(faults)
}

/// The words in the last column of the last table, each as a line of lower-case words between spaces.
fn unused_words(glossary: &str) -> Vec<String> {
    let rows = glossary
        .lines()
        .skip_while(|line| !line.contains("| not |"))
        .take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
    cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(words)
        .collect()
}

/// A text as lower-case words between single spaces: names like `nextThing` and `next_thing` are two words.
fn words(text: &str) -> String {
    let mut found = String::from(" ");
    let mut before = ' ';
    for letter in text.chars() {
        let begins = letter.is_uppercase() && before.is_lowercase();
        if (begins || !letter.is_alphabetic()) && !found.ends_with(' ') {
            found.push(' ');
        }
        if letter.is_alphabetic() {
            found.extend(letter.to_lowercase());
        }
        before = letter;
    }
    if !found.ends_with(' ') {
        found.push(' ');
    }
    found
}

fn faults_of(name: &str, text: &str, unused: &[String]) -> Vec<String> {
    let is_allowed = |word: &str| {
        let mut allowed = ALLOWED.iter();
        allowed.any(|(file, allowed, _)| *file == name && *allowed == word.trim())
    };
    let mut faults = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = words(line);
        for word in unused.iter().filter(|word| line.contains(word.as_str())) {
            if !is_allowed(word) {
                let (number, word) = (number + 1, word.trim());
                faults.push(format!(
                    "{name}:{number}: \"{word}\" has another name in {GLOSSARY}"
                ));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_names_and_in_sentences() {
        let table =
            "| write | for | not |\n|---|---|---|\n| b | c | `old thing`, `relic` |\n\n`other`";
        let unused = unused_words(table);
        assert_eq!(unused, [" old thing ", " relic "]);
        let found = |text: &str| faults_of("a.rs", text, &unused).len();
        assert_eq!(found("let old_thing = OldThing::new(); // an old thing"), 1);
        assert_eq!(found("struct Relic;\nfn of_relic()"), 2);
        assert_eq!(found("fn reliction() { bold_things() }"), 0);
    }
}
