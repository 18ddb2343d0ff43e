//! `millpond man`: manual pages, made from the tables that the parser goes by: one page a program.

use std::fmt::Write;
use std::path::Path;

use admin::{Failure, FailureKind, Types, describe};

use crate::grammar::{Command, Flag, HOST, Invocation, Operands, Program, PropertyTable};
use crate::output::Outcome;

#[cfg(test)]
mod tests;

/// `millpond man`.
pub(super) const COMMAND: Command = Command {
    name: "man",
    aliases: &[],
    summary: "Write the manual pages into a directory.",
    forms: &["directory"],
    flags: &[],
    operands: Operands::exactly(1, "missing directory argument"),
    run: man,
};

/// The section of commands for administrators.
const SECTION: u8 = 8;

/// A program as a page explains it.
struct Page {
    program: &'static Program,
    /// The page's name.
    name: String,
    /// What is typed to run the program.
    typed: String,
}

fn man(call: &Invocation) -> Outcome {
    let directory = Path::new(call.operand(0));
    let pages = pages(call.programs);
    for page in &pages {
        let path = directory.join(format!("{}.{SECTION}", page.name));
        std::fs::write(&path, page.text(&pages)).map_err(|error| {
            let text = format!("cannot write '{}': {error}", path.display());
            Failure::new(FailureKind::Medium, text)
        })?;
    }
    Ok(())
}

/// The pages of programs, by their names.
fn pages(programs: &[&'static Program]) -> Vec<Page> {
    let mut pages: Vec<Page> = programs.iter().map(|program| Page::new(program)).collect();
    pages.sort_by(|one, other| one.name.cmp(&other.name));
    pages
}

/// Text as the formatter must see it: no escapes, no requests, dashes as they are typed.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        if line.starts_with(['.', '\'']) {
            out += "\\&";
        }
        out += &line.replace('\\', "\\e").replace('-', "\\-");
        out.push('\n');
    }
    out
}

impl Page {
    /// Programs other than `millpond` are typed behind its name.
    fn new(program: &'static Program) -> Self {
        let words = match program.name {
            HOST => vec![HOST],
            other => vec![HOST, other],
        };
        Self {
            program,
            name: words.join("-"),
            typed: words.join(" "),
        }
    }

    fn text(&self, all: &[Self]) -> String {
        let (title, version) = (self.name.to_uppercase(), env!("CARGO_PKG_VERSION"));
        let summary = self.program.summary.trim_end_matches('.');
        let mut out = format!(".TH {title} {SECTION} \"\" \"Millpond {version}\"\n");
        let _ = write!(
            out,
            ".SH NAME\n{} \\- {}.SH SYNOPSIS\n.B {}\n.I command\n[arguments]\n.SH DESCRIPTION\n{}",
            self.name,
            plain(summary),
            self.typed,
            plain(&format!(
                "{}\nA command explains itself with \"{} help COMMAND\".",
                self.program.summary, self.typed
            ))
        );
        out += ".SH COMMANDS\n";
        for command in self.program.commands {
            self.command(command, &mut out);
        }
        for table in self.program.properties {
            properties(table, &mut out);
        }
        if !self.program.environment.is_empty() {
            out += ".SH ENVIRONMENT\n";
        }
        for (variable, text) in self.program.environment {
            let _ = write!(out, ".TP\n.B {}{}", plain(variable), plain(text));
        }
        out += ".SH EXIT STATUS\n0: done. 1: refused or failed, and why is on the standard error.\n\
                2: the command line makes no sense.\n.SH SEE ALSO\n";
        let others = all.iter().filter(|page| page.name != self.name);
        let others: Vec<String> = others
            .map(|page| format!(".BR {} ({SECTION})", page.name))
            .collect();
        out += &(others.join(" ,\n") + "\n");
        out
    }

    fn command(&self, command: &Command, out: &mut String) {
        let _ = write!(out, ".SS {}\n.nf\n", command.name);
        for call in command.calls() {
            let _ = write!(out, "{}", plain(&format!("{} {call}", self.typed)));
        }
        let _ = write!(out, ".fi\n.PP\n{}", plain(command.summary));
        if !command.aliases.is_empty() {
            let text = format!("Also called: {}.", command.aliases.join(", "));
            *out += &plain(&text);
        }
        for flag in command.flags {
            let _ = write!(out, ".TP\n.B {}{}", plain(&spelled(flag)), plain(flag.help));
        }
    }
}

/// The section of a table of properties.
fn properties(table: &PropertyTable, out: &mut String) {
    let _ = writeln!(out, ".SH {}", table.title);
    for row in table.rows.iter().filter(|row| row.visible) {
        let mut name = row.name.to_owned();
        if let Some(short) = describe::short_name(row) {
            name += &format!(", {short}");
        }
        let mut facts = vec![format!("Values: {}.", describe::values_of(row))];
        if let Some(default) = describe::default_of(row) {
            facts.push(format!("Default: {default}."));
        }
        facts.push(format!("Who sets it: {}.", describe::access_of(row)));
        if row.types != Types::ALL {
            facts.push(format!("Of {}.", describe::kinds_of(row)));
        }
        facts.extend(describe::notes_of(row));
        let _ = write!(
            out,
            ".TP\n.B {}{}",
            plain(&name),
            plain(&facts.join(" ").replace('`', "\""))
        );
    }
}

/// `-j, --json`, `-o property=value`.
fn spelled(flag: &Flag) -> String {
    let mut out = flag.spelling();
    if let Some(value) = flag.value {
        out += &format!(" {value}");
    }
    out
}
