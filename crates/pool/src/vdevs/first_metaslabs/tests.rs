//! Pools that were left when a new vdev was in the configuration and had no metaslabs.

use std::path::Path;
use std::sync::Arc;

use base::VdevId;
use device::FileDevice;
use dsl::{Task, TaskContext};
use format::config::keys;

use crate::churn::Churn;
use crate::create::CreateOptions;
use crate::import::options::{ImportOptions, Selection};
use crate::pool::Pool;
use crate::pool::services::PoolServices;
use crate::pool::status::VdevRole;
use crate::vdevs::new::{NewDevice, NewVdev};

const SIZE: u64 = 96 << 20;

fn single(folder: &Path, name: &str) -> NewVdev {
    let path = folder.join(name);
    FileDevice::create(&path, SIZE).unwrap();
    NewVdev::Single(NewDevice::Path(path))
}

/// Takes the metaslabs of a vdev on which nothing lies: OpenZFS has not made them yet.
struct WithoutMetaslabs(Arc<PoolServices>);

impl Task for WithoutMetaslabs {
    type Output = ();

    fn check(&mut self, _: &TaskContext<'_>) -> dsl::Result<()> {
        Ok(())
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> dsl::Result<()> {
        let array = self.0.config.change(|config| {
            let top = config.top_mut(VdevId(1)).unwrap();
            let array = top.object(keys::METASLAB_ARRAY);
            top.list.set(keys::METASLAB_ARRAY, 0_u64);
            top.list.set(keys::METASLAB_SHIFT, 0_u64);
            array.unwrap()
        });
        Ok(self.0.mos.free(context.tx, array)?)
    }
}

/// Leaves a pool whose second vdev, of a role, has no metaslabs.
fn leave(folder: &Path, role: VdevRole) {
    let options = CreateOptions::new("tank", vec![single(folder, "one")]);
    let pool = Pool::create(options).unwrap();
    let new = [(role, single(folder, "two"))];
    pool.add_vdevs(&new, None, false).unwrap();
    let added = pool.space.as_ref().unwrap().vdev(VdevId(1)).unwrap();
    added.set_allocatable(false);
    let services = Arc::clone(&pool.services);
    pool.dsl().run(WithoutMetaslabs(services)).unwrap();
    assert_eq!(added.allocated_bytes(), 0);
    pool.export().unwrap();
}

fn import(folder: &Path, read_only: bool) -> Arc<Pool> {
    let mut options = ImportOptions::new(vec![folder.to_owned()], Selection::Only);
    options.read_only = read_only;
    Pool::import(&options).unwrap()
}

#[test]
fn a_vdev_without_metaslabs_gets_them() {
    for role in [VdevRole::Data, VdevRole::Log, VdevRole::Special] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        leave(folder, role);
        drop(import(folder, true));
        let pool = import(folder, false);
        let top = pool.config().top(VdevId(1)).cloned().unwrap();
        assert!(!top.has_no_metaslabs());
        let mut churn = Churn::new(&pool, 1);
        churn.run(&pool, 10);
        let space = pool.space.as_ref().unwrap().vdev(VdevId(1)).unwrap();
        assert_eq!(space.geometry().class, role.class());
        assert!(
            role == VdevRole::Log || space.allocated_bytes() > 0,
            "{role:?}"
        );
        pool.export().unwrap();
        drop(pool);
        if let Some(zdb) = golden::Zdb::from_environment() {
            zdb.assert_clean(folder, "tank");
        }
        churn.check(&import(folder, false));
    }
}
