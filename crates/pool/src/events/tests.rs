use super::*;
use base::clock::ManualClock;

const SECOND: u64 = 1_000_000_000;

fn new() -> (Arc<ManualClock>, Arc<Events>) {
    let clock = Arc::new(ManualClock::new(1000 * SECOND + 5));
    let events = Events::new("tank", Guid(7), clock.clone());
    (clock, events)
}

#[test]
fn the_oldest_go_first_and_numbers_go_on() {
    const MAX: usize = 512;
    let (_, events) = new();
    for _ in 0..MAX + 10 {
        events.system("config_sync", Vec::new());
    }
    let kept = events.after(0);
    assert_eq!(kept.len(), MAX);
    assert_eq!(kept.first().unwrap().id, 11);
    assert_eq!(kept.last().unwrap().time_ns, 1000 * SECOND + 5);
    assert_eq!(events.after(MAX as u64 + 9).len(), 1);
    assert_eq!(events.clear(), MAX);
    events.system("config_sync", Vec::new());
    assert_eq!(events.after(0).first().unwrap().id, MAX as u64 + 11);
}

#[test]
fn reports_are_limited_and_nothing_else_is() {
    let (clock, events) = new();
    for _ in 0..100 {
        events.suspended(false);
    }
    assert_eq!(events.clear(), crate::tunables::REPORTS_MAX.count());
    events.system("pool_import", Vec::new());
    clock.sleep_ns(SECOND);
    events.suspended(false);
    let classes: Vec<String> = events.after(0).into_iter().map(|e| e.class).collect();
    assert_eq!(
        classes,
        ["sysevent.fs.zfs.pool_import", "ereport.fs.zfs.io_failure"]
    );
}

#[test]
fn texts_are_cut() {
    let long = "é".repeat(TEXT_MAX);
    let EventValue::Text(kept) = text(&long) else {
        panic!("a text");
    };
    assert_eq!(kept.len(), TEXT_MAX);
}
