use super::super::measure::Tally;
use super::*;
use std::time::{Duration, Instant};

fn outcome() -> Outcome {
    let mut tally = Tally::new(Instant::now());
    tally.bytes = 5_000_000;
    tally.times.add(Duration::from_micros(150));
    tally.times.add(Duration::from_micros(300));
    let mut probe = Times::default();
    probe.add(Duration::from_micros(100));
    Outcome {
        scenario: "varmail",
        parameters: vec![("threads", 2)],
        surroundings: Surroundings::default(),
        phases: vec![Phase::took("fsync", Duration::from_secs(2), tally)],
        probes: Some([probe.clone(), probe]),
        notes: Vec::new(),
    }
}

#[test]
fn the_table_relates_fsync_to_the_device() {
    let text = table(&outcome());
    assert!(text.starts_with("varmail: threads 2\n"), "{text}");
    assert!(
        text.contains(" CPUs, ") && text.contains("\n\nPHASE"),
        "{text}"
    );
    assert!(
        text.contains("F = 100 us; second probe 1.00 of the first"),
        "{text}"
    );
    assert!(text.contains("fsync: p50 1.5"), "{text}");
}

#[test]
fn the_html_stands_alone() {
    let text = html(&outcome());
    assert!(
        text.contains("<polyline class=\"line\" stroke=\"#00aa66\" points=\"60.0,"),
        "{text}"
    );
    assert!(text.contains("varmail: threads 2"));
    assert!(!text.contains("http"), "nothing from elsewhere");
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
}

#[test]
fn json_has_the_same() {
    let found: Value = serde_json::from_str(&json(&outcome())).unwrap();
    assert_eq!(found["parameters"]["threads"], 2);
    assert_eq!(found["phases"][0]["count"], 2);
    assert_eq!(found["phases"][0]["mb_per_second"], 2.5);
    assert_eq!(found["phases"][0]["max_us"], 300.0);
    assert_eq!(found["device"]["f_us"], 100.0);
}

#[test]
fn a_device_whose_probes_differ_is_called_unreliable() {
    let mut outcome = outcome();
    assert!(!table(&outcome).contains("unreliable"));
    let mut slow = Times::default();
    slow.add(Duration::from_micros(160));
    if let Some([_, after]) = &mut outcome.probes {
        *after = slow;
    }
    let text = table(&outcome);
    assert!(text.contains("note: the device is unreliable"), "{text}");
    let found: Value = serde_json::from_str(&json(&outcome)).unwrap();
    assert_eq!(found["device"]["unreliable"], true);
}

#[test]
fn runs_are_compared_with_the_first() {
    let first = outcome();
    let mut second = outcome();
    second.phases[0].took = Duration::from_secs(1);
    let mut compared = Compared::default();
    compared.add("a.json", &json(&first)).unwrap();
    assert!(!compared.is_comparison());
    compared.add("b.json", &json(&second)).unwrap();
    assert!(compared.is_comparison());
    let text = compared.table();
    let row = text
        .lines()
        .find(|line| line.contains("fsync") && line.contains("b.json"));
    let cells: Vec<&str> = row.unwrap().split_whitespace().collect();
    assert_eq!(
        cells[..5],
        ["fsync", "b.json", "2.00", "2.00", "5.00"],
        "{text}"
    );
    let page = compared.html();
    assert_eq!(page.matches("<polyline").count(), 2);
    assert!(page.contains("#3b6ea8") && !page.contains("NaN"), "{page}");
}

#[test]
fn what_is_no_run_is_refused() {
    let mut compared = Compared::default();
    for text in [
        "{}",
        "x",
        "[1]",
        "{\"scenario\":\"meta\",\"parameters\":{},\"phases\":[{}]}",
    ] {
        assert!(compared.add("a.json", text).is_err(), "{text}");
    }
    // Forged figures draw something, whatever they are.
    let mut found: Value = serde_json::from_str(&json(&outcome())).unwrap();
    found["phases"][0]["quantiles_ns"] = json!([-1e308, 1e308, 0]);
    found["phases"][0]["windows"] = json!([]);
    compared.add("a.json", &found.to_string()).unwrap();
    compared.add("b.json", &found.to_string()).unwrap();
    let page = compared.html();
    assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
}
