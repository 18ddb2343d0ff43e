//! How fast queued writes reach a file: `write_speed FILE [BLOCK_BYTES] [TOTAL_MIB] [PRODUCERS]`.
//! Prints MB/s and writes/s, and how they were merged.

use base::clock::monotonic_ns;
use base::{Guid, Txg, VdevId};
use device::{Access, BlockDevice, FileDevice};
use millpond_vdev::{IoClass, Leaf, LeafConfig, Node, Top, TopConfig, WriteGroup};
use std::path::Path;
use std::sync::Arc;
use sys::BufferMut;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |index: usize, default: u64| -> u64 {
        arguments
            .get(index)
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let path = arguments.get(1).ok_or("a file name is needed")?;
    let (block, total, producers) = (number(2, 128 << 10), number(3, 1024) << 20, number(4, 1));
    drop(FileDevice::create(Path::new(path), total + (8 << 20))?);
    let device = FileDevice::open(Path::new(path), Access::ReadWrite)?;
    println!("direct: {}", device.is_direct());
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    let config = LeafConfig {
        guid: Guid(1),
        path: path.clone(),
        ashift: 12,
        spare_room: None,
    };
    let leaf = Leaf::new(config, Some(device));
    let config = TopConfig {
        id: VdevId(0),
        guid: Guid(1),
        ashift: 12,
        asize: leaf.asize(),
        is_log: false,
    };
    let top = Top::new(config, Node::Leaf(Arc::clone(&leaf)));
    for round in ["fresh", "again"] {
        let start_ns = monotonic_ns();
        let group = WriteGroup::new(Txg(4));
        std::thread::scope(|scope| {
            for producer in 0..producers {
                let (top, group) = (&top, &group);
                scope.spawn(move || {
                    let share = total / producers;
                    for offset in (producer * share..(producer + 1) * share).step_by(block as usize)
                    {
                        let mut data = BufferMut::scratch(block as usize);
                        data[0] = offset as u8;
                        top.write(offset, data.freeze(), IoClass::AsyncWrite, group);
                    }
                });
            }
        });
        group.wait()?;
        let written_ns = monotonic_ns() - start_ns;
        top.flush()?;
        let flushed_ns = monotonic_ns() - start_ns;
        let writes = total / block;
        println!(
            "{round}: {} MB/s, {} writes/s; with the flush {} MB/s",
            total * 1000 / written_ns,
            u128::from(writes) * 1_000_000_000 / u128::from(written_ns),
            total * 1000 / flushed_ns,
        );
    }
    let statistics = leaf.statistics();
    println!(
        "merged {}, producer helps {}, high water {} KiB",
        statistics.merged,
        statistics.producer_helps,
        statistics.queued_bytes_high_water >> 10
    );
    std::fs::remove_file(path)?;
    Ok(())
}
