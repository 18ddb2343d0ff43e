//! Walks everything reachable and recomputes every account of space from it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use base::{ByteOrder, ObjectId, Txg};
use dmu::Zap;
use format::dsl::{DatasetPhys, DirectoryPhys, UsedBy};
use format::record::get_at;
use format::{BlockPointer, ObjectType, features, version};
use millpond_dsl::property::dataset::REFRESERVATION;
use millpond_dsl::{Bpobj, DatasetFeature, Deadlist, Dsl, Sizes};

use crate::blocks::{sum, tree};
use crate::memory::{Memory, block_number};

struct Checker<'a> {
    dsl: &'a Arc<Dsl>,
    memory: &'a Memory,
    datasets: BTreeMap<ObjectId, (DatasetPhys, Vec<BlockPointer>)>,
    directories: BTreeMap<ObjectId, DirectoryPhys>,
    reachable: HashMap<u64, BlockPointer>,
    objects: BTreeSet<u64>,
    empty_references: i64,
    zapified: i64,
    counts: BTreeMap<&'static str, i64>,
}

/// Checks every invariant; panics with what does not hold.
pub(crate) fn check(dsl: &Arc<Dsl>, memory: &Memory) {
    let mut checker = Checker {
        dsl,
        memory,
        datasets: BTreeMap::new(),
        directories: BTreeMap::new(),
        reachable: HashMap::new(),
        objects: BTreeSet::new(),
        empty_references: 0,
        zapified: 0,
        counts: BTreeMap::new(),
    };
    checker.collect();
    checker.check_datasets();
    checker.check_directories();
    checker.check_features();
    checker.check_objects();
    checker.check_leaks();
}

/// What the livelists of destroyed clones still hold.
pub(crate) fn deleted_blocks(dsl: &Dsl) -> Vec<BlockPointer> {
    let mos = dsl.mos();
    let zap = |id| Zap::open(&mos.set.object(id).unwrap()).unwrap();
    let pool = zap(ObjectId(1));
    let Some(lists) = pool.lookup(b"com.delphix:deleted_clones").unwrap() else {
        return Vec::new();
    };
    let mut found: BTreeMap<u64, (i64, BlockPointer)> = BTreeMap::new();
    for list in zap(ObjectId(lists)).entries().unwrap() {
        let list = Deadlist::open(mos, ObjectId(list.value)).unwrap();
        for part in list.entries().unwrap().into_values() {
            let note = &mut |pointer: &BlockPointer, freed| {
                let number = block_number(pointer).unwrap();
                let (count, _) = found.entry(number).or_insert((0, *pointer));
                *count += if freed { -1 } else { 1 };
                Ok(())
            };
            Bpobj::open(mos, part).unwrap().for_each(note).unwrap();
        }
    }
    let live = found.into_values().filter(|(count, _)| {
        assert!((0..=1).contains(count), "a block is listed {count} times");
        *count == 1
    });
    live.map(|(_, pointer)| pointer).collect()
}

