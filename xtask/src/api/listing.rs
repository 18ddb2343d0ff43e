//! From source, as `cargo fmt` leaves it, to lines.

use std::collections::BTreeSet;

/// The names that `pub use library::{…};` exports.
pub(super) fn exported(lib: &str) -> BTreeSet<String> {
    let list = lib
        .split_once("pub use library::{")
        .map_or("", |(_, rest)| {
            rest.split_once('}').map_or("", |(list, _)| list)
        });
    let names = list.split(',').map(str::trim);
    let names = names.filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// What these sources say of the exported names. A name that no source declares is a line of its own, so that it is
/// seen.
pub(super) fn lines(names: &BTreeSet<String>, sources: &[String]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut declared = BTreeSet::new();
    for source in sources {
        for item in items(source) {
            list(&item, names, &mut found, &mut declared);
        }
    }
    for name in names.difference(&declared) {
        found.insert(format!("unknown {name}"));
    }
    found
}

/// Something at the outermost level of a file.
#[derive(Default)]
struct Item<'a> {
    attributes: Vec<String>,
    /// Up to its body or end, on one line.
    header: String,
    body: Vec<&'a str>,
}

fn is_noise(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with("//")
}

fn items(source: &str) -> Vec<Item<'_>> {
    let mut found = Vec::new();
    let mut item = Item::default();
    let mut lines = source.lines().filter(|line| !is_noise(line));
    while let Some(line) = lines.next() {
        if line.starts_with("#[") {
            let mut attribute = line.to_owned();
            while !attribute.ends_with(']') {
                let Some(more) = lines.next() else { break };
                push(&mut attribute, more);
            }
            item.attributes.push(attribute);
            continue;
        }
        push(&mut item.header, line);
        if line.ends_with('{') {
            item.body
                .extend(lines.by_ref().take_while(|line| !line.starts_with('}')));
        } else if !line.ends_with([';', '}']) {
            continue;
        }
        found.push(std::mem::take(&mut item));
    }
    found
}

/// Puts a line behind others as if it had not been broken.
fn push(text: &mut String, line: &str) {
    let line = line.trim();
    let tight = text.is_empty() || text.ends_with(['(', '<']) || line.starts_with([')', '>', '.']);
    if line.starts_with([')', '>']) && text.ends_with(',') {
        text.pop();
    }
    if !tight {
        text.push(' ');
    }
    text.push_str(line);
}

/// A name at the beginning of a text.
fn name_in(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    &text[..end.unwrap_or(text.len())]
}

fn list(
    item: &Item<'_>,
    names: &BTreeSet<String>,
    found: &mut BTreeSet<String>,
    declared: &mut BTreeSet<String>,
) {
    let header = item.header.trim_end_matches(['{', '}', ';']).trim_end();
    if let Some(implemented) = header.strip_prefix("impl") {
        implementation(implemented, &item.body, names, found);
        return;
    }
    let Some(declaration) = header.strip_prefix("pub ") else {
        return;
    };
    let (kind, rest) = declaration.split_once(' ').unwrap_or((declaration, ""));
    let name = name_in(rest);
    if !names.contains(name) {
        return;
    }
    declared.insert(name.to_owned());
    let is_closed = item
        .attributes
        .iter()
        .any(|text| text == "#[non_exhaustive]");
    match kind {
        "struct" => {
            let own = item.body.iter().filter(|line| indent(line) == 4);
            let is_private = |line: &&&str| {
                let line = line.trim_start();
                !line.starts_with("pub ") && !line.starts_with(['#', ')', '}'])
            };
            // Nobody outside can put together what has a private part.
            let closed = is_closed || own.clone().any(|line| is_private(&line));
            found.insert(format!("struct {name}{}", closed_word(closed)));
            for line in own {
                if let Some(field) = line.trim_start().strip_prefix("pub ") {
                    found.insert(format!("field {name}::{}", field.trim_end_matches(',')));
                }
            }
        }
        "enum" => {
            found.insert(format!("enum {name}{}", closed_word(is_closed)));
            for variant in members(&item.body) {
                found.insert(format!("variant {name}::{}", variant.trim_end_matches(',')));
            }
        }
        _ => {
            found.insert(declaration.to_owned());
        }
    }
    for attribute in &item.attributes {
        let derived = attribute.strip_prefix("#[derive(");
        let derived = derived.and_then(|list| list.strip_suffix(")]"));
        for one in derived.into_iter().flat_map(|list| list.split(", ")) {
            found.insert(format!("impl {one} for {name}"));
        }
    }
}

const fn closed_word(closed: bool) -> &'static str {
    if closed { " (non_exhaustive)" } else { "" }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The variants of an enum, each on one line, without attributes.
fn members(body: &[&str]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in body {
        let trimmed = line.trim_start();
        if trimmed.starts_with('#') {
            continue;
        }
        match (indent(line), found.last_mut()) {
            (4, last) if !trimmed.starts_with(['}', ')']) => {
                let _before = last;
                found.push(trimmed.to_owned());
            }
            (_, Some(last)) => push(last, line),
            (_, None) => {}
        }
    }
    found
}

/// Public functions of a type, or that it has a trait.
fn implementation(
    header: &str,
    body: &[&str],
    names: &BTreeSet<String>,
    found: &mut BTreeSet<String>,
) {
    // `<'a> Trait for Type<'a>`: the generics go.
    let header = match header.strip_prefix('<') {
        Some(generic) => generic.split_once("> ").map_or("", |(_, rest)| rest),
        None => header.trim_start(),
    };
    if let Some((implemented, owner)) = header.split_once(" for ") {
        let foreign = owner.contains("::") || !names.contains(name_in(owner));
        let of_ours = names
            .iter()
            .any(|name| implemented.contains(&format!("<{name}>")));
        if !foreign || of_ours {
            found.insert(format!("impl {implemented} for {owner}"));
        }
        return;
    }
    let owner = name_in(header);
    if !names.contains(owner) {
        return;
    }
    let mut function = String::new();
    for line in body {
        if indent(line) == 4 && line.trim_start().starts_with("pub ") {
            function.clear();
        } else if function.is_empty() {
            continue;
        }
        push(&mut function, line);
        if function.ends_with(['{', ';']) || function.ends_with(" {}") {
            let text = function.trim_end_matches(['{', '}', ';']).trim_end();
            // That a function changes what it was given is its own matter.
            let text = text
                .trim_start_matches("pub ")
                .replace("(mut self", "(self");
            found.insert(format!("{owner}: {text}"));
            function.clear();
        }
    }
}
