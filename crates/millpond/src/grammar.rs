//! Command lines: one table of commands and flags drives parser, usage texts and completions.
//!
//! The grammar is that of the classic tools: single-letter flags may be bundled (`-Hp`), a value
//! may be attached or follow (`-o a=b`, `-oa=b`), operands and flags mix, `--` ends the flags.
//! Parsing is pure; nothing is printed here.

use admin::rows::Row;
use thiserror::Error;

mod completion;
mod meant;
#[cfg(test)]
mod tests;

pub(crate) use completion::Shell;
pub(crate) use meant::meant;

/// A flag of a command.
#[derive(Debug)]
pub(crate) struct Flag {
    /// The letter, or the word of a flag that has only a long form.
    pub(crate) key: &'static str,
    /// A long form besides the letter.
    pub(crate) long: Option<&'static str>,
    /// What stands for its value in usage texts; none: it has no value.
    pub(crate) value: Option<&'static str>,
    /// What it does.
    pub(crate) help: &'static str,
}

/// A flag without a value.
pub(crate) const fn switch(key: &'static str, help: &'static str) -> Flag {
    Flag {
        key,
        long: None,
        value: None,
        help,
    }
}

/// A flag with a value.
pub(crate) const fn option(key: &'static str, value: &'static str, help: &'static str) -> Flag {
    Flag {
        key,
        long: None,
        value: Some(value),
        help,
    }
}

impl Flag {
    /// The same with a long form.
    pub(crate) const fn or(self, long: &'static str) -> Self {
        Self {
            long: Some(long),
            ..self
        }
    }

    fn letter(&self) -> Option<char> {
        let mut letters = self.key.chars();
        letters.next().filter(|_| letters.next().is_none())
    }

    /// How it is typed, without a value: `-j, --json`, `--size`.
    pub(crate) fn spelling(&self) -> String {
        let mut out = match self.letter() {
            Some(letter) => format!("-{letter}"),
            None => format!("--{}", self.key),
        };
        if let Some(long) = self.long {
            out += &format!(", --{long}");
        }
        out
    }

    /// Whether a form writes the flag itself: `-a`, `[-npw]`, `--socket path`.
    fn is_named_in(&self, form: &str) -> bool {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let mut words = form.split(|c| !is_part(c));
        words.any(
            |word| match (word.strip_prefix("--"), word.strip_prefix('-')) {
                (Some(word), _) => self.answers_to_word(word),
                (None, Some(letters)) => self.letter().is_some_and(|own| letters.contains(own)),
                (None, None) => false,
            },
        )
    }

    fn answers_to_word(&self, word: &str) -> bool {
        self.long == Some(word) || (self.letter().is_none() && self.key == word)
    }
}

/// How many operands a command takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operands {
    /// At least.
    pub(crate) min: usize,
    /// At most.
    pub(crate) max: usize,
    /// The message when there are too few.
    pub(crate) missing: &'static str,
}

impl Operands {
    /// No operand.
    pub(crate) const NONE: Self = Self {
        min: 0,
        max: 0,
        missing: "",
    };
    /// As many as one likes.
    pub(crate) const ANY: Self = Self {
        min: 0,
        max: usize::MAX,
        missing: "",
    };

    /// At least so many.
    pub(crate) const fn at_least(min: usize, missing: &'static str) -> Self {
        Self {
            min,
            max: usize::MAX,
            missing,
        }
    }

    /// Exactly so many.
    pub(crate) const fn exactly(count: usize, missing: &'static str) -> Self {
        Self {
            min: count,
            max: count,
            missing,
        }
    }

    /// Between the two.
    pub(crate) const fn between(min: usize, max: usize, missing: &'static str) -> Self {
        Self { min, max, missing }
    }
}

/// A command of a program.
#[derive(Debug)]
pub(crate) struct Command {
    /// Its name.
    pub(crate) name: &'static str,
    /// Other names.
    pub(crate) aliases: &'static [&'static str],
    /// What it does, in a line.
    pub(crate) summary: &'static str,
    /// How its operands are written; one usage line each.
    pub(crate) forms: &'static [&'static str],
    /// Its flags.
    pub(crate) flags: &'static [Flag],
    /// How many operands it takes.
    pub(crate) operands: Operands,
    /// What runs it.
    pub(crate) run: fn(&Invocation) -> crate::output::Outcome,
}

