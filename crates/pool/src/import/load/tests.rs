//! Loading the pools that OpenZFS made.

use super::*;
use device::Access;

const OPTIONS: LoadOptions = LoadOptions {
    writable: false,
    txg_max: None,
    state: None,
    cache_bytes: 16 << 20,
    without_logs: false,
};

#[test]
fn every_pool_but_those_with_indirect_vdevs_loads() {
    const OTHER_VDEVS: [&str; 1] = ["removed"];
    for golden in golden::all_pools() {
        let mut devices = Devices::open(&golden.images(), Access::ReadOnly).unwrap();
        let pools = discover::assemble(devices.found());
        assert_eq!(pools.len(), 1, "{}", golden.name);
        let found = &pools[0];
        assert_eq!(found.name, golden.pool_name());
        let loaded = load(found.guid, &mut devices, &OPTIONS);
        if OTHER_VDEVS.contains(&golden.name.as_str()) {
            assert!(
                matches!(loaded, Err(PoolError::UnsupportedVdev { .. })),
                "{}",
                golden.name
            );
            continue;
        }
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
