//! The command line of the inspector: zdb's letters, and a few words.

use std::ffi::OsString;
use std::path::PathBuf;

use base::Txg;
use inspect::{InspectError, Inspection};

type Result<T> = std::result::Result<T, InspectError>;

const USAGE: &str = "usage: inspect [-bcCdhijlmuLPv] [--verify] [--json] [-t txg] [-e] [-p directory]... \
                     image|directory... [pool[/dataset][@snapshot] [object|first:last]...]";

/// What the words ask for.
pub(super) fn parse(arguments: &[OsString]) -> Result<Inspection> {
    let mut words = Words {
        found: Inspection::of(Vec::new()),
        verbose: 0,
    };
    words.parse(arguments)?;
    Ok(words.found)
}

/// What was said so far.
struct Words {
    found: Inspection,
    /// Print as much as there is.
    verbose: u32,
}

impl Words {
    fn parse(&mut self, arguments: &[OsString]) -> Result<()> {
        let mut operands = Vec::new();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.to_str() {
                Some("--") => {
                    operands.extend(rest.by_ref().cloned());
                }
                Some(word) if word.starts_with("--") => self.word(&word[2..])?,
                Some(letters) if letters.len() > 1 && letters.starts_with('-') => {
                    self.letters(&letters[1..], &mut rest)?;
                }
                _ => operands.push(argument.clone()),
            }
        }
        self.operands(operands)?;
        self.defaults();
        self.check_json()
    }

    fn word(&mut self, word: &str) -> Result<()> {
        match word {
            "verify" => {
                self.found.blocks = self.found.blocks.max(1);
                self.found.checksums = 2;
            }
            "label" | "labels" => self.found.labels += 1,
            "uberblock" => self.found.uberblock += 1,
            "config" => self.found.config += 1,
            "datasets" => self.found.datasets += 1,
            "block-stats" => self.found.blocks += 1,
            "checksum" => self.found.checksums += 1,
            "metaslabs" => self.found.space_maps += 1,
            "intent-logs" => self.found.intent_logs += 1,
            "history" => self.found.history += 1,
            "disable-leak-tracking" => self.found.leaks = false,
            "parseable" => self.found.exact = true,
            "exported" => {}
            "json" => self.found.json = true,
            "verbose" => self.verbose += 1,
            other => return Err(wrong(&format!("unknown option --{other}"))),
        }
        Ok(())
    }

    fn letters<'a>(
        &mut self,
        letters: &str,
        rest: &mut impl Iterator<Item = &'a OsString>,
    ) -> Result<()> {
        for (index, letter) in letters.char_indices() {
            let mut value = || -> Result<OsString> {
                let attached = &letters[index + letter.len_utf8()..];
                if !attached.is_empty() {
                    return Ok(OsString::from(attached));
                }
                rest.next()
                    .cloned()
                    .ok_or_else(|| wrong(&format!("-{letter} needs a value")))
            };
            match letter {
                'l' => self.found.labels += 1,
                'u' => self.found.uberblock += 1,
                'C' => self.found.config += 1,
                'd' => self.found.datasets += 1,
                'b' => self.found.blocks += 1,
                'c' => self.found.checksums += 1,
                'm' => self.found.space_maps += 1,
                'i' => self.found.intent_logs += 1,
                'h' => self.found.history += 1,
                'j' => self.found.json = true,
                'L' => self.found.leaks = false,
                'P' => self.found.exact = true,
                'v' => self.verbose += 1,
                // Everything is opened as if exported, and assertions never stop us.
                'e' | 'A' | 'F' | 'G' | 'q' | 'V' | 'X' | 'Y' => {}
                'p' => {
                    self.found.paths.push(PathBuf::from(value()?));
                    return Ok(());
                }
                't' => {
                    let text = value()?;
                    let txg = text.to_str().and_then(|text| text.parse().ok());
                    self.found.txg_max = Some(Txg(
                        txg.ok_or_else(|| wrong("-t needs the number of a txg"))?
                    ));
                    return Ok(());
                }
                'o' | 'U' | 'x' | 'I' | 'K' => {
                    let _for_other_tools = value()?;
                    return Ok(());
                }
                other => return Err(wrong(&format!("unknown option -{other}"))),
            }
        }
        Ok(())
    }

    /// What exists as a path is one; then come the pool or dataset and its objects.
    fn operands(&mut self, operands: Vec<OsString>) -> Result<()> {
        for operand in operands {
            if self.found.pool.is_none() && std::fs::exists(&operand).unwrap_or(false) {
                self.found.paths.push(PathBuf::from(operand));
                continue;
            }
            let Some(text) = operand.to_str() else {
                let name = operand.to_string_lossy().into_owned();
                return Err(wrong(&format!(
                    "'{name}' is no file and no name of a dataset"
                )));
            };
            if self.found.pool.is_some() {
                self.found.objects.push(object_range(text)?);
            } else if text.contains('/') && (text.starts_with('/') || text.starts_with('.')) {
                let source = rustix::io::Errno::NOENT.into();
                return Err(InspectError::File {
                    path: PathBuf::from(text),
                    source,
                });
            } else {
                let end = text.find(['/', '@']).unwrap_or(text.len());
                self.found.pool = Some(text[..end].to_owned());
                self.found.dataset = (end < text.len()).then(|| text.to_owned());
            }
        }
        if self.found.paths.is_empty() {
            return Err(wrong(
                "name the pool's images or disks, or a directory with -p",
            ));
        }
        Ok(())
    }

    /// Only a check has a result as JSON, and nothing may stand beside it.
    fn check_json(&self) -> Result<()> {
        let others = [
            self.found.labels,
            self.found.uberblock,
            self.found.config,
            self.found.datasets,
            self.found.space_maps,
            self.found.intent_logs,
            self.found.history,
        ];
        if self.found.json && (self.found.blocks == 0 || others.iter().any(|count| *count > 0)) {
            return Err(wrong("--json goes with --verify, -b and -c only"));
        }
        Ok(())
    }

    /// Without any request: datasets; a check of checksums implies the walk.
    fn defaults(&mut self) {
        if self.found.checksums > 0 {
            self.found.blocks = self.found.blocks.max(1);
        }
        let requests = [
            self.found.labels,
            self.found.uberblock,
            self.found.config,
            self.found.datasets,
            self.found.blocks,
            self.found.space_maps,
            self.found.intent_logs,
            self.found.history,
        ];
        if requests.iter().sum::<u32>() == 0 {
            self.found.datasets = 1;
        }
        for level in [
            &mut self.found.datasets,
            &mut self.found.blocks,
            &mut self.found.space_maps,
            &mut self.found.intent_logs,
        ] {
            if *level > 0 {
                *level += self.verbose;
            }
        }
    }
}

fn object_range(text: &str) -> Result<std::ops::RangeInclusive<u64>> {
    let bad = || {
        wrong(&format!(
            "'{text}' is no object number and no range first:last"
        ))
    };
    let number = |text: &str| text.parse::<u64>().map_err(|_| bad());
    match text.split_once(':') {
        None => {
            let object = number(text)?;
            Ok(object..=object)
        }
        Some((first, last)) => {
            // A third part would choose object types; all are printed.
            let last = last.split(':').next().unwrap_or("");
            let last = if last == "-1" || last.is_empty() {
                u64::MAX
            } else {
                number(last)?
            };
            Ok(number(first)?..=last)
        }
    }
}

fn wrong(problem: &str) -> InspectError {
    InspectError::Usage(format!("{problem}\n{USAGE}"))
}
