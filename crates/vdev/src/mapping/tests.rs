use super::*;
use format::block_pointer::Dva;

const SIZE: u64 = 1 << 20;

fn entry(source: u64, vdev: u64, offset: u64, asize: u64) -> MappingEntry {
    MappingEntry {
        source,
        destination: Dva {
            vdev: VdevId(vdev),
            offset,
            asize,
            gang: false,
        },
    }
}

/// Vdevs 0 and 2 are there.
fn destination(id: VdevId) -> Option<Destination> {
    [0, 2].contains(&id.0).then_some(Destination {
        asize: SIZE,
        sector: 512,
    })
}

fn build(entries: &[MappingEntry]) -> Result<Mapping, MappingError> {
    let mut builder = MappingBuilder::new(VdevId(1), SIZE);
    for entry in entries {
        builder.push(entry, &destination)?;
    }
    Ok(builder.finish(vec![(4096, Txg(7)), (SIZE, Txg(9))]))
}

#[test]
fn a_range_is_found_in_its_parts() {
    let mapping = build(&[
        entry(1024, 0, 8192, 1024),
        entry(2048, 2, 0, 4096),
        entry(8192, 0, 0, 512),
    ])
    .unwrap();
    let part = |source, vdev, offset, len, birth| Moved {
        source,
        vdev: VdevId(vdev),
        offset,
        len,
        birth: Txg(birth),
    };
    let all = [
        part(1024, 0, 8192, 1024, 7),
        part(2048, 2, 0, 4096, 7),
        part(8192, 0, 0, 512, 9),
    ];
    assert_eq!(mapping.all().collect::<Vec<_>>(), all);
    assert_eq!(mapping.parts(1024..6144).unwrap(), all[..2]);
    assert_eq!(
        mapping.parts(1536..2560).unwrap(),
        [part(1536, 0, 8704, 512, 7), part(2048, 2, 0, 512, 7)]
    );
    assert_eq!(
        mapping.parts(5120..6144).unwrap(),
        [part(5120, 2, 3072, 1024, 9)]
    );
    for missing in [0..512, 512..1536, 5632..6656, 8192..9216, SIZE..SIZE + 512] {
        assert_eq!(mapping.parts(missing.clone()), None, "{missing:?}");
    }
}

#[test]
fn what_nobody_wrote_is_refused() {
    let good = entry(4096, 0, 0, 4096);
    let unsorted = |entries: &[MappingEntry]| {
        assert!(matches!(build(entries), Err(MappingError::Unsorted { .. })));
    };
    unsorted(&[good, entry(0, 0, 0, 512)]);
    unsorted(&[good, entry(4096, 2, 0, 512)]);
    unsorted(&[good, entry(7680, 2, 0, 512)]);
    let outside = |entry| {
        let built = build(&[entry]);
        assert!(
            matches!(built, Err(MappingError::Outside { .. })),
            "{built:?}"
        );
    };
    outside(entry(SIZE - 512, 0, 0, 1024));
    outside(entry(0, 0, SIZE - 512, 1024));
    outside(entry(0, 0, !511, 1024));
    outside(entry(!511, 0, 0, 1024));
    // Between sectors.
    outside(entry(256, 0, 0, 512));
    outside(entry(0, 0, 256, 512));
    let nowhere = |entry| {
        let built = build(&[entry]);
        assert!(
            matches!(built, Err(MappingError::NoDestination { .. })),
            "{built:?}"
        );
    };
    nowhere(entry(0, 1, 0, 512));
    nowhere(entry(0, 3, 0, 512));
    let mut gang = good;
    gang.destination.gang = true;
    nowhere(gang);
}
