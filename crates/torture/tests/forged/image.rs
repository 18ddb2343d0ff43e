//! The bytes of a pool: blocks read through their pointers, and put back changed, with every checksum above them
//! made right.

use base::{ByteOrder, Txg};
use codec::generate_parity;
use codec::{Checksum, Compression, Salt, checksum, decompress};
use format::nvlist::Value;
use format::{BlockPointer, Dva, NvList, Uberblock, label};
use layout::{Block, Content, Kind, Layout, RaidZ};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Where a pointer to a block is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// In the uberblock.
    Uberblock,
    /// In the block with this number in the tree, at this byte.
    Block(usize, usize),
}

/// One of the files that a pool lies on.
struct Device {
    path: PathBuf,
    file: File,
    size: u64,
    /// Of its top-level vdev; none of a spare or a cache.
    ashift: Option<u32>,
    guid: u64,
}

/// A top-level vdev that blocks can be read from and stored in.
struct Top {
    layout: Layout,
    /// The devices that hold what each child holds, by their numbers.
    children: Vec<Vec<usize>>,
    /// Where nothing is stored yet, from the middle on.
    next: u64,
    size: u64,
}

/// A pool's images, and what was written to them since they were read.
pub(crate) struct PoolImage {
    devices: Vec<Device>,
    tops: BTreeMap<u64, Top>,
    /// The newest.
    pub(crate) uberblock: Uberblock,
    changed: Vec<(usize, u64, Vec<u8>)>,
}

fn number(list: &NvList, name: &str) -> Option<u64> {
    match list.get(name.as_bytes()) {
        Some(Value::Uint64(value)) => Some(*value),
        _ => None,
    }
}

fn text(list: &NvList, name: &str) -> String {
    match list.get(name.as_bytes()) {
        Some(Value::String(value)) => String::from_utf8_lossy(value).into_owned(),
        _ => String::new(),
    }
}

fn children(list: &NvList) -> &[NvList] {
    match list.get(b"children") {
        Some(Value::ListArray(lists)) => lists,
        _ => &[],
    }
}

impl Device {
    fn read(path: &Path) -> io::Result<Option<(Self, NvList)>> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        for index in 0..label::COUNT {
            let Some(start) = label::offset(size, index) else {
                continue;
            };
            let at = start + label::CONFIG_OFFSET;
            let mut piece = vec![0; label::CONFIG_SIZE];
            file.read_exact_at(&mut piece, at)?;
            let Ok(list) = label::decode_config(&piece, at) else {
                continue;
            };
            let vdev = match list.get(b"vdev_tree") {
                Some(Value::List(vdev)) => vdev.clone(),
                _ => NvList::new(),
            };
            let device = Self {
                path: path.to_owned(),
                file,
                size,
                ashift: number(&vdev, "ashift").and_then(|ashift| ashift.try_into().ok()),
                guid: number(&list, "guid").unwrap_or_default(),
            };
            return Ok(Some((device, vdev)));
        }
        Ok(None)
    }

    fn bytes_at(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, at).unwrap();
        bytes
    }

    /// The newest uberblock, and its slot.
    fn newest(&self) -> Option<(u64, Uberblock)> {
        let ashift = self.ashift?;
        let all = (0..label::COUNT).flat_map(|index| {
            let start = label::offset(self.size, index).expect("four labels");
            (0..label::slot_count(ashift)).filter_map(move |slot| {
                let at = start + label::slot_offset(slot, ashift);
                let piece = self.bytes_at(at, 1 << label::slot_shift(ashift));
                Some((slot, label::decode_uberblock(&piece, at).ok()?))
            })
        });
        all.max_by(|(_, one), (_, other)| one.compare_age(other))
    }
}

/// The devices of a vdev that hold the same: of one that is being replaced, several.
fn leaves(vdev: &NvList, devices: &[Device]) -> Vec<usize> {
    if children(vdev).is_empty() {
        let guid = number(vdev, "guid");
        let has_it = |device: &Device| Some(device.guid) == guid;
        return devices.iter().position(has_it).into_iter().collect();
    }
    children(vdev)
        .iter()
        .flat_map(|child| leaves(child, devices))
        .collect()
}

