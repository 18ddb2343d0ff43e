//! A strict reader of Prometheus's text format (version 0.0.4): the grammar, what a scrape demands of series and
//! histograms, and the rules of names that `promtool check metrics` has.

use std::collections::{BTreeMap, BTreeSet};

type Labels = BTreeMap<String, String>;

struct Sample {
    name: String,
    labels: Labels,
    value: f64,
}

#[derive(Default)]
struct Family {
    name: String,
    kind: String,
    samples: Vec<Sample>,
}

/// Checks a whole text; why it is none.
pub(crate) fn check(text: &str) -> Result<(), String> {
    if !text.ends_with('\n') {
        return Err("the last line has no end".to_owned());
    }
    let mut seen = BTreeSet::new();
    let mut series = BTreeSet::new();
    let mut families: Vec<Family> = Vec::new();
    let mut helped = None;
    for line in text.lines() {
        let at = |reason: String| format!("{reason}: {line}");
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').ok_or_else(|| at("no help".into()))?;
            unescape(help, "\\n").map_err(at)?;
            if help.trim().is_empty() || helped.is_some() {
                return Err(at("no help of one type".into()));
            }
            helped = Some(name.to_owned());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or_else(|| at("no type".into()))?;
            if helped.take().as_deref() != Some(name) || !seen.insert(name.to_owned()) {
                return Err(at("not below its help, or twice".into()));
            }
            family_name(name, kind).map_err(at)?;
            families.push(Family {
                name: name.to_owned(),
                kind: kind.to_owned(),
                samples: Vec::new(),
            });
        } else {
            let sample = sample(line).map_err(at)?;
            let family = families.last_mut().filter(|_| helped.is_none());
            let family = family.ok_or_else(|| at("a sample without a type".into()))?;
            belongs(family, &sample).map_err(at)?;
            if !series.insert((sample.name.clone(), sample.labels.clone())) {
                return Err(at("a series twice".into()));
            }
            family.samples.push(sample);
        }
    }
    if helped.is_some() {
        return Err("help of nothing".to_owned());
    }
    families.iter().try_for_each(whole)
}

/// A text in which only these letters stand after a backslash.
fn unescape(text: &str, after: &str) -> Result<String, String> {
    let mut found = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        found.push(match letter {
            '\\' => match letters.next().filter(|next| after.contains(*next)) {
                Some('n') => '\n',
                Some(next) => next,
                None => return Err("a backslash before something else".to_owned()),
            },
            letter => letter,
        });
    }
    Ok(found)
}

fn is_name(name: &str, others: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || others.contains(letter);
    !name.is_empty()
        && !name.starts_with(|letter: char| letter.is_ascii_digit())
        && name.chars().all(fits)
}

/// What `promtool` says of names.
fn family_name(name: &str, kind: &str) -> Result<(), String> {
    const KINDS: [&str; 4] = ["counter", "gauge", "histogram", "summary"];
    const ABBREVIATED: [&str; 14] = [
        "s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d",
    ];
    // Seconds, bytes, meters and grams have no multiples of their own.
    const BASES: [&str; 8] = [
        "seconds", "second", "bytes", "byte", "minutes", "hours", "days", "bits",
    ];
    const MULTIPLES: [&str; 11] = [
        "nano", "micro", "milli", "kilo", "kibi", "mega", "mebi", "giga", "gibi", "tera", "tebi",
    ];
    if !KINDS.contains(&kind) {
        return Err("no such type".to_owned());
    }
    if !is_name(name, "_") || name.chars().any(|letter| letter.is_ascii_uppercase()) {
        return Err("no name".to_owned());
    }
    if (kind == "counter") != name.ends_with("_total") {
        return Err("counters end with _total, and nothing else does".to_owned());
    }
    let reserved = ["_bucket", "_count", "_sum"];
    if reserved.iter().any(|end| name.ends_with(end)) {
        return Err("an end of histograms".to_owned());
    }
    for part in name.split('_') {
        let is_multiple = MULTIPLES.iter().any(|multiple| {
            part.strip_prefix(multiple)
                .is_some_and(|unit| BASES.contains(&unit))
        });
        let is_other = matches!(part, "minutes" | "hours" | "days" | "bits");
        if ABBREVIATED.contains(&part) || KINDS.contains(&part) || is_multiple || is_other {
            return Err(format!("'{part}' in a name"));
        }
    }
    Ok(())
}

