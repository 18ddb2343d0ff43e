//! Writing a file's attributes to its object.

use base::{ByteOrder, ObjectId};
use std::sync::Arc;

use dmu::{Object, Tx};
use format::ObjectType;
use format::acl::{self, Ace};
use format::record::put_at;
use format::sa::{Attribute, Header};
use format::znode::{TAIL, ZnodePhys};

use super::{Form, State, Znode, internal_flags};
use crate::packing::{Block, Place, Places, Value, divide, lift, locate, pack};
use crate::registry::Registry;
use crate::store::Store;
use crate::{Corruption, PosixError, Result};

/// Bytes that a spill pointer takes from the bonus.
const SPILL_POINTER_SIZE: usize = 128;

/// The largest access list that is believed.
const ACL_SIZE_MAX: u32 = 64 << 10;

/// One change of what is stored: the new bytes, or removal.
pub(crate) type Edit<'a> = (Attribute, Option<&'a [u8]>);

/// What only the old form of a file needs.
struct OldForm {
    /// An access list outside of the file, in memory: to be freed it is not read.
    list: Option<Arc<Object>>,
    /// The target of a symbolic link among its data.
    has_target: bool,
}

impl Znode {
    /// Whether all of `attributes` are in the bonus, where storing them reads nothing.
    fn is_in_place(state: &State, attributes: &[Attribute]) -> bool {
        match &state.form {
            Form::Legacy => attributes
                .iter()
                .all(|&attribute| legacy_offset(attribute).is_some()),
            Form::Packed(places) => {
                !places.foreign
                    && attributes.iter().all(|&attribute| {
                        places
                            .get(attribute)
                            .is_some_and(|place| place.block == Block::Bonus)
                    })
            }
        }
    }

    /// Has `attributes` stored where [`Znode::store`] has nothing to read, as they are. An operation holds so what it
    /// is going to change, before its first change.
    pub(crate) fn hold(
        &self,
        tx: &Tx,
        store: &Store,
        state: &mut State,
        attributes: &[Attribute],
    ) -> Result<()> {
        if Self::is_in_place(state, attributes) {
            return Ok(());
        }
        let fixed: Vec<Attribute> = attributes
            .iter()
            .copied()
            .filter(|&attribute| state.words(attribute).is_some())
            .collect();
        self.rewrite_fixed(tx, store, state, &fixed)
    }

    /// Writes the decoded copies of `attributes`, all of fixed length, to where they are stored.
    pub(crate) fn store(
        &self,
        tx: &Tx,
        store: &Store,
        state: &mut State,
        attributes: &[Attribute],
    ) -> Result<()> {
        self.changed(tx.txg());
        if Self::is_in_place(state, attributes) {
            self.object
                .modify_bonus(tx, |bonus| patch(bonus, state, attributes))?;
            return Ok(());
        }
        self.rewrite_fixed(tx, store, state, attributes)
    }

    fn rewrite_fixed(
        &self,
        tx: &Tx,
        store: &Store,
        state: &mut State,
        attributes: &[Attribute],
    ) -> Result<()> {
        let values: Vec<(Attribute, [u8; 16])> = attributes
            .iter()
            .filter_map(|&attribute| {
                state
                    .words(attribute)
                    .map(|words| (attribute, bytes(words)))
            })
            .collect();
        let edits: Vec<Edit<'_>> = values
            .iter()
            .map(|(attribute, bytes)| (*attribute, Some(&bytes[..usize::from(attribute.length())])))
            .collect();
        self.rewrite(tx, store, state, &edits)
    }