fn top(vdev: &NvList, devices: &[Device]) -> Option<Top> {
    let below = children(vdev);
    let kind = match text(vdev, "type").as_str() {
        "disk" | "file" => Kind::Single,
        "mirror" | "replacing" | "spare" => Kind::Mirror,
        "raidz" if vdev.get(b"raidz_expand_txgs").is_none() => {
            Kind::RaidZ(RaidZ::new(number(vdev, "nparity")?, below.len())?)
        }
        _ => return None,
    };
    let children: Vec<Vec<usize>> = match &kind {
        Kind::Single => vec![leaves(vdev, devices)],
        Kind::Mirror | Kind::RaidZ(_) | Kind::Draid(_) | Kind::Indirect => {
            below.iter().map(|child| leaves(child, devices)).collect()
        }
    };
    let size = number(vdev, "asize")?;
    Some(Top {
        layout: Layout::new(kind, u32::try_from(number(vdev, "ashift")?).ok()?),
        children,
        next: (size / 2).next_multiple_of(1 << 20),
        size,
    })
}

impl PoolImage {
    /// Reads the images in a folder. They are not to change.
    pub(crate) fn read(folder: &Path) -> io::Result<Self> {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<_>>()?;
        paths.sort();
        let (mut devices, mut vdevs) = (Vec::new(), Vec::new());
        for path in paths.iter().filter(|path| path.is_file()) {
            if let Some((device, vdev)) = Device::read(path)? {
                devices.push(device);
                vdevs.push(vdev);
            }
        }
        let tops = vdevs.iter().filter_map(|vdev| {
            let id = number(vdev, "id")?;
            Some((id, top(vdev, &devices)?))
        });
        let tops = tops.collect();
        let newest = devices.iter().filter_map(Device::newest);
        let newest = newest.max_by(|(_, one), (_, other)| one.compare_age(other));
        Ok(Self {
            uberblock: newest.expect("an uberblock").1,
            devices,
            tops,
            changed: Vec::new(),
        })
    }

    /// The contents of a block; none if it is not stored plainly on a top-level vdev whose layout is known, or does not
    /// decompress.
    pub(crate) fn block(&self, pointer: &BlockPointer) -> Option<Vec<u8>> {
        if pointer.is_hole() || pointer.is_embedded() || pointer.is_gang() {
            return None;
        }
        let dva = pointer.dva(0)?;
        let top = self.tops.get(&dva.vdev.0)?;
        let psize = pointer.psize();
        let mut stored = vec![0; usize::try_from(psize).ok()?];
        let block = Block {
            offset: dva.offset,
            psize,
            birth: pointer.physical_birth(),
        };
        for column in top.layout.columns(&block, top.children.len()) {
            let start = match column.content {
                Content::Whole if column.child == 0 => 0,
                Content::Whole | Content::Parity(_) => continue,
                Content::Data { start, .. } => usize::try_from(start).ok()?,
            };
            let device = &self.devices[*top.children[column.child].first()?];
            let len = usize::try_from(column.len)
                .ok()?
                .min(stored.len().checked_sub(start)?);
            let at = label::DATA_START + column.offset;
            let piece = stored.get_mut(start..start + len)?;
            device.file.read_exact_at(piece, at).ok()?;
        }
        let kind = pointer.compression().ok()?;
        if kind == Compression::Off {
            return Some(stored);
        }
        let mut plain = vec![0; usize::try_from(pointer.lsize()).ok()?];
        decompress(kind, &stored, &mut plain).ok()?;
        Some(plain)
    }

    /// Stores a block where there was nothing, and makes `pointer` refer to it.
    pub(crate) fn store(&mut self, pointer: &mut BlockPointer, plain: &[u8]) {
        let size = plain.len() as u64;
        let wanted = pointer.dva(0).map(|dva| dva.vdev.0);
        let id = wanted.filter(|id| self.tops.contains_key(id));
        let id = id.unwrap_or_else(|| *self.tops.keys().next().expect("a top-level vdev"));
        let kind = match pointer.checksum() {
            Ok(kind @ (Checksum::Fletcher2 | Checksum::Fletcher4 | Checksum::Sha256)) => kind,
            Ok(_) | Err(_) => Checksum::Fletcher4,
        };
        let (offset, asize) = self.place(id, plain);
        pointer.set_compression(Compression::Off);
        pointer.set_sizes(size, size);
        let value = checksum(kind, plain, ByteOrder::NATIVE, &Salt([0; 32]));
        pointer.set_checksum(kind, value);
        pointer.set_dvas(&[Dva {
            vdev: base::VdevId(id),
            offset,
            asize,
            gang: false,
        }]);
    }

