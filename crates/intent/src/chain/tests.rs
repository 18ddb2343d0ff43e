use base::VdevId;
use format::{Dva, ObjectType};

use super::*;

fn block(number: u64) -> BlockPointer {
    let mut pointer = BlockPointer::for_block(ObjectType::INTENT_LOG, 0, 4096, 4096);
    let dva = Dva {
        vdev: VdevId(0),
        offset: number << 12,
        asize: 4096,
        gang: false,
    };
    pointer.set_dva(0, Some(dva));
    pointer.set_birth(Txg(9), Txg(9));
    pointer
}

/// What is found when a batch of these blocks is said to be durable, of a chain of five of which these are.
fn found(durable: &[u64], batch: std::ops::Range<u64>) -> Option<&'static str> {
    let mut chain = Chain::open(&LogHeader::EMPTY);
    chain
        .links
        .extend((0..5).map(|number| Link::unwritten(block(number))));
    for number in durable {
        chain.made_durable(&block(*number));
    }
    let findings = Findings::default();
    let batch: Vec<BlockPointer> = batch.map(block).collect();
    chain.check_durable(&findings, batch.iter());
    findings.first().map(|first| first.name)
}

#[test]
fn a_batch_that_is_said_to_be_durable_behind_a_block_that_is_not_is_a_broken_invariant() {
    assert_eq!(found(&[0], 0..1), None);
    assert_eq!(found(&[0, 1, 2], 1..3), None);
    assert_eq!(found(&[1, 2], 1..3), Some("intent.durable"));
    assert_eq!(found(&[0, 1], 1..3), Some("intent.durable"));
    assert_eq!(found(&[0, 2], 1..3), Some("intent.durable"));
}

#[test]
fn a_batch_whose_chain_was_given_up_is_none_of_this() {
    assert_eq!(found(&[], 5..7), None);
    assert_eq!(found(&[], 0..0), None);
}
