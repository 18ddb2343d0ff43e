//! What shells offer when a command line is completed: commands, flags, and names of pools and file systems.

use admin::rows::Access;

use super::{Command, Flag, Program};

#[cfg(test)]
mod tests;

/// In the function for `millpond`: behind the name of one of `PROGRAMS` that program's function goes on.
const BASH_OTHERS: &str = r#"    case "${COMP_WORDS[1]}" in PROGRAMS)
        if [ "$COMP_CWORD" -gt 1 ]; then
            local program="${COMP_WORDS[1]}"
            COMP_WORDS=("${COMP_WORDS[@]:1}")
            COMP_CWORD=$((COMP_CWORD - 1))
            "_millpond_$program"
            return
        fi ;;
    esac
"#;

/// A shell that completions are written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    /// The shell of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "bash" => Some(Self::Bash),
            "zsh" => Some(Self::Zsh),
            "fish" => Some(Self::Fish),
            _ => None,
        }
    }

    /// What stands before the programs: zsh reads in the first line of a file what the file completes.
    pub(crate) const fn preamble(self) -> &'static str {
        match self {
            Self::Bash | Self::Fish => "",
            Self::Zsh => "#compdef zpool zfs zstream millpond\n",
        }
    }
}

impl Program {
    /// Has the shell complete this program's command lines.
    pub(crate) fn completion(&self, shell: Shell) -> String {
        match shell {
            Shell::Bash => self.for_bash(),
            Shell::Zsh => self.for_zsh(),
            Shell::Fish => self.for_fish(),
        }
    }

    /// Prints the names that its operands may be, one a line; nothing for programs that work on files.
    fn names(&self) -> Option<String> {
        let lists = matches!(self.name, "zpool" | "zfs");
        lists.then(|| format!("millpond {} list -H -o name 2>/dev/null", self.name))
    }