impl Checker<'_> {
    fn set(&self) -> &dmu::ObjectSet {
        &self.dsl.mos().set
    }

    fn zap(&self, id: ObjectId) -> Zap {
        Zap::open(&self.set().object(id).unwrap()).unwrap()
    }

    fn note(&mut self, id: ObjectId) {
        if id.0 != 0 {
            assert!(self.objects.insert(id.0), "object {id} is referenced twice");
        }
    }

    fn collect(&mut self) {
        let mut after = ObjectId(0);
        while let Some(id) = self.set().next_object(after).unwrap() {
            after = id;
            let object = self.set().object(id).unwrap();
            let info = object.info();
            if info.object_type == ObjectType::OTN_ZAP_METADATA
                && (info.bonus_type == ObjectType::DSL_DATASET
                    || info.bonus_type == ObjectType::DSL_DIRECTORY)
            {
                self.zapified += 1;
            }
            if info.bonus_type == ObjectType::DSL_DATASET {
                let phys = object
                    .with_bonus(|bonus| DatasetPhys::decode(bonus, ByteOrder::NATIVE).unwrap());
                let blocks = tree(self.memory, &phys.block_pointer);
                for pointer in &blocks {
                    if let Some(number) = block_number(pointer) {
                        self.reachable.insert(number, *pointer);
                    }
                }
                self.datasets.insert(id, (phys, blocks));
            } else if info.bonus_type == ObjectType::DSL_DIRECTORY {
                let phys = object
                    .with_bonus(|bonus| DirectoryPhys::decode(bonus, ByteOrder::NATIVE).unwrap());
                self.directories.insert(id, phys);
            }
        }
    }

    fn deadlist(&self, id: ObjectId) -> Deadlist {
        Deadlist::open(self.dsl.mos(), id).unwrap()
    }

    fn dead_between(&self, id: ObjectId, low: Txg) -> Sizes {
        self.deadlist(id).sizes_between(low, None).unwrap()
    }

    fn check_datasets(&self) {
        for (id, (phys, blocks)) in &self.datasets {
            let all = sum(self.memory, blocks.iter());
            let stored = Sizes::stored(
                phys.referenced_bytes,
                phys.compressed_bytes,
                phys.uncompressed_bytes,
            );
            assert_eq!(stored, all, "what dataset {id} references");
            let newer = blocks
                .iter()
                .filter(|one| one.birth() > phys.previous_snapshot_txg);
            if phys.is_snapshot() {
                let next = &self.datasets[&phys.next_snapshot].0;
                assert_eq!(next.previous_snapshot, *id, "successor of {id}");
                let unique = self
                    .dead_between(next.deadlist, phys.previous_snapshot_txg)
                    .used;
                assert_eq!(
                    phys.unique_bytes.cast_signed(),
                    unique,
                    "unique of snapshot {id}"
                );
                let clones = if self.dsl.mos().services.version() < version::ORIGIN {
                    let is_clone = |one: &&DirectoryPhys| one.origin == *id;
                    self.directories.values().filter(is_clone).count() as u64
                } else if phys.next_clones.0 == 0 {
                    0
                } else {
                    self.zap(phys.next_clones).len().unwrap()
                };
                assert_eq!(phys.child_count, 1 + clones, "children of snapshot {id}");
            } else {
                let unique = sum(self.memory, newer).used;
                assert_eq!(
                    phys.unique_bytes.cast_signed(),
                    unique,
                    "unique of head {id}"
                );
            }
            self.check_deadlist(*id, phys, blocks);
        }
    }

    /// The deadlist holds what the previous snapshot has and this dataset has not.
    fn check_deadlist(&self, id: ObjectId, phys: &DatasetPhys, blocks: &[BlockPointer]) {
        let Some((_, before)) = self.datasets.get(&phys.previous_snapshot) else {
            return;
        };
        let mine: BTreeSet<u64> = blocks.iter().filter_map(block_number).collect();
        let mut expected: BTreeSet<u64> = before.iter().filter_map(block_number).collect();
        expected.retain(|number| !mine.contains(number));
        let mut found = BTreeSet::new();
        let mut total = Sizes::ZERO;
        let dead = self.deadlist(phys.deadlist);
        let lists = match dead.is_plain() {
            true => BTreeMap::from([(Txg(0), dead.id())]),
            false => dead.entries().unwrap(),
        };
        for (key, list) in lists {
            let list = Bpobj::open(self.dsl.mos(), list).unwrap();
            total += list.sizes().unwrap();
            list.for_each(&mut |pointer, _| {
                assert!(pointer.birth() > key, "a block before its key");
                if let Some(number) = block_number(pointer) {
                    assert!(found.insert(number), "block {number} is dead twice");
                }
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(found, expected, "deadlist of {id}");
        assert_eq!(total, dead.sizes().unwrap(), "sizes of {id}'s dead");
    }

    fn check_directories(&self) {
        for (id, phys) in &self.directories {
            let name = self.dsl.directory_by_id(*id).unwrap().name();
            let used = |by: UsedBy| phys.used_breakdown[by.index()].cast_signed();
            let total: i64 = UsedBy::ALL.into_iter().map(used).sum();
            let breaks_down = phys.flags & DirectoryPhys::FLAG_USED_BREAKDOWN != 0;
            assert_eq!(
                total != 0,
                breaks_down && phys.used_bytes != 0,
                "breakdown of {name}"
            );
            if breaks_down {
                assert_eq!(phys.used_bytes.cast_signed(), total, "breakdown of {name}");
            }
            let children: Vec<_> = self
                .directories
                .values()
                .filter(|child| child.parent == *id)
                .collect();
            let below: i64 = children
                .iter()
                .map(|child| child.used_bytes.cast_signed())
                .sum();
            if breaks_down {
                assert_eq!(used(UsedBy::Children), below, "children of {name}");
            }
            let reserved: i64 = children
                .iter()
                .map(|child| {
                    child
                        .reserved
                        .saturating_sub(child.used_bytes)
                        .cast_signed()
                })
                .sum();
            if breaks_down {
                assert_eq!(
                    used(UsedBy::ChildReservations),
                    reserved,
                    "reservations under {name}"
                );
            }
            if phys.head_dataset.0 == 0 || name.contains('$') {
                continue;
            }
            self.check_own(*id, phys, &name, &children, below + reserved);
        }
    }

    fn check_own(
        &self,
        id: ObjectId,
        phys: &DirectoryPhys,
        name: &str,
        children: &[&DirectoryPhys],
        by_children: i64,
    ) {
        let origin = self.datasets.get(&phys.origin);
        let origin_txg = origin.map_or(Txg(0), |(phys, _)| phys.creation_txg);
        let (_, blocks) = &self.datasets[&phys.head_dataset];
        let head = sum(
            self.memory,
            blocks.iter().filter(|one| one.birth() > origin_txg),
        );
        let mut dead = Sizes::ZERO;
        for (own, _) in self
            .datasets
            .values()
            .filter(|(own, _)| own.directory == id)
        {
            dead += self.dead_between(own.deadlist, origin_txg);
        }
        let used = |by: UsedBy| phys.used_breakdown[by.index()].cast_signed();
        if phys.flags & DirectoryPhys::FLAG_USED_BREAKDOWN != 0 {
            assert_eq!(used(UsedBy::Head), head.used, "head of {name}");
            assert_eq!(used(UsedBy::Snapshots), dead.used, "snapshots of {name}");
        } else {
            let unique = self.datasets[&phys.head_dataset].0.unique_bytes;
            let dataset = self.dsl.dataset_by_id(phys.head_dataset).unwrap();
            let reserved = dataset.get(REFRESERVATION).unwrap().value;
            let unused = reserved.saturating_sub(unique).cast_signed();
            let total = head.used + dead.used + by_children + unused;
            assert_eq!(phys.used_bytes.cast_signed(), total, "what {name} uses");
        }
        let mut all = head + dead;
        for child in children {
            all += Sizes::stored(0, child.compressed_bytes, child.uncompressed_bytes);
        }
        // The root holds the hidden directories' blocks as well, which are children.
        assert_eq!(
            phys.compressed_bytes.cast_signed(),
            all.compressed,
            "compressed of {name}"
        );
        assert_eq!(
            phys.uncompressed_bytes.cast_signed(),
            all.uncompressed,
            "uncompressed of {name}"
        );
    }

    fn count(&mut self, feature: &features::Feature) {
        *self.counts.entry(feature.guid).or_insert(0) += 1;
    }

    fn check_features(&mut self) {
        let ids: Vec<_> = self.datasets.keys().copied().collect();
        for id in ids {
            let dataset = self.dsl.dataset_by_id(id).unwrap();
            for feature in dataset.features().unwrap() {
                self.count(feature.feature());
            }
            let bookmarks = dataset.bookmarks().unwrap();
            if !bookmarks.is_empty() {
                self.count(&features::BOOKMARKS);
            }
            for bookmark in bookmarks {
                if bookmark.phys.counts_freed() {
                    self.count(&features::BOOKMARK_WRITTEN);
                    self.count(&features::BOOKMARK_V2);
                }
            }
        }
        for feature in DatasetFeature::ALL {
            self.compare(feature.feature());
        }
        self.compare(&features::BOOKMARKS);
        self.compare(&features::BOOKMARK_WRITTEN);
        self.compare(&features::BOOKMARK_V2);
        self.counts
            .insert(features::EXTENSIBLE_DATASET.guid, self.zapified);
        self.compare(&features::EXTENSIBLE_DATASET);
    }

    fn compare(&self, feature: &features::Feature) {
        let expected = self.counts.get(feature.guid).copied().unwrap_or(0);
        assert_eq!(
            self.memory.count(feature),
            expected,
            "count of {}",
            feature.name
        );
    }

    fn note_bpobj(&mut self, id: ObjectId) {
        let empty = self.zap(ObjectId(1)).lookup(b"empty_bpobj").unwrap();
        if empty == Some(id.0) {
            self.empty_references += 1;
            return;
        }
        self.note(id);
        let list = Bpobj::open(self.dsl.mos(), id).unwrap();
        let header = list.header().unwrap();
        self.note(header.subobjects);
        if header.subobjects.0 != 0 {
            let mut bytes = vec![0; header.subobject_count as usize * 8];
            self.set()
                .object(header.subobjects)
                .unwrap()
                .read(0, &mut bytes)
                .unwrap();
            for chunk in bytes.chunks_exact(8) {
                self.note_bpobj(ObjectId(get_at(chunk, 0, ByteOrder::NATIVE)));
            }
        }
    }

    fn note_deadlist(&mut self, id: ObjectId) {
        if self.deadlist(id).is_plain() {
            return self.note_bpobj(id);
        }
        self.note(id);
        for list in self.deadlist(id).entries().unwrap().into_values() {
            self.note_bpobj(list);
        }
    }

    fn note_grants(&mut self, table: ObjectId) {
        self.note(table);
        if table.0 != 0 {
            for granted in self.zap(table).entries().unwrap() {
                self.note(ObjectId(granted.value));
            }
        }
    }

    /// Every object is referenced exactly once.
    fn check_objects(&mut self) {
        self.note(ObjectId(1));
        let directory = self.zap(ObjectId(1));
        for entry in directory.entries().unwrap() {
            let id = ObjectId(entry.value);
            match entry.name.as_slice() {
                b"root_dataset" => self.note(id),
                b"free_bpobj" => self.note_bpobj(id),
                b"empty_bpobj" | b"bptree_obj" | b"tmp_userrefs" => self.note(id),
                b"com.delphix:deleted_clones" => {
                    self.note(id);
                    for list in self.zap(id).entries().unwrap() {
                        self.count(&features::LIVELIST);
                        self.note_deadlist(ObjectId(list.value));
                    }
                }
                other => panic!("an unknown key {}", String::from_utf8_lossy(other)),
            }
        }
        for (id, phys) in self.directories.clone() {
            let directory = self.dsl.directory_by_id(id).unwrap();
            for child in self.zap(phys.child_map).entries().unwrap() {
                self.note(ObjectId(child.value));
            }
            for one in [
                phys.child_map,
                phys.properties,
                phys.clones,
                phys.head_dataset,
            ] {
                self.note(one);
            }
            self.note_grants(phys.delegation);
            if let Some(list) = directory.livelist().unwrap() {
                self.count(&features::LIVELIST);
                self.note_deadlist(list);
                self.check_livelist(&phys, list);
            }
        }
        for (id, (phys, _)) in self.datasets.clone() {
            let dataset = self.dsl.dataset_by_id(id).unwrap();
            self.note_deadlist(phys.deadlist);
            for one in [
                phys.snapshot_names,
                phys.next_clones,
                phys.properties,
                phys.user_references,
            ] {
                self.note(one);
            }
            if let Some(zap) = dataset.extra_word(format::dsl::key::BOOKMARKS).unwrap() {
                self.note(ObjectId(zap));
            }
            if phys.snapshot_names.0 != 0 {
                for snapshot in self.zap(phys.snapshot_names).entries().unwrap() {
                    self.note(ObjectId(snapshot.value));
                }
            }
        }
        let mut all = BTreeSet::new();
        let mut after = ObjectId(0);
        while let Some(id) = self.set().next_object(after).unwrap() {
            all.insert(id.0);
            after = id;
        }
        assert_eq!(self.objects, all, "objects referenced, and objects there");
        self.counts
            .insert(features::EMPTY_BPOBJ.guid, self.empty_references);
        self.compare(&features::EMPTY_BPOBJ);
        self.compare(&features::LIVELIST);
    }

    /// What a livelist nets is what the head has of its own.
    fn check_livelist(&self, directory: &DirectoryPhys, list: ObjectId) {
        let origin_txg = self.datasets[&directory.origin].0.creation_txg;
        let (_, blocks) = &self.datasets[&directory.head_dataset];
        let own = blocks.iter().filter(|one| one.birth() > origin_txg);
        let mut expected: BTreeMap<u64, i64> = BTreeMap::new();
        for number in own.filter_map(block_number) {
            *expected.entry(number).or_insert(0) += 1;
        }
        let mut found: BTreeMap<u64, i64> = BTreeMap::new();
        for part in self.deadlist(list).entries().unwrap().into_values() {
            let part = Bpobj::open(self.dsl.mos(), part).unwrap();
            part.for_each(&mut |pointer, freed| {
                let count = found.entry(block_number(pointer).unwrap()).or_insert(0);
                *count += if freed { -1 } else { 1 };
                Ok(())
            })
            .unwrap();
        }
        found.retain(|_, count| *count != 0);
        assert_eq!(found, expected, "livelist {list}");
    }

    /// Allocated is what is reachable or waits to be freed.
    fn check_leaks(&mut self) {
        let store = self.memory;
        let mut waiting = Sizes::ZERO;
        let mos = tree(store, &self.set().root_pointer());
        let mos_size = sum(store, mos.iter());
        let mut reachable: BTreeSet<u64> = self.reachable.keys().copied().collect();
        reachable.extend(mos.iter().filter_map(block_number));
        let pool = self.zap(ObjectId(1));
        if let Some(free) = pool.lookup(b"free_bpobj").unwrap() {
            let list = Bpobj::open(self.dsl.mos(), ObjectId(free)).unwrap();
            list.for_each(&mut |pointer, _| {
                waiting += Sizes::of(store, pointer);
                if let Some(number) = block_number(pointer) {
                    assert!(reachable.insert(number), "a waiting block is reachable");
                }
                Ok(())
            })
            .unwrap();
        }
        for pointer in deleted_blocks(self.dsl) {
            waiting += Sizes::of(store, &pointer);
            if let Some(number) = block_number(&pointer) {
                assert!(reachable.insert(number), "a waiting block is reachable");
            }
        }
        if pool.lookup(b"bptree_obj").unwrap().is_none() {
            let live: BTreeSet<u64> = store.blocks.lock().unwrap().live.iter().copied().collect();
            let lost: Vec<_> = reachable.difference(&live).collect();
            assert!(lost.is_empty(), "reachable blocks are free: {lost:?}");
            let leaked: Vec<_> = live.difference(&reachable).collect();
            assert!(leaked.is_empty(), "blocks leaked: {leaked:?}");
            let hidden = |name: &str| {
                let directory = self
                    .directories
                    .iter()
                    .find(|(id, _)| self.dsl.directory_by_id(**id).unwrap().component() == name);
                directory.map_or(0, |(_, phys)| phys.used_bytes.cast_signed())
            };
            assert_eq!(hidden("$FREE"), waiting.used, "what waits to be freed");
            assert_eq!(hidden("$MOS"), mos_size.used, "the pool's own object set");
            assert_eq!(hidden("$LEAK"), 0, "what could not be freed");
        }
    }
}
