//! The command line: zdb's letters, and a few words.

use std::ffi::OsString;
use std::path::PathBuf;

use base::Txg;

use crate::InspectError;
use crate::error::Result;
use crate::print::Numbers;
use crate::raw::OpenOptions;

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) open: OpenOptions,
    /// How often each was given.
    pub(crate) labels: u32,
    pub(crate) uberblock: u32,
    pub(crate) config: u32,
    pub(crate) datasets: u32,
    pub(crate) blocks: u32,
    pub(crate) checksums: u32,
    pub(crate) space_maps: u32,
    pub(crate) intent_logs: u32,
    pub(crate) history: u32,
    /// Do not compare with the space maps.
    pub(crate) no_leaks: bool,
    /// Print as much as there is.
    pub(crate) verbose: u32,
    pub(crate) numbers: Numbers,
    /// The result of a check as JSON.
    pub(crate) json: bool,
    /// The dataset after the pool's name, with its snapshot.
    pub(crate) dataset: Option<String>,
    /// Objects to print; all when empty.
    pub(crate) objects: Vec<std::ops::RangeInclusive<u64>>,
}

const USAGE: &str = "usage: inspect [-bcCdhijlmuLPv] [--verify] [--json] [-t txg] [-e] [-p directory]... \
                     image|directory... [pool[/dataset][@snapshot] [object|first:last]...]";

impl Options {
    pub(crate) fn parse(arguments: &[OsString]) -> Result<Self> {
        let mut options = Self::default();
        let mut operands = Vec::new();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.to_str() {
                Some("--") => {
                    operands.extend(rest.by_ref().cloned());
                }
                Some(word) if word.starts_with("--") => options.word(&word[2..])?,
                Some(letters) if letters.len() > 1 && letters.starts_with('-') => {
                    options.letters(&letters[1..], &mut rest)?;
                }
                _ => operands.push(argument.clone()),
            }
        }
        options.operands(operands)?;
        options.defaults();
        options.check_json()?;
        Ok(options)
    }

    fn word(&mut self, word: &str) -> Result<()> {
        match word {
            "verify" => {
                self.blocks = self.blocks.max(1);
                self.checksums = 2;
            }
            "label" | "labels" => self.labels += 1,
            "uberblock" => self.uberblock += 1,
            "config" => self.config += 1,
            "datasets" => self.datasets += 1,
            "block-stats" => self.blocks += 1,
            "checksum" => self.checksums += 1,
            "metaslabs" => self.space_maps += 1,
            "intent-logs" => self.intent_logs += 1,
            "history" => self.history += 1,
            "disable-leak-tracking" => self.no_leaks = true,
            "parseable" => self.numbers.exact = true,
            "exported" => {}
            "json" => self.json = true,
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
                'l' => self.labels += 1,
                'u' => self.uberblock += 1,
                'C' => self.config += 1,
                'd' => self.datasets += 1,
                'b' => self.blocks += 1,
                'c' => self.checksums += 1,
                'm' => self.space_maps += 1,
                'i' => self.intent_logs += 1,
                'h' => self.history += 1,
                'j' => self.json = true,
                'L' => self.no_leaks = true,
                'P' => self.numbers.exact = true,
                'v' => self.verbose += 1,
                // Everything is opened as if exported, and assertions never stop us.
                'e' | 'A' | 'F' | 'G' | 'q' | 'V' | 'X' | 'Y' => {}
                'p' => {
                    self.open.paths.push(PathBuf::from(value()?));
                    return Ok(());
                }
                't' => {
                    let text = value()?;
                    let txg = text.to_str().and_then(|text| text.parse().ok());
                    self.open.txg_limit = Some(Txg(
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
            if self.open.pool.is_none() && std::fs::exists(&operand).unwrap_or(false) {
                self.open.paths.push(PathBuf::from(operand));
                continue;
            }
            let Some(text) = operand.to_str() else {
                let name = operand.to_string_lossy().into_owned();
                return Err(wrong(&format!(
                    "'{name}' is no file and no name of a dataset"
                )));
            };
            if self.open.pool.is_some() {
                self.objects.push(object_range(text)?);
            } else if text.contains('/') && (text.starts_with('/') || text.starts_with('.')) {
                let source = std::io::ErrorKind::NotFound.into();
                return Err(InspectError::File {
                    path: PathBuf::from(text),
                    source,
                });
            } else {
                let end = text.find(['/', '@']).unwrap_or(text.len());
                self.open.pool = Some(text[..end].to_owned());
                self.dataset = (end < text.len()).then(|| text.to_owned());
            }
        }
        if self.open.paths.is_empty() {
            return Err(wrong(
                "name the pool's images or disks, or a directory with -p",
            ));
        }
        Ok(())
    }

    /// Only a check has a result as JSON, and nothing may stand beside it.
    fn check_json(&self) -> Result<()> {
        let others = [
            self.labels,
            self.uberblock,
            self.config,
            self.datasets,
            self.space_maps,
            self.intent_logs,
            self.history,
        ];
        if self.json && (self.blocks == 0 || others.iter().any(|count| *count > 0)) {
            return Err(wrong("--json goes with --verify, -b and -c only"));
        }
        Ok(())
    }

    /// Without any request: datasets; a check of checksums implies the walk.
    fn defaults(&mut self) {
        if self.checksums > 0 {
            self.blocks = self.blocks.max(1);
        }
        let requests = [
            self.labels,
            self.uberblock,
            self.config,
            self.datasets,
            self.blocks,
            self.space_maps,
            self.intent_logs,
            self.history,
        ];
        if requests.iter().sum::<u32>() == 0 {
            self.datasets = 1;
        }
        for level in [
            &mut self.datasets,
            &mut self.blocks,
            &mut self.space_maps,
            &mut self.intent_logs,
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
