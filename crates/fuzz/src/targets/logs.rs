//! Intent logs: their blocks, the records in them, and what the records say.

use crate::target::{ORDERS, Target, targets};
use format::intent_log::{ChainElement, ChainForm, Change, Records};

pub(super) const TARGETS: &[Target] = targets! {
    log_block: |bytes| {
        for form in [ChainForm::Old, ChainForm::Slim] {
            let Ok((element, order)) = ChainElement::find(bytes, form) else { continue };
            let Ok(range) = form.records(&element, bytes.len()) else { continue };
            Records::new(&bytes[range], order).for_each(drop);
        }
    };
    log_records: |bytes| {
        for order in ORDERS {
            for record in Records::new(bytes, order).flatten() {
                record.pointers().for_each(drop);
            }
        }
    };
    log_changes: |bytes| {
        // What a record says is the same in the record that is made of it, in both orders.
        for order in ORDERS {
            for record in Records::new(bytes, order).flatten() {
                let Ok(change) = Change::parse(&record) else { continue };
                let _ = change.object();
                for again in ORDERS {
                    let encoded = change.encode(again);
                    let decoded = format::intent_log::Record::decode(&encoded, again);
                    let decoded = decoded.expect("our own record decodes");
                    let _ = Change::parse(&decoded).expect("our own record is understood");
                }
            }
        }
    };
};
