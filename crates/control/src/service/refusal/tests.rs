//! What a caller can do about errors of lower layers.

use std::sync::Arc;

use super::*;

#[test]
fn an_error_within_an_error_keeps_its_kind() {
    let full = PoolError::Dataset(DslError::NoSpace);
    assert_eq!(kind_of(&full), FailureKind::Space);
    let taken = PoolError::Dataset(DslError::Exists {
        name: "tank/a".to_owned(),
    });
    assert_eq!(kind_of(&taken), FailureKind::Exists);
    let device: Arc<str> = Arc::from("/dev/one");
    let denied = PoolError::Device(DeviceError::Denied {
        device: Arc::clone(&device),
        write: true,
    });
    assert_eq!(kind_of(&denied), FailureKind::Permission);
    let gone = PoolError::Device(DeviceError::NotFound { device });
    assert_eq!(kind_of(&gone), FailureKind::Missing);
}

#[test]
fn only_what_devices_did_is_called_their_fault() {
    assert_eq!(
        kind_of(&PoolError::Scan("there is no active scrub")),
        FailureKind::Invalid
    );
    let name = "tank".to_owned();
    assert_eq!(
        kind_of(&PoolError::Ambiguous { name }),
        FailureKind::Invalid
    );
    let kind = "draid".to_owned();
    assert_eq!(
        kind_of(&PoolError::UnsupportedVdev { kind }),
        FailureKind::Unsupported
    );
}

#[test]
fn a_pool_that_is_suspended_does_not_make_the_request_invalid() {
    let reason_of_it = "no device answers".to_owned();
    let suspended = DslError::Engine(txg::TxgError::Suspended {
        reason: reason_of_it,
    });
    assert_eq!(reason(&suspended).0, FailureKind::Medium);
}