    /// Whether the other programs can stand behind this one's name: `millpond zfs list`.
    fn hosts_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// These programs' names.
    fn other_names(&self) -> Vec<&'static str> {
        self.others.iter().map(|other| other.name).collect()
    }

    fn for_bash(&self) -> String {
        let name = self.name;
        let mut out = format!("_millpond_{name}() {{\n    local words=''\n");
        if self.hosts_others() {
            out += &BASH_OTHERS.replace("PROGRAMS", &self.other_names().join("|"));
        }
        let commands = self.words().join(" ");
        out += &format!(
            "    if [ \"$COMP_CWORD\" = 1 ]; then\n        words='{commands}'\n    else\n        case \
             \"${{COMP_WORDS[1]}}\" in\n"
        );
        for command in self.commands {
            let flags: Vec<_> = command.flags.iter().flat_map(Flag::forms).collect();
            let words = [flags, self.property_words(command)].concat();
            out += &format!(
                "            {}) words='{}' ;;\n",
                command.names().join("|"),
                words.join(" ")
            );
        }
        out += "        esac\n";
        if let Some(list) = self.names() {
            out += &format!(
                "        case \"${{COMP_WORDS[COMP_CWORD]}}\" in -*) ;; *) words=\"$words $({list})\" ;; esac\n"
            );
        }
        out +=
            "    fi\n    COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n";
        // The value of a property follows at once.
        out += "    [[ \"$COMPREPLY\" != *= ]] || compopt -o nospace 2>/dev/null\n}\n";
        out + &format!("complete -o default -F _millpond_{name} {name}\n")
    }

    fn for_zsh(&self) -> String {
        let name = self.name;
        let mut out =
            format!("_millpond_{name}() {{\n    local -a commands flags properties names\n");
        if self.hosts_others() {
            out += &format!(
                "    if (( CURRENT > 2 )) && [[ $words[2] == ({}) ]]; then\n        shift words\n        (( CURRENT \
                 -= 1 ))\n        _millpond_$words[1]\n        return\n    fi\n",
                self.other_names().join("|")
            );
        }
        out += "    if (( CURRENT == 2 )); then\n        commands=(\n";
        for command in self.commands {
            out += &format!("            {}\n", described(command.name, command.summary));
        }
        if self.hosts_others() {
            out += &format!("            {}\n", self.other_names().join(" "));
        }
        out += "        )\n        _describe command commands\n        return\n    fi\n    case $words[2] in\n";
        for command in self.commands {
            out += &format!("        ({}) flags=(\n", command.names().join("|"));
            for flag in command.flags {
                for form in flag.forms() {
                    out += &format!("            {}\n", described(&form, flag.help));
                }
            }
            let properties = self.property_words(command);
            out += &format!("        ); properties=({}) ;;\n", properties.join(" "));
        }
        // The value of a property follows at once.
        out += "    esac\n    _describe -o flag flags\n    compadd -S '' -a properties\n";
        if let Some(list) = self.names() {
            out += &format!("    names=(${{(f)\"$({list})\"}})\n    compadd -a names\n");
        }
        out + &format!("    _files\n}}\ncompdef _millpond_{name} {name}\n")
    }

    fn for_fish(&self) -> String {
        let name = self.name;
        let mut out = String::new();
        for command in self.commands {
            out += &format!(
                "complete -c {name} -n __fish_use_subcommand -f -a {} -d {}\n",
                command.name,
                quoted(command.summary)
            );
            let given = format!(
                "'__fish_seen_subcommand_from {}'",
                command.names().join(" ")
            );
            for flag in command.flags {
                out += &format!("complete -c {name} -n {given}");
                if let Some(letter) = flag.letter() {
                    out += &format!(" -s {letter}");
                }
                if let Some(long) = flag.word() {
                    out += &format!(" -l {long}");
                }
                let value = if flag.value.is_some() { " -r" } else { "" };
                out += &format!("{value} -d {}\n", quoted(flag.help));
            }
            let properties = self.property_words(command);
            if !properties.is_empty() {
                out += &format!(
                    "complete -c {name} -n {given} -a '{}'\n",
                    properties.join(" ")
                );
            }
        }
        if self.hosts_others() {
            let others = self.other_names().join(" ");
            out += &format!("complete -c {name} -n __fish_use_subcommand -f -a '{others}'\n");
        }
        if let Some(list) = self.names() {
            out += &format!("complete -c {name} -n 'not __fish_use_subcommand' -a '({list})'\n");
        }
        out
    }

    /// The properties that a command takes as its first words: with `=` where it sets them.
    fn property_words(&self, command: &Command) -> Vec<String> {
        let takes = |word: &str| command.forms.iter().any(|form| form.starts_with(word));
        let rows = self.properties.iter().flat_map(|table| table.rows);
        let rows = rows.filter(|row| row.visible);
        if takes("property=value") {
            let settable = rows.filter(|row| row.access == Access::Settable);
            settable.map(|row| format!("{}=", row.name)).collect()
        } else if takes("all|property") {
            rows.map(|row| row.name.to_owned()).collect()
        } else if takes("property ") {
            let settable = rows.filter(|row| row.access == Access::Settable);
            settable.map(|row| row.name.to_owned()).collect()
        } else {
            Vec::new()
        }
    }

    /// What may be the first word: commands, and other programs.
    fn words(&self) -> Vec<&'static str> {
        let mut words: Vec<_> = self.commands.iter().map(|command| command.name).collect();
        words.extend(self.other_names());
        words
    }
}

impl Command {
    /// Its name and its other names.
    fn names(&self) -> Vec<&'static str> {
        let mut names = vec![self.name];
        names.extend(self.aliases);
        names
    }
}

impl Flag {
    /// Its long form.
    fn word(&self) -> Option<&'static str> {
        self.long
            .or_else(|| self.letter().is_none().then_some(self.key))
    }

    /// All ways of typing it.
    fn forms(&self) -> Vec<String> {
        let letter = self.letter().map(|letter| format!("-{letter}"));
        let word = self.word().map(|word| format!("--{word}"));
        letter.into_iter().chain(word).collect()
    }
}

/// A word and what it means, as zsh wants it.
fn described(word: &str, help: &str) -> String {
    format!(
        "'{word}:{}'",
        help.replace('\'', "'\\''").replace(':', "\\:")
    )
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