fn sample(line: &str) -> Result<Sample, String> {
    let end = line.find(['{', ' ']).ok_or("no value")?;
    let (name, mut rest) = line.split_at(end);
    if !is_name(name, "_:") {
        return Err("no name".to_owned());
    }
    let mut labels = Labels::new();
    if let Some(mut inside) = rest.strip_prefix('{') {
        while !inside.starts_with('}') {
            let (label, after) = inside.split_once("=\"").ok_or("no label")?;
            if !is_name(label, "_") || label.starts_with("__") {
                return Err(format!("'{label}' is no label"));
            }
            let end = closing_quote(after).ok_or("a value without an end")?;
            let value = unescape(&after[..end], "\\\"n")?;
            if labels.insert(label.to_owned(), value).is_some() {
                return Err(format!("'{label}' twice"));
            }
            inside = &after[end + 1..];
            match inside.strip_prefix(',') {
                Some(next) => inside = next,
                None if inside.starts_with('}') => {}
                None => return Err("no comma".to_owned()),
            }
        }
        rest = &inside[1..];
    }
    let value = rest.strip_prefix(' ').ok_or("no space before the value")?;
    let value = value.parse().map_err(|_| "no number")?;
    let name = name.to_owned();
    Ok(Sample {
        name,
        labels,
        value,
    })
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, letter)| {
        let closes = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        closes.then_some(at)
    })
}

/// A sample stands below its own family, with the labels that its kind has.
fn belongs(family: &Family, sample: &Sample) -> Result<(), String> {
    let suffix = sample.name.strip_prefix(family.name.as_str());
    let has_end = sample.labels.contains_key("le");
    let fits = match (family.kind.as_str(), suffix) {
        ("histogram", Some("_bucket")) => has_end,
        ("histogram", Some("_sum" | "_count")) => !has_end,
        ("histogram", _) => false,
        // Ours have no quantiles.
        ("summary", end) => matches!(end, Some("_sum" | "_count")) && !has_end,
        (_, Some("")) => !has_end && !sample.labels.contains_key("quantile"),
        _ => false,
    };
    if !fits {
        return Err(format!("not of {} {}", family.kind, family.name));
    }
    if family.kind == "counter" && !(sample.value.is_finite() && sample.value >= 0.0) {
        return Err("a counter counts up from 0".to_owned());
    }
    Ok(())
}

/// A histogram: the buckets of one series, its sum, its count.
#[derive(Default)]
struct Histogram {
    buckets: Vec<(f64, f64)>,
    sum: Option<f64>,
    count: Option<f64>,
}

/// A summary: each series has a sum and a count.
fn summed(family: &Family) -> Result<(), String> {
    let mut ends: BTreeMap<&Labels, Vec<&str>> = BTreeMap::new();
    for sample in &family.samples {
        let end = sample.name.rsplit('_').next().unwrap_or_default();
        ends.entry(&sample.labels).or_default().push(end);
        if !(sample.value.is_finite() && sample.value >= 0.0) {
            return Err("a sum or count that is none".to_owned());
        }
    }
    match ends.values().all(|ends| ends == &["sum", "count"]) {
        true => Ok(()),
        false => Err("no sum, or no count".to_owned()),
    }
}

