//! Streams that are cut, or of which a bit was flipped.

use crate::bench::Bench;
use crate::golden_streams::stream;

/// Numbers without a pattern that are the same each time.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % end
    }
}

#[test]
fn a_damaged_stream_leaves_nothing() {
    let Some(pool) = golden::pool("streams") else {
        return;
    };
    let mut bench = Bench::new();
    let (full, incremental) = (stream(&pool, "full"), stream(&pool, "incr"));
    let mut chance = Chance(11);
    for round in 0..6 {
        let mut cut = full.clone();
        cut.truncate(chance.below(full.len()));
        bench.receive(cut, false).unwrap_err();
        let mut flipped = full.clone();
        flipped[chance.below(full.len())] ^= 1 << (round % 8);
        bench.receive(flipped, false).unwrap_err();
        assert_eq!(bench.names(), ["tank"], "round {round}");
    }
    bench.check();
    bench.receive(full, false).unwrap();
    let before = bench.files("tank/src");
    for round in 0..6 {
        let mut cut = incremental.clone();
        cut.truncate(chance.below(incremental.len()));
        bench.receive(cut, false).unwrap_err();
        let mut flipped = incremental.clone();
        flipped[chance.below(incremental.len())] ^= 1 << (round % 8);
        bench.receive(flipped, false).unwrap_err();
        assert_eq!(
            bench.names(),
            ["tank", "tank/src", "tank/src@1"],
            "round {round}"
        );
    }
    assert_eq!(
        before.differences(&bench.files("tank/src")),
        Vec::<String>::new()
    );
    bench.check();
    bench.receive(incremental, false).unwrap();
    bench.check();
}