/// The program whose first word may be another program's name.
pub(crate) const HOST: &str = "millpond";

/// A program: `zpool`, `zfs` or `millpond`.
#[derive(Debug)]
pub(crate) struct Program {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it is for.
    pub(crate) summary: &'static str,
    /// Its commands.
    pub(crate) commands: &'static [Command],
    /// Programs whose names may stand in the place of a command's.
    pub(crate) others: &'static [&'static Program],
    /// Commands of OpenZFS that are not there yet, and what there is to say about each.
    pub(crate) absent: &'static [(&'static str, &'static str)],
    /// The tables of the properties that its commands name: of what, and the rows.
    pub(crate) properties: &'static [PropertyTable],
    /// The variables that its commands go by, and what each is for.
    pub(crate) environment: &'static [(&'static str, &'static str)],
}

/// Properties of one kind of thing.
#[derive(Debug)]
pub(crate) struct PropertyTable {
    /// Of what.
    pub(crate) title: &'static str,
    /// The rows.
    pub(crate) rows: &'static [&'static Row],
}

/// Why a command line is refused; the exit status is 2.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum GrammarError {
    /// Nothing but the program's name.
    #[error("missing command")]
    NoCommand,
    /// No such command.
    #[error("unrecognized command '{0}'")]
    NoSuchCommand(String),
    /// No such command, but one that is typed nearly so.
    #[error("unrecognized command '{0}'; did you mean '{1}'?")]
    Mistyped(String, &'static str),
    /// A command of OpenZFS that does not exist here.
    #[error("'{0} {1}' is not there yet: {2}")]
    Absent(&'static str, &'static str, &'static str),
    /// No such flag.
    #[error("invalid option '{0}'")]
    NoSuchFlag(String),
    /// A flag without the value it needs.
    #[error("missing argument for '{0}' option")]
    NoValue(String),
    /// A flag with a value it does not take.
    #[error("option '{0}' takes no argument")]
    UnwantedValue(String),
    /// Too few operands.
    #[error("{0}")]
    TooFew(&'static str),
    /// Too many operands.
    #[error("too many arguments")]
    TooMany,
}

/// A command line that was understood.
#[derive(Debug, Default)]
pub(crate) struct Invocation {
    /// The line as it was typed, for the pool's history.
    pub(crate) line: String,
    /// All programs, for the commands that describe them.
    pub(crate) programs: &'static [&'static Program],
    flags: Vec<(&'static str, Option<String>)>,
    operands: Vec<String>,
}

impl Invocation {
    /// True if the flag was given.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.flags.iter().any(|(flag, _)| *flag == key)
    }

    /// The last value of a flag.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        let last = self.flags.iter().rev().find(|(flag, _)| *flag == key);
        last.and_then(|(_, value)| value.as_deref())
    }

    /// All values of a flag, in order.
    pub(crate) fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.flags
            .iter()
            .filter(move |(flag, _)| *flag == key)
            .filter_map(|(_, value)| value.as_deref())
    }

    /// All flags with their values, in order.
    pub(crate) fn flags(&self) -> impl Iterator<Item = (&'static str, Option<&str>)> {
        self.flags
            .iter()
            .map(|(flag, value)| (*flag, value.as_deref()))
    }

    /// The operands.
    pub(crate) fn operands(&self) -> &[String] {
        &self.operands
    }

    /// The operand at a place that the table guarantees, or an empty text.
    pub(crate) fn operand(&self, index: usize) -> &str {
        self.operands.get(index).map_or("", String::as_str)
    }
}

