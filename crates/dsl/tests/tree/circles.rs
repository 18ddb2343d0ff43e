//! Directories whose maps lead back, or to one child by two names.

use dmu::Zap;
use millpond_dsl::{DslError, Task, TaskContext};

use crate::harness::{Harness, create};

/// Adds names to the map of a directory.
struct Forge {
    path: &'static str,
    leads: &'static [(&'static str, &'static str)],
}

impl Task for Forge {
    type Output = ();

    fn check(&mut self, _: &TaskContext<'_>) -> Result<(), DslError> {
        Ok(())
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<(), DslError> {
        let map = context.dsl.directory(self.path)?.phys()?.child_map;
        let map = Zap::open(&context.dsl.mos().set.object(map)?)?;
        for (name, to) in self.leads {
            let to = context.dsl.directory(to)?.id();
            map.add(context.tx, name.as_bytes(), to.0)?;
        }
        Ok(())
    }
}

#[test]
fn a_map_that_leads_back_is_walked_to_its_end() {
    let mut harness = Harness::new(3, &[]);
    for path in ["tank/a", "tank/a/b", "tank/a/b/c"] {
        harness.run(create(path)).unwrap();
    }
    let leads = &[
        ("up", "tank"),
        ("self", "tank/a/b"),
        ("twice", "tank/a/b/c"),
    ][..];
    for path in ["tank/a", "tank/a/b"] {
        harness.run(Forge { path, leads }).unwrap();
    }
    for _ in 0..2 {
        let root = harness.dsl.root_directory().unwrap();
        for heads in [
            harness.dsl.heads_under(&root),
            harness.dsl.readable_heads_under(&root),
        ] {
            let heads = heads.unwrap();
            let mut ids: Vec<_> = heads.iter().map(|head| head.directory().id()).collect();
            assert_eq!(ids.len(), 4);
            ids.sort();
            ids.dedup();
            assert_eq!(ids.len(), 4);
        }
        harness.reopen();
    }
}