    /// Lays out all attributes anew with `edits` made; the bytes in them are in host order.
    pub(crate) fn rewrite(
        &self,
        tx: &Tx,
        store: &Store,
        state: &mut State,
        edits: &[Edit<'_>],
    ) -> Result<()> {
        self.changed(tx.txg());
        let (mut values, old) = match state.form {
            Form::Packed(_) => (self.lift_all(&store.registry)?, None),
            Form::Legacy => {
                let (values, old) = self.lift_legacy(store, state)?;
                (values, Some(old))
            }
        };
        for &(attribute, bytes) in edits {
            let position = values
                .iter()
                .position(|value| value.known == Some(attribute));
            match (position, bytes) {
                (Some(at), Some(bytes)) => values[at].bytes = bytes.to_vec(),
                (Some(at), None) => drop(values.remove(at)),
                (None, Some(bytes)) => {
                    let at = insertion_point(attribute, &values);
                    values.insert(at, store.registry.value(attribute, bytes));
                }
                (None, None) => {}
            }
        }
        let places = Self::store_new(&self.object, tx, store, &values)?;
        state.form = Form::Packed(Box::new(places));
        match old {
            Some(old) => self.free_old_form(tx, store, old),
            None => Ok(()),
        }
    }

    /// Packs `values` into the bonus, and a spill block when they need one.
    pub(crate) fn store_new(
        object: &Arc<Object>,
        tx: &Tx,
        store: &Store,
        values: &[Value],
    ) -> Result<Places> {
        let info = object.info();
        let capacity = usize::from(info.bonus_capacity);
        let division = divide(values, capacity).ok_or(PosixError::AttributeTooLarge)?;
        let at = division.spill_from.unwrap_or(values.len());
        let (inside, outside) = values.split_at(at);
        let mut places = Places::NONE;
        let mut bonus = place(&mut places, Block::Bonus, tx, store, inside)?;
        let kind = ObjectType::SYSTEM_ATTRIBUTES;
        // The spill pointer takes room from the bonus: it comes after the bonus shrank, and goes
        // before it grows.
        if division.spill_from.is_some() {
            bonus.resize(capacity - SPILL_POINTER_SIZE, 0);
            let spill = place(&mut places, Block::Spill, tx, store, outside)?;
            object.set_bonus(tx, kind, &bonus)?;
            object.set_spill(tx, Some(&spill))?;
        } else {
            if info.has_spill {
                object.set_spill(tx, None)?;
            }
            object.set_bonus(tx, kind, &bonus)?;
        }
        Ok(places)
    }

    /// Sets the bytes of an attribute; in place, where there are as many.
    pub(crate) fn overwrite_value(
        &self,
        tx: &Tx,
        store: &Store,
        state: &mut State,
        attribute: Attribute,
        bytes: &[u8],
    ) -> Result<()> {
        let place = match &state.form {
            Form::Packed(places) if !places.foreign => places.get(attribute),
            Form::Packed(_) | Form::Legacy => None,
        };
        let in_place =
            |place: &Place| place.block == Block::Bonus && usize::from(place.length) == bytes.len();
        let Some(place) = place.filter(in_place) else {
            return self.rewrite(tx, store, state, &[(attribute, Some(bytes))]);
        };
        self.changed(tx.txg());
        let start = usize::from(place.offset);
        self.object.modify_bonus(tx, |bonus| {
            if let Some(target) = bonus.get_mut(start..start + bytes.len()) {
                target.copy_from_slice(bytes);
            }
        })?;
        Ok(())
    }

    fn lift_all(&self, registry: &Registry) -> Result<Vec<Value>> {
        let mut values = Vec::with_capacity(20);
        let mut lift_block = |bytes: &[u8]| {
            let damaged = || self.corrupt(Corruption::SystemAttributes);
            let Some(header) = Header::decode(bytes).map_err(|_| damaged())? else {
                return Ok(());
            };
            let layout = registry.layout(header.layout).ok_or_else(damaged)?;
            lift(&mut values, bytes, &header, &layout).map_err(|_| damaged())
        };
        lift_block(&self.object.bonus())?;
        if let Some(spill) = self.object.spill()? {
            lift_block(&spill)?;
        }
        Ok(values)
    }

    /// The attributes of a legacy znode in the order of a new file, and what only the old form needs.
    fn lift_legacy(&self, store: &Store, state: &State) -> Result<(Vec<Value>, OldForm)> {
        if !store.registry.is_available() {
            return Err(PosixError::NotSupported(
                "attribute in a file system of this version",
            ));
        }
        let target = match state.file_type() {
            crate::FileType::Symlink => Some(self.link_target(state)?),
            crate::FileType::Fifo
            | crate::FileType::CharacterDevice
            | crate::FileType::Directory
            | crate::FileType::BlockDevice
            | crate::FileType::Regular
            | crate::FileType::Socket => None,
        };
        let stamp = state.has(internal_flags::BONUS_SCANSTAMP).then(|| {
            self.object.with_bonus(|bonus| {
                let mut stamp = bonus.get(TAIL..).unwrap_or(&[]).to_vec();
                stamp.resize(usize::from(Attribute::Scanstamp.length()), 0);
                stamp
            })
        });
        let aces = self.access_entries(store, state)?;
        let old = OldForm {
            list: match self.legacy()?.acl_object {
                ObjectId(0) => None,
                outside => Some(store.objects.object(outside)?),
            },
            has_target: target.is_some(),
        };
        let mut new = state.clone();
        new.acl_count = aces.len() as u64;
        let mut values = store.registry.values_of(&new, &acl::encode(&aces));
        if state.xattr.0 != 0 {
            values.push(
                store
                    .registry
                    .value(Attribute::Xattr, &bytes(state_word(state))[..8]),
            );
        }
        if let Some(target) = target {
            values.push(store.registry.value(Attribute::Symlink, &target));
        }
        if let Some(stamp) = stamp {
            values.push(store.registry.value(Attribute::Scanstamp, &stamp));
        }
        Ok((values, old))
    }

    /// Frees what the old form needed besides.
    fn free_old_form(&self, tx: &Tx, store: &Store, old: OldForm) -> Result<()> {
        if let Some(list) = old.list {
            store.objects.free(tx, list.id())?;
        }
        if old.has_target {
            self.object.free_range(tx, 0, u64::MAX)?;
        }
        Ok(())
    }

    /// The access control entries, wherever the file keeps them.
    pub(crate) fn access_entries(&self, store: &Store, state: &State) -> Result<Vec<Ace>> {
        let damaged = |_| self.corrupt(Corruption::AccessControlList);
        if let Form::Packed(_) = state.form {
            let aces = self.value(state, Attribute::DaclAces)?.unwrap_or_default();
            return acl::decode(&aces, state.acl_count).map_err(damaged);
        }
        let znode = self.legacy()?;
        let outside = match znode.acl_object.0 {
            0 => None,
            _ => Some(store.objects.object(znode.acl_object)?),
        };
        let decode = |bytes: &[u8]| match znode.acl_version {
            0 => acl::decode_old(bytes, znode.acl_size.into()),
            _ => acl::decode(bytes, znode.acl_count.into()),
        };
        let Some(outside) = outside else {
            return decode(&znode.acl_inline).map_err(damaged);
        };
        let size = match znode.acl_version {
            0 => znode.acl_size.saturating_mul(acl::OLD_SIZE as u32),
            _ => znode.acl_size,
        };
        let mut bytes = vec![0; size.min(ACL_SIZE_MAX) as usize];
        outside.read(0, &mut bytes)?;
        decode(&bytes).map_err(damaged)
    }

    pub(crate) fn legacy(&self) -> Result<ZnodePhys> {
        self.object
            .with_bonus(|bonus| ZnodePhys::decode(bonus, ByteOrder::NATIVE))
            .map_err(|_| self.corrupt(Corruption::Znode))
    }
}

fn state_word(state: &State) -> [u64; 2] {
    [state.xattr.0, 0]
}

/// Where a new attribute goes: to the end, but that accounting finds the project at a fixed place
/// after the link count.
fn insertion_point(attribute: Attribute, values: &[Value]) -> usize {
    let links = values
        .iter()
        .position(|value| value.known == Some(Attribute::Links));
    match (attribute, links) {
        (Attribute::Projid, Some(links)) => links + 1,
        _ => values.len(),
    }
}

fn place(
    places: &mut Places,
    block: Block,
    tx: &Tx,
    store: &Store,
    values: &[Value],
) -> Result<Vec<u8>> {
    let layout = store.registry.layout_of(tx, &store.objects, values)?;
    let bytes = pack(values, layout.number);
    let damaged = |_| PosixError::AttributeTooLarge;
    let header = Header::decode(&bytes)
        .ok()
        .flatten()
        .ok_or(PosixError::AttributeTooLarge)?;
    locate(places, block, &bytes, &header, &layout).map_err(damaged)?;
    Ok(bytes)
}

fn patch(bonus: &mut [u8], state: &State, attributes: &[Attribute]) {
    for &attribute in attributes {
        let offset = match &state.form {
            Form::Legacy => legacy_offset(attribute),
            Form::Packed(places) => places.get(attribute).map(|place| place.offset.into()),
        };
        if let (Some(offset), Some(words)) = (offset, state.words(attribute)) {
            put_at(bonus, offset, &words[0], ByteOrder::NATIVE);
            if attribute.length() == 16 {
                put_at(bonus, offset + 8, &words[1], ByteOrder::NATIVE);
            }
        }
    }
}

/// Where a legacy znode has an attribute.
fn legacy_offset(attribute: Attribute) -> Option<usize> {
    Some(match attribute {
        Attribute::Atime => 0,
        Attribute::Mtime => 16,
        Attribute::Ctime => 32,
        Attribute::Crtime => 48,
        Attribute::Gen => 64,
        Attribute::Mode => 72,
        Attribute::Size => 80,
        Attribute::Parent => 88,
        Attribute::Links => 96,
        Attribute::Xattr => 104,
        Attribute::Rdev => 112,
        Attribute::Flags => 120,
        Attribute::Uid => 128,
        Attribute::Gid => 136,
        // Elsewhere in it, or not in one at all.
        Attribute::Pad
        | Attribute::ZnodeAcl
        | Attribute::DaclCount
        | Attribute::Symlink
        | Attribute::Scanstamp
        | Attribute::DaclAces
        | Attribute::Dxattr
        | Attribute::Projid => return None,
    })
}

fn bytes(words: [u64; 2]) -> [u8; 16] {
    let mut bytes = [0; 16];
    put_at(&mut bytes, 0, &words, ByteOrder::NATIVE);
    bytes
}