/// What a command line asks for.
pub(crate) enum Parsed {
    /// Run a command.
    Run(&'static Command, Invocation),
    /// Explain a command.
    Help(&'static Command),
    /// Explain the program.
    Overview,
    /// Print the version.
    Version,
}

impl Program {
    /// Finds a command by its name or another name.
    pub(crate) fn command(&self, name: &str) -> Option<&'static Command> {
        self.commands
            .iter()
            .find(|c| c.name == name || c.aliases.contains(&name))
    }

    /// What is to be said of a command that does not exist.
    fn unknown(&self, name: &str) -> GrammarError {
        if let Some((absent, note)) = self.absent.iter().find(|(absent, _)| *absent == name) {
            return GrammarError::Absent(self.name, absent, note);
        }
        let names = self.commands.iter().flat_map(|command| {
            let others = command.aliases.iter().copied();
            others.chain([command.name])
        });
        match meant(name, names) {
            Some(meant) => GrammarError::Mistyped(name.to_owned(), meant),
            None => GrammarError::NoSuchCommand(name.to_owned()),
        }
    }

    /// Understands the arguments after the program's name.
    pub(crate) fn parse(
        &self,
        arguments: &[String],
    ) -> Result<Parsed, (GrammarError, Option<&'static Command>)> {
        let Some(name) = arguments.first() else {
            return Err((GrammarError::NoCommand, None));
        };
        match name.as_str() {
            "-?" | "--help" | "-h" => return Ok(Parsed::Overview),
            "--version" | "-V" => return Ok(Parsed::Version),
            "help" => {
                return match arguments.get(1) {
                    None => Ok(Parsed::Overview),
                    Some(topic) => self
                        .command(topic)
                        .map(Parsed::Help)
                        .ok_or_else(|| (self.unknown(topic), None)),
                };
            }
            _ => {}
        }
        let command = self
            .command(name)
            .ok_or_else(|| (self.unknown(name), None))?;
        if arguments[1..].iter().any(|a| a == "-?" || a == "--help") {
            return Ok(Parsed::Help(command));
        }
        let mut invocation = command
            .parse(&arguments[1..])
            .map_err(|error| (error, Some(command)))?;
        invocation.line = format!("{} {}", self.name, arguments.join(" "));
        Ok(Parsed::Run(command, invocation))
    }
}

impl Command {
    /// Understands the arguments after the command's name.
    pub(crate) fn parse(&self, arguments: &[String]) -> Result<Invocation, GrammarError> {
        let mut found = Invocation::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            if argument == "--" {
                found.operands.extend(rest.by_ref().cloned());
            } else if let Some(word) = argument.strip_prefix("--") {
                self.long_flag(word, &mut rest, &mut found)?;
            } else if argument.len() > 1 && argument.starts_with('-') {
                self.letters(&argument[1..], &mut rest, &mut found)?;
            } else {
                found.operands.push(argument.clone());
            }
        }
        let count = found.operands.len();
        if count < self.operands.min {
            return Err(GrammarError::TooFew(self.operands.missing));
        }
        if count > self.operands.max {
            return Err(GrammarError::TooMany);
        }
        Ok(found)
    }

