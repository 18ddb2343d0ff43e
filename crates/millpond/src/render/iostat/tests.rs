use super::*;
use base::metrics::Histogram;

fn distribution(values: &[u64]) -> Distribution {
    let histogram = Histogram::new();
    values.iter().for_each(|value| histogram.record(*value));
    Distribution::from(&histogram.snapshot())
}

fn vdev(kind: &str, guid: u64, path: Option<&str>, children: Vec<VdevReport>) -> VdevReport {
    VdevReport {
        path: path.map(ToOwned::to_owned),
        size: 64 << 20,
        allocated: Some(104 << 10),
        children,
        ..VdevReport::healthy(kind, guid)
    }
}

fn side(guid: u64) -> VdevReport {
    let mut side = vdev("file", guid, Some(&format!("/pond/{guid}.img")), Vec::new());
    side.allocated = None;
    side
}

/// A mirror that was idle for 9 s of 10: 10 reads on one side, 20 writes on both.
fn report() -> IoReport {
    let mut read = LeafIo::default();
    read.async_write.bytes = 20 << 10;
    read.async_write.disk_ns = distribution(&[1_500_000; 20]);
    read.async_write.total_ns = distribution(&[3_000_000; 20]);
    read.async_write.queue_ns = distribution(&[1_500_000; 20]);
    read.async_write.single_bytes = distribution(&[1024; 20]);
    let other = read.clone();
    read.sync_read.bytes = 40 << 10;
    read.sync_read.disk_ns = distribution(&[700; 10]);
    read.sync_read.total_ns = distribution(&[700; 10]);
    read.sync_read.single_bytes = distribution(&[4096; 10]);
    read.sync_read.active = 2;
    IoReport {
        name: "tank".to_owned(),
        guid: 1,
        uptime_ns: 10_000_000_000,
        size: 64 << 20,
        allocated: 104 << 10,
        vdevs: vec![vdev("mirror", 2, None, vec![side(3), side(4)])],
        leaves: vec![(3, read), (4, other)],
    }
}

#[test]
fn the_plain_table() {
    let table = iostat(&[report()], IoLayout::default());
    assert_eq!(
        table.header,
        "              capacity     operations     bandwidth \n\
         pool        alloc   free   read  write   read  write\n\
         ----------  -----  -----  -----  -----  -----  -----\n"
    );
    assert_eq!(
        table.body,
        "tank         104K  63.9M      1      4     4K     4K\n"
    );
    let two = iostat(&[report(), report()], IoLayout::default());
    assert!(
        two.body
            .ends_with("\n----------  -----  -----  -----  -----  -----  -----\n")
    );
}

#[test]
fn vdevs_and_their_writes() {
    let layout = IoLayout {
        vdevs: true,
        ..IoLayout::default()
    };
    assert_eq!(
        iostat(&[report()], layout).body,
        "tank              104K  63.9M      1      4     4K     4K\n  \
         mirror-0        104K  63.9M      1      4     4K     4K\n    \
         /pond/3.img      -      -      1      2     4K     2K\n    \
         /pond/4.img      -      -      0      2      0     2K\n\
         ---------------  -----  -----  -----  -----  -----  -----\n"
    );
}

#[test]
fn latencies_and_queues() {
    let layout = IoLayout {
        latency: true,
        queues: true,
        ..IoLayout::default()
    };
    let table = iostat(&[report()], layout);
    let lines: Vec<&str> = table.header.lines().collect();
    assert_eq!(
        lines[0],
        "              capacity     operations     bandwidth    total_wait     disk_wait    \
         syncq_wait    asyncq_wait  scrub   trim  rebuild   syncq_read    syncq_write   \
         asyncq_read  asyncq_write   scrubq_read   trimq_write  rebuildq_write"
    );
    assert_eq!(
        lines[1],
        "pool        alloc   free   read  write   read  write   read  write   read  write   \
         read  write   read  write   wait   wait   wait   pend  activ   pend  activ   pend  \
         activ   pend  activ   pend  activ   pend  activ   pend  activ"
    );
    assert_eq!(
        table.body,
        "tank         104K  63.9M      1      4     4K     4K  700ns    3ms  700ns    1ms      \
         -      -      -    1ms      -      -      -      0      2      0      0      0      \
         0      0      0      0      0      0      0      0      0\n"
    );
}

#[test]
fn scripts_get_tabs_and_exact_numbers() {
    let layout = IoLayout {
        style: Style {
            scripted: true,
            exact: true,
        },
        latency: true,
        ..IoLayout::default()
    };
    let table = iostat(&[report()], layout);
    assert_eq!(table.header, "");
    assert_eq!(
        table.body,
        "tank\t106496\t67002368\t1\t4\t4096\t4096\t700\t3000000\t700\t1500000\t0\t0\t0\t1500000\t\
         0\t0\t0\n"
    );
}

#[test]
fn histograms_have_every_row() {
    let latency = IoLayout {
        histogram: Some(IoHistogram::Latency),
        ..IoLayout::default()
    };
    let text = iostat(&[report()], latency).body;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "tank         total_wait     disk_wait    syncq_wait    asyncq_wait                     "
    );
    assert_eq!(
        lines[1],
        "latency      read  write   read  write   read  write   read  write  scrub   trim  rebuild"
    );
    assert_eq!(lines.len(), 3 + LATENCY_ROWS + 1);
    assert!(lines[3].starts_with("1ns             0      0"));
    assert_eq!(
        lines[3 + 9],
        "1us            10      0     10      0      0      0      0      0      0      0      0"
    );
    assert!(lines[3 + LATENCY_ROWS - 1].starts_with("137s "));
    let size = IoLayout {
        histogram: Some(IoHistogram::Size),
        ..IoLayout::default()
    };
    let text = iostat(&[report()], size).body;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "tank          sync_read    sync_write    async_read    async_write      scrub         \
         trim         rebuild  "
    );
    assert_eq!(lines.len(), 3 + SIZE_ROWS + 1);
    assert_eq!(
        lines[4],
        "1K              0      0      0      0      0      0     40      0      0      0      \
         0      0      0      0"
    );
    assert!(lines[6].starts_with("4K             10      0"));
    assert!(lines[18].starts_with("16M "));
}