    /// Puts bytes into free space of a top-level vdev; says where, and how much it takes.
    fn place(&mut self, id: u64, plain: &[u8]) -> (u64, u64) {
        let top = self.tops.get_mut(&id).expect("it was looked up");
        let asize = top.layout.asize(plain.len() as u64, self.uberblock.txg);
        loop {
            let offset = top.next;
            top.next += asize;
            assert!(top.next < top.size, "no room for what is forged");
            let columns = pieces(top, offset, plain, self.uberblock.txg);
            let is_free = columns.iter().all(|(device, at, bytes)| {
                let stored = self.devices[*device].bytes_at(*at, bytes.len());
                stored.iter().all(|byte| *byte == 0)
            });
            if is_free {
                self.changed.extend(columns);
                return (offset, asize);
            }
        }
    }

    /// Where the labels of a device begin.
    pub(crate) fn labels(&self, device: usize) -> Vec<u64> {
        let size = self.devices[device].size;
        let all = (0..label::COUNT).map(|index| label::offset(size, index));
        all.map(|at| at.expect("four labels")).collect()
    }

    /// How many devices there are.
    pub(crate) fn device_count(&self) -> usize {
        self.devices.len()
    }

    /// The ashift of a device and the slot of its newest uberblock; none of spares and caches.
    pub(crate) fn ring(&self, device: usize) -> Option<(u32, u64)> {
        let device = &self.devices[device];
        Some((device.ashift?, device.newest()?.0))
    }

    /// What a device held when it was read.
    pub(crate) fn bytes_at(&self, device: usize, at: u64, len: usize) -> Vec<u8> {
        self.devices[device].bytes_at(at, len)
    }

    /// Writes bytes where a device had others.
    pub(crate) fn put(&mut self, device: usize, at: u64, bytes: Vec<u8>) {
        self.changed.push((device, at, bytes));
    }

    /// Writes the uberblock, in the place of the newest, to all labels.
    pub(crate) fn store_uberblock(&mut self, uberblock: &Uberblock) {
        for device in 0..self.device_count() {
            let Some((ashift, slot)) = self.ring(device) else {
                continue;
            };
            for place in self.labels(device) {
                let at = place + label::slot_offset(slot, ashift);
                let slot = label::encode_uberblock(uberblock, ashift, at);
                self.put(device, at, slot);
            }
        }
    }

    /// Copies the images into a folder, with what was stored, and forgets that.
    pub(crate) fn copy_to(&mut self, folder: &Path) -> io::Result<()> {
        for device in &self.devices {
            let copied = std::process::Command::new("cp")
                .arg("--sparse=always")
                .args([&device.path, folder])
                .status();
            assert!(copied?.success());
        }
        for (device, at, bytes) in self.changed.drain(..) {
            let name = self.devices[device].path.file_name().expect("a file");
            let file = File::options().write(true).open(folder.join(name))?;
            file.write_all_at(&bytes, at)?;
        }
        for top in self.tops.values_mut() {
            top.next = (top.size / 2).next_multiple_of(1 << 20);
        }
        Ok(())
    }
}

/// What of a block that is written in a txg goes to which device, and where.
fn pieces(top: &Top, offset: u64, plain: &[u8], birth: Txg) -> Vec<(usize, u64, Vec<u8>)> {
    let block = Block {
        offset,
        psize: plain.len() as u64,
        birth,
    };
    let columns: Vec<_> = top.layout.columns(&block, top.children.len()).collect();
    let data: Vec<Vec<u8>> = columns
        .iter()
        .map(|column| {
            let start = match column.content {
                Content::Whole => 0,
                Content::Data { start, .. } => start as usize,
                Content::Parity(_) => return Vec::new(),
            };
            let mut bytes = plain[start.min(plain.len())..].to_vec();
            bytes.resize(column.len as usize, 0);
            bytes
        })
        .collect();
    let mut rows: Vec<Vec<u8>> = columns
        .iter()
        .filter(|column| matches!(column.content, Content::Parity(_)))
        .map(|column| vec![0; column.len as usize])
        .collect();
    let of_data: Vec<&[u8]> = data
        .iter()
        .map(Vec::as_slice)
        .filter(|bytes| !bytes.is_empty())
        .collect();
    let mut of_parity: Vec<&mut [u8]> = rows.iter_mut().map(Vec::as_mut_slice).collect();
    generate_parity(&of_data, &mut of_parity).expect("columns of a layout");
    let mut found = Vec::new();
    for (column, bytes) in columns.iter().zip(data) {
        let bytes = match column.content {
            Content::Parity(row) => rows[row].clone(),
            Content::Whole | Content::Data { .. } => bytes,
        };
        for device in &top.children[column.child] {
            found.push((*device, label::DATA_START + column.offset, bytes.clone()));
        }
    }
    found
}