    fn long_flag<'a>(
        &self,
        word: &str,
        rest: &mut impl Iterator<Item = &'a String>,
        found: &mut Invocation,
    ) -> Result<(), GrammarError> {
        let (word, attached) = match word.split_once('=') {
            Some((word, value)) => (word, Some(value.to_owned())),
            None => (word, None),
        };
        let flag = self
            .flags
            .iter()
            .find(|flag| flag.answers_to_word(word))
            .ok_or_else(|| GrammarError::NoSuchFlag(format!("--{word}")))?;
        let value = match (flag.value, attached) {
            (Some(_), Some(value)) => Some(value),
            (Some(_), None) => {
                let next = rest.next();
                Some(
                    next.ok_or_else(|| GrammarError::NoValue(word.to_owned()))?
                        .clone(),
                )
            }
            (None, None) => None,
            (None, Some(_)) => return Err(GrammarError::UnwantedValue(word.to_owned())),
        };
        found.flags.push((flag.key, value));
        Ok(())
    }

    fn letters<'a>(
        &self,
        letters: &str,
        rest: &mut impl Iterator<Item = &'a String>,
        found: &mut Invocation,
    ) -> Result<(), GrammarError> {
        for (at, letter) in letters.char_indices() {
            let flag = self
                .flags
                .iter()
                .find(|flag| flag.letter() == Some(letter))
                .ok_or_else(|| GrammarError::NoSuchFlag(letter.to_string()))?;
            if flag.value.is_none() {
                found.flags.push((flag.key, None));
                continue;
            }
            let attached = &letters[at + letter.len_utf8()..];
            let value = if attached.is_empty() {
                rest.next()
                    .ok_or_else(|| GrammarError::NoValue(letter.to_string()))?
                    .clone()
            } else {
                attached.to_owned()
            };
            found.flags.push((flag.key, Some(value)));
            break;
        }
        Ok(())
    }

    /// How it is called, a line for each form: flags in brackets, then the operands. Where all forms take many flags,
    /// `[flags]` stands for them.
    pub(crate) fn calls(&self) -> Vec<String> {
        let flags = self.flags_in_brackets();
        let flags = if self.is_abridged(&flags) {
            " [flags]"
        } else {
            &flags
        };
        let call = |form: &&str| {
            let space = if form.is_empty() { "" } else { " " };
            format!("{}{flags}{space}{form}", self.name)
        };
        self.forms.iter().map(call).collect()
    }

    /// The usage lines, and the flags that they leave out.
    pub(crate) fn usage(&self) -> String {
        let lines = self.calls().into_iter().map(|call| format!("\t{call}\n"));
        let mut out: String = lines.collect();
        let flags = self.flags_in_brackets();
        if self.is_abridged(&flags) {
            out += &format!("flags:{flags}\n");
        }
        out
    }

    fn is_abridged(&self, flags: &str) -> bool {
        const REPEATED_MAX: usize = 32;
        self.forms.len() > 1 && flags.len() > REPEATED_MAX
    }

    /// The flags that no form names itself, each with a space before.
    fn flags_in_brackets(&self) -> String {
        let named = |flag: &Flag| self.forms.iter().any(|form| flag.is_named_in(form));
        let flags: Vec<&Flag> = self.flags.iter().filter(|flag| !named(flag)).collect();
        let letters = flags.iter().filter(|flag| flag.value.is_none());
        let letters: String = letters.filter_map(|flag| flag.letter()).collect();
        let mut out = String::new();
        if !letters.is_empty() {
            out += &format!(" [-{letters}]");
        }
        for flag in flags {
            match (flag.letter(), flag.value) {
                (Some(letter), Some(value)) => out += &format!(" [-{letter} {value}]"),
                (None, Some(value)) => out += &format!(" [--{} {value}]", flag.key),
                (None, None) => out += &format!(" [--{}]", flag.key),
                (Some(_), None) => {}
            }
        }
        out
    }

    /// The usage lines with every flag explained.
    pub(crate) fn help(&self) -> String {
        // The flags are explained below.
        let calls = self.calls().into_iter();
        let calls: String = calls.map(|call| format!("\t{call}\n")).collect();
        let mut out = format!("{}\n\nusage:\n{calls}", self.summary);
        if !self.aliases.is_empty() {
            out += &format!("\nalso called: {}\n", self.aliases.join(", "));
        }
        if !self.flags.is_empty() {
            out += "\nflags:\n";
        }
        for flag in self.flags {
            let mut names = flag.spelling();
            if let Some(value) = flag.value {
                names += &format!(" {value}");
            }
            out += &format!("    {names:<26} {}\n", flag.help);
        }
        out
    }
}

impl Program {
    /// The commands and what they do.
    pub(crate) fn overview(&self) -> String {
        let mut out = format!(
            "{}\n\nusage: {} command args ...\n\n",
            self.summary, self.name
        );
        for command in self.commands {
            out += &format!("    {:<12} {}\n", command.name, command.summary);
        }
        if !self.others.is_empty() {
            out += "\nWith commands of their own:\n\n";
        }
        for other in self.others {
            // What else there is to say of one, it says itself.
            let summary = other.summary.lines().next().unwrap_or_default();
            out += &format!("    {:<12} {summary}\n", other.name);
        }
        out += &format!("\nFor more about a command: {} help command\n", self.name);
        out
    }
}
