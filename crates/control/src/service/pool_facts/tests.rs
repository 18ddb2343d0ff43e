use super::*;

pub(crate) fn plain(name: &str) -> PoolFacts {
    PoolFacts {
        name: name.into(),
        guid: 7,
        load_guid: 8,
        version: 5000,
        state: VdevState::Online,
        readonly: false,
        cache_file: None,
        altroot: None,
        comment: None,
        compatibility: None,
        size: 80 << 20,
        allocated: 1 << 20,
        fragmentation: Some(0),
        expandable: 0,
        freeing: 0,
        leaked: 0,
        checkpoint: 0,
        dedup_ratio: 100,
        dedup_table_size: 0,
        clone_used: 0,
        clone_saved: 0,
        last_scrubbed_txg: 0,
        stored: Vec::new(),
        features: Vec::new(),
        unsupported: Vec::new(),
    }
}

/// The lines of `zpool get -Hp all`.
fn lines(facts: &PoolFacts) -> Vec<String> {
    facts
        .all()
        .into_iter()
        .map(|(name, setting)| {
            let property = find_pool_property(&name).unwrap();
            let value = property.format(&setting.value, true);
            format!("{}\t{name}\t{value}\t{}", facts.name, setting.source.text())
        })
        .collect()
}

/// From what OpenZFS printed about a pool back to facts: whatever does not follow from them must
/// come out as it was.
fn facts_of(printed: &[String]) -> PoolFacts {
    let get = |name: &str| {
        printed
            .iter()
            .map(|line| line.split('\t').collect::<Vec<_>>())
            .find(|fields| fields[1] == name)
            .map(|fields| fields[2].to_owned())
    };
    let number = |name: &str| get(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    let words = |prefix: &str| {
        printed
            .iter()
            .map(|line| line.split('\t').collect::<Vec<_>>())
            .filter_map(|fields| {
                let state = ["enabled", "active", "disabled", "inactive", "readonly"]
                    .into_iter()
                    .find(|state| *state == fields[2])?;
                Some((fields[1].strip_prefix(prefix)?.to_owned(), state))
            })
            .collect()
    };
    let text = |name: &str| get(name).filter(|text| !matches!(text.as_str(), "-" | "off" | "none"));
    let mut facts = plain(printed[0].split('\t').next().unwrap());
    facts.guid = number("guid");
    facts.load_guid = number("load_guid");
    facts.version = number("version").max(if text("version").is_some() { 0 } else { 5000 });
    facts.readonly = get("readonly").as_deref() == Some("on");
    facts.altroot = text("altroot");
    facts.compatibility = text("compatibility");
    facts.size = number("size");
    facts.allocated = number("allocated");
    facts.fragmentation = Some(number("fragmentation"));
    facts.checkpoint = number("checkpoint");
    facts.dedup_ratio =
        get("dedupratio").map_or(100, |text| text.replace('.', "").parse().unwrap());
    facts.dedup_table_size = number("dedup_table_size");
    facts.clone_used = number("bcloneused");
    facts.clone_saved = number("bclonesaved");
    facts.last_scrubbed_txg = number("last_scrubbed_txg");
    if number("ashift") != 0 {
        facts
            .stored
            .push(("ashift".into(), Value::Number(number("ashift"))));
    }
    facts.features = words("feature@");
    facts
}

#[test]
fn every_golden_pool_comes_out_as_it_was_printed() {
    for golden in golden::all_pools() {
        let printed = golden.lines("pool.tsv");
        if !printed.is_empty() {
            assert_eq!(lines(&facts_of(&printed)), printed);
        }
    }
}

#[test]
fn single_properties() {
    let mut facts = plain("p");
    facts.stored.push(("a:b".into(), Value::Text("x".into())));
    facts.features.push(("lz4_compress".into(), "active"));
    let text = |name: &str| facts.get(name).map(|setting| setting.value);
    assert_eq!(text("capacity"), Some(Value::Number(1)));
    assert_eq!(text("a:b"), Some(Value::Text("x".into())));
    assert_eq!(
        text("feature@lz4_compress"),
        Some(Value::Text("active".into()))
    );
    assert_eq!(text("feature@nope"), None);
}