fn whole(family: &Family) -> Result<(), String> {
    let at = |reason: &str| format!("{reason}: {}", family.name);
    if family.samples.is_empty() {
        return Err(at("no sample"));
    }
    match family.kind.as_str() {
        "histogram" => {}
        "summary" => return summed(family).map_err(|reason| at(&reason)),
        _ => return Ok(()),
    }
    let mut histograms: BTreeMap<Labels, Histogram> = BTreeMap::new();
    for sample in &family.samples {
        let mut labels = sample.labels.clone();
        let end = labels.remove("le");
        let histogram = histograms.entry(labels).or_default();
        match end {
            Some(end) => {
                let end = end.parse().map_err(|_| at("an end that is no number"))?;
                histogram.buckets.push((end, sample.value));
            }
            None if sample.name.ends_with("_sum") => histogram.sum = Some(sample.value),
            None => histogram.count = Some(sample.value),
        }
    }
    let ends = |histogram: &Histogram| -> Vec<f64> {
        histogram.buckets.iter().map(|(end, _)| *end).collect()
    };
    let first = histograms.values().next().map(ends);
    for histogram in histograms.values() {
        let rises = |pair: &[(f64, f64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
        if !histogram.buckets.windows(2).all(rises) {
            return Err(at("buckets do not rise"));
        }
        let whole = |(_, count): &(f64, f64)| count.fract() == 0.0 && *count >= 0.0;
        if !histogram.buckets.iter().all(whole) {
            return Err(at("a bucket that is no count"));
        }
        let last = histogram.buckets.last();
        let last = last.filter(|(end, _)| *end == f64::INFINITY);
        if last.is_none() || last.map(|(_, count)| *count) != histogram.count {
            return Err(at("the last bucket is not all"));
        }
        if histogram.sum.is_none_or(f64::is_nan) {
            return Err(at("no sum"));
        }
        if first.as_ref() != Some(&ends(histogram)) {
            return Err(at("buckets of several kinds"));
        }
    }
    Ok(())
}

#[test]
fn what_is_not_the_format_is_refused() {
    const GOOD: &str = "# HELP a_seconds How \\\\ long.\n# TYPE a_seconds histogram\n\
                        a_seconds_bucket{p=\"x\\\"\\\\\\n, }\",le=\"0.5\"} 1\n\
                        a_seconds_bucket{p=\"x\\\"\\\\\\n, }\",le=\"+Inf\"} 2\n\
                        a_seconds_sum{p=\"x\\\"\\\\\\n, }\"} 1.25\na_seconds_count{p=\"x\\\"\\\\\\n, }\"} 2\n\
                        # HELP z_bytes Some.\n# TYPE z_bytes summary\nz_bytes_sum 1.5\nz_bytes_count 4\n\
                        # HELP x_total All.\n# TYPE x_total counter\nx_total 1\nx_total{c=\"d\"} 2\n";
    assert_eq!(check(GOOD), Ok(()));
    for (from, to) in [
        ("x_total 1\n", "x_total 1\nx_total 1\n"),
        ("x_total 1\n", ""),
        ("x_total 1\n", "x_total\t1\n"),
        ("x_total 1\n", "x_total -1\n"),
        ("x_total 1\n", "a_seconds_sum 1\n"),
        ("# HELP x_total All.\n", ""),
        ("# TYPE x_total counter\n", ""),
        ("# TYPE x_total counter", "# TYPE x_total gauge"),
        ("x_total", "x"),
        ("x_total", "x_ns_total"),
        ("x_total", "x-c_total"),
        ("{c=\"d\"}", "{c=\"\\d\"}"),
        ("{c=\"d\"}", "{c=\"d}"),
        ("{c=\"d\"}", "{c=\"d\",c=\"e\"}"),
        ("{c=\"d\"}", "{1c=\"d\"}"),
        ("{c=\"d\"}", "{le=\"1\"}"),
        ("} 1\n", "} 3\n"),
        ("le=\"+Inf\"", "le=\"7\""),
        ("le=\"+Inf\"", "le=\"0.25\""),
        ("a_seconds_sum", "a_seconds_max"),
        ("a_seconds_count{p=\"x\\\"\\\\\\n, }\"} 2\n", ""),
        ("\\\\ long", "\\ long"),
        ("z_bytes_count 4\n", ""),
        ("z_bytes_sum 1.5", "z_bytes_sum -1"),
        ("z_bytes_sum 1.5", "z_bytes 1.5"),
    ] {
        let bad = GOOD.replacen(from, to, if from == "x_total" { 9 } else { 1 });
        assert_ne!(bad, GOOD, "{from}");
        // Taking away one of two samples leaves a whole text.
        let expected_good = from == "x_total 1\n" && to.is_empty();
        assert_eq!(check(&bad).is_ok(), expected_good, "{from} {to}");
    }
    assert!(check(GOOD.trim_end()).is_err());
    let repeated = format!("{GOOD}{GOOD}");
    assert!(check(&repeated).is_err());
}
