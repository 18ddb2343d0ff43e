use super::*;

#[test]
fn the_three_forms() {
    let mut command = NvList::new();
    command
        .set(keys::COMMAND, "zpool create p f")
        .set(keys::TIME, 7_u64)
        .set(keys::WHO, 0_u64);
    let found = record(&command).unwrap();
    assert_eq!(
        found.event,
        HistoryEvent::Command("zpool create p f".into())
    );
    assert_eq!((found.time, found.user), (7, Some(0)));

    let mut internal = NvList::new();
    internal
        .set(keys::INTERNAL_NAME, "set")
        .set(keys::INTERNAL_TEXT, "compression=15")
        .set(keys::TXG, 5_u64)
        .set(keys::DATASET_NAME, "p")
        .set(keys::DATASET_ID, 54_u64);
    let HistoryEvent::Internal { dataset, txg, .. } = record(&internal).unwrap().event else {
        panic!()
    };
    assert_eq!((dataset, txg), (Some(("p".into(), 54)), 5));

    let mut names = NvList::new();
    names.set("p@a", Value::Boolean);
    let mut input = NvList::new();
    input.set("snaps", names).set("text", "x");
    let mut call = NvList::new();
    call.set(keys::REQUEST, "snapshot")
        .set(keys::REQUEST_INPUT, input);
    let HistoryEvent::Call { input, .. } = record(&call).unwrap().event else {
        panic!()
    };
    assert_eq!(input, ["snaps:", "    p@a", "text: 'x'"]);
    assert_eq!(record(&NvList::new()), None);
}
