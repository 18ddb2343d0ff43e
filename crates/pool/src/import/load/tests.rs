//! Loading the pools that OpenZFS made.

use super::*;
use device::Access;

const OPTIONS: LoadOptions = LoadOptions {
    purpose: Purpose::Reading,
    txg_max: None,
    state: None,
    cache_bytes: 16 << 20,
    without_logs: false,
};

#[test]
fn every_pool_loads() {
    for golden in golden::all_pools() {
        let mut devices = Devices::open(&golden.images(), Access::ReadOnly).unwrap();
        let pools = discover::assemble(devices.found());
        assert_eq!(pools.len(), 1, "{}", golden.name);
        let found = &pools[0];
        assert_eq!(found.name, golden.pool_name());
        let loaded = load(found.guid, &mut devices, &OPTIONS);
        let loaded = loaded.unwrap_or_else(|error| panic!("{}: {error}", golden.name));
        assert_eq!(loaded.config.guid(), found.guid);
        loaded.features.check_known(false).unwrap();
        println!(
            "{}: txg {} version {} {:?}",
            golden.name,
            loaded.uberblock.txg,
            loaded.uberblock.version,
            loaded.features.import_blocker()
        );
    }
}
