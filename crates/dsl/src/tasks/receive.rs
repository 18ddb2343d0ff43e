//! Receiving a snapshot: what comes before its stream and after it.
//!
//! A new file system or volume is received into its own place; what continues a dataset, or takes its place, into a
//! hidden clone below it. Either is marked inconsistent until the snapshot is whole, and an existing head has its own
//! contents until then. So what a broken stream leaves is found and destroyed, or gone on with.

use std::sync::Arc;

use base::{Guid, ObjectSetId};
use crypto::{KeyMaterial, StoredKeys};
use dmu::{ObjectSet, SealedShape, Tx};
use format::ObjectSetKind;
use format::dsl::{DatasetPhys, key};

use super::change_key::members_of;
use super::create::{check_new, clear_intent_log, create_clone, fill, settle};
use super::destroy::{destroy_head, destroy_snapshot, end_intent_log};
use super::limits::{Counted, check_limits};
use super::rollback::swap;
use super::snapshot::{check_reservation, check_txg};
use super::{split_path, take_snapshot};
use crate::dataset::{Dataset, DatasetFeature, ResumePoint, ResumeState, create_head};
use crate::directory::key_creation::{NewEncryption, put_wrapped};
use crate::directory::{Directory, create_directory};
use crate::error::{DslError, Result};
use crate::layer::Dsl;
use crate::property::dataset::KEYLOCATION;
use crate::property::{KeyLocation, PropertyValue, set_local};
use crate::redaction::{is_same_set, is_subset};
use crate::services::{HistoryEvent, SpaceClass};
use crate::task::{Task, TaskContext};

/// The name of the hidden clone that is received into.
pub(crate) const COMPONENT: &str = "%recv";

/// What a stream of blocks as they are encrypted says of its dataset.
#[derive(Clone, Copy, Debug)]
pub struct SealedStream {
    /// Its keys, wrapped.
    pub keys: StoredKeys,
    /// What the key that wraps them is made of.
    pub material: KeyMaterial,
    /// The shape of its array of dnodes.
    pub shape: SealedShape,
    /// What the snapshot's vectors are called.
    pub vectors: u64,
    /// What those of the snapshot are called that the stream begins at; 0 of a full one.
    pub from_vectors: u64,
}

/// Begins to receive a snapshot.
#[derive(Clone, Debug)]
pub struct BeginReceive {
    /// The path of the head.
    pub path: String,
    /// The short name that the snapshot will have.
    pub snapshot: String,
    /// What is received.
    pub kind: ObjectSetKind,
    /// The guid of the snapshot that the stream begins at; 0 of a full one.
    pub from_guid: Guid,
    /// The snapshot that a new dataset is to be a clone of.
    pub origin: Option<String>,
    /// What is there may go: a head that is replaced by a full stream, changes and snapshots after the one that the
    /// stream continues.
    pub force: bool,
    /// Names of its snapshots match without regard to case.
    pub case_insensitive: bool,
    /// The stream has blocks above 128 KiB.
    pub large_blocks: bool,
    /// What the dataset is counted for from the beginning.
    pub features: Vec<DatasetFeature>,
    /// A new dataset is not encrypted, whatever is above it.
    pub unencrypted: bool,
    /// What is kept, if a receive that is interrupted may go on.
    pub resumable: Option<ResumeState>,
    /// The blocks come as they are encrypted.
    pub sealed: Option<SealedStream>,
    /// What the stream leaves out.
    pub redaction: StreamRedaction,
}

/// What a stream says of blocks that it leaves out, and of those that the receiver may lack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamRedaction {
    /// The snapshot that it is of.
    pub to_guid: Guid,
    /// The guids of the snapshots by which it is redacted; none: it is whole.
    pub by: Option<Vec<Guid>>,
    /// The guids of those by which what it begins at was redacted, if known: it has all that was left out there.
    pub from: Option<Vec<Guid>>,
}

impl StreamRedaction {
    /// Whether what a dataset lacks is in the stream, or may be missing still.
    fn fits(&self, source: &Dataset) -> Result<bool> {
        let Some(lacks) = source.redacted_by()? else {
            return Ok(true);
        };
        Ok(match (&self.from, &self.by) {
            (Some(from), _) => is_subset(from, &lacks),
            (None, Some(by)) => is_subset(by, &lacks),
            (None, None) => lacks.contains(&self.to_guid),
        })
    }

    fn check(&self, source: &Dataset, path: &str) -> Result<()> {
        if self.fits(source)? {
            return Ok(());
        }
        Err(DslError::OtherRedaction {
            name: path.to_owned(),
        })
    }
}

impl Task for BeginReceive {
    /// What is received into.
    type Output = Arc<Dataset>;

    fn space(&self) -> SpaceClass {
        SpaceClass::Normal
    }

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        match existing(context.dsl, &self.path)? {
            Some(head) => self.check_existing(context, &head),
            None => self.check_absent(context),
        }
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<Arc<Dataset>> {
        let (dsl, tx) = (context.dsl, context.tx);
        let receiving = match existing(dsl, &self.path)? {
            Some(head) => self.begin_beside(context, &head)?,
            None => self.begin_new(context)?,
        };
        receiving.change(tx, |phys| {
            phys.flags |= DatasetPhys::FLAG_INCONSISTENT;
            if self.case_insensitive {
                phys.flags |= DatasetPhys::FLAG_CASE_INSENSITIVE;
            }
        })?;
        for feature in &self.features {
            receiving.activate(tx, *feature)?;
        }
        // What is redacted by nothing has all that a clone of a redacted snapshot lacks.
        receiving.set_redacted_by(tx, self.redaction.by.as_deref())?;
        if let Some(state) = &self.resumable {
            state.store(tx, &receiving.make_extra(tx)?)?;
        }
        context.record(&HistoryEvent {
            name: "receive",
            dataset: &receiving.name()?,
            dataset_id: receiving.id(),
            text: " ",
        })?;
        Ok(receiving)
    }
}

impl BeginReceive {
    fn check_existing(&self, context: &TaskContext<'_>, head: &Arc<Dataset>) -> Result<()> {
        let name = || self.path.clone();
        let directory = head.directory();
        if self.origin.is_some() {
            return Err(DslError::exists(name()));
        }
        if let Some(hidden) = directory.child(COMPONENT)? {
            return Err(under_way(&hidden, name())?);
        }
        if head.is_inconsistent()? {
            return Err(under_way(&directory, name())?);
        }
        if head.snapshot(&self.snapshot)?.is_some() {
            return Err(DslError::exists(format!("{}@{}", self.path, self.snapshot)));
        }
        // What replaces all of it has keys of its own, or none.
        if self.sealed.is_none() || self.from_guid.0 != 0 {
            self.check_keys(head, &self.path)?;
        }
        check_limits(
            context.actor,
            Counted::Snapshots,
            std::iter::once(&directory),
        )?;
        if self.from_guid.0 == 0 {
            return self.check_replaced(context.dsl, head);
        }
        let source = source_of(head, self.from_guid)?;
        let source = source.ok_or_else(|| DslError::NoSource { name: name() })?;
        if source.phys()?.creation_txg >= context.tx.txg() {
            return Err(DslError::Again { name: name() });
        }
        let has_large = source.features()?.contains(&DatasetFeature::LargeBlocks);
        if has_large && !self.large_blocks {
            return Err(DslError::Unsupported {
                name: name(),
                what: "large blocks",
            });
        }
        self.check_vectors(&source)?;
        self.redaction.check(&source, &self.path)?;
        source.check_root()?;
        if !self.force {
            check_unmodified(head, &source)?;
        }
        Ok(())
    }

    /// Whether a dataset that is continued, or cloned, can be written: with its key, or by blocks that are encrypted
    /// with its keys.
    fn check_keys(&self, dataset: &Arc<Dataset>, name: &str) -> Result<()> {
        let Some(sealed) = &self.sealed else {
            return refuse_unwritable(dataset, name);
        };
        let name = || name.to_owned();
        let Some(record) = dataset.directory().key_record()? else {
            return Err(DslError::NotSealed { name: name() });
        };
        if record.stored()?.guid != sealed.keys.guid {
            return Err(DslError::OtherKeys { name: name() });
        }
        Ok(())
    }

    /// Whether the snapshot that is continued has the vectors that the stream says.
    fn check_vectors(&self, source: &Dataset) -> Result<()> {
        let Some(sealed) = &self.sealed else {
            return Ok(());
        };
        let here = source.extra_word(key::IVSET_GUID)?.unwrap_or(0);
        if here == sealed.from_vectors && here != 0 {
            return Ok(());
        }
        Err(DslError::OtherVectors {
            name: self.path.clone(),
            is_unknown: here == 0 || sealed.from_vectors == 0,
        })
    }

    /// Whether a full stream may take the place of a head.
    fn check_replaced(&self, dsl: &Dsl, head: &Dataset) -> Result<()> {
        let name = || self.path.clone();
        if !self.force {
            return Err(DslError::exists(name()));
        }
        if self.sealed.is_some() {
            return Err(DslError::NotSealed { name: name() });
        }
        if head.has_snapshots()? {
            return Err(DslError::HasSnapshots { name: name() });
        }
        let previous = head.phys()?.previous_snapshot;
        match dsl.origin_snapshot()? {
            Some(origin) if origin == previous => Ok(()),
            Some(_) | None => Err(DslError::Unsupported {
                name: name(),
                what: "the contents of another snapshot",
            }),
        }
    }

    fn check_absent(&self, context: &TaskContext<'_>) -> Result<()> {
        check_new(context, &self.path)?;
        let Some(origin) = &self.origin else {
            if self.from_guid.0 != 0 {
                return Err(DslError::not_found(self.path.as_str()));
            }
            let (parent, _) = split_path(&self.path)?;
            let parent = context.dsl.directory(parent)?;
            return self
                .encryption()
                .check(context.dsl, Some(&parent))
                .map(drop);
        };
        let found = context.dsl.dataset(origin)?;
        if !found.is_snapshot() {
            return Err(DslError::NotSnapshot {
                name: origin.clone(),
            });
        }
        if self.from_guid.0 != 0 && found.guid()? != self.from_guid {
            return Err(DslError::NoSource {
                name: self.path.clone(),
            });
        }
        self.check_keys(&found, origin)?;
        self.check_vectors(&found)?;
        if self.from_guid.0 != 0 {
            self.redaction.check(&found, &self.path)?;
        }
        if found.phys()?.creation_txg >= context.tx.txg() {
            return Err(DslError::Again {
                name: origin.clone(),
            });
        }
        found.check_root()
    }

    /// How what is not a clone is encrypted.
    fn encryption(&self) -> NewEncryption {
        match &self.sealed {
            Some(sealed) => NewEncryption::Received(sealed.keys, sealed.material),
            None if self.unencrypted => NewEncryption::Off,
            None => NewEncryption::Inherited,
        }
    }

    /// Receives into a new dataset.
    fn begin_new(&self, context: &TaskContext<'_>) -> Result<Arc<Dataset>> {
        let dsl = context.dsl;
        let (parent, component) = split_path(&self.path)?;
        let parent = dsl.directory(parent)?;
        let receiving = match &self.origin {
            Some(origin) => {
                let origin = dsl.dataset(origin)?;
                create_clone(context, &parent, component, &origin)?
            }
            None => self.begin_empty(context, &parent, component)?,
        };
        if let (Some(sealed), Some(_)) = (&self.sealed, &self.origin) {
            receiving.begin_sealed(context.tx, &sealed.shape)?;
        }
        settle(context, &receiving, &parent)?;
        dsl.new_stamp();
        Ok(receiving)
    }

    /// Receives into a hidden dataset below the one that it is for.
    fn begin_beside(&self, context: &TaskContext<'_>, head: &Arc<Dataset>) -> Result<Arc<Dataset>> {
        let directory = head.directory();
        if self.from_guid.0 == 0 {
            return self.begin_empty(context, &directory, COMPONENT);
        }
        let source = source_of(head, self.from_guid)?.ok_or_else(|| DslError::NoSource {
            name: self.path.clone(),
        })?;
        let receiving = create_clone(context, &directory, COMPONENT, &source)?;
        if let Some(sealed) = &self.sealed {
            receiving.begin_sealed(context.tx, &sealed.shape)?;
        }
        Ok(receiving)
    }

    fn begin_empty(
        &self,
        context: &TaskContext<'_>,
        parent: &Arc<Directory>,
        component: &str,
    ) -> Result<Arc<Dataset>> {
        let (dsl, tx) = (context.dsl, context.tx);
        let directory = create_directory(dsl, tx, parent.id(), component)?;
        let is_encrypted = self.encryption().apply(tx, &directory, Some(parent))?;
        let origin = dsl.origin_snapshot()?;
        let origin = origin.map(|id| dsl.dataset_by_id(id)).transpose()?;
        let receiving = create_head(dsl, tx, &directory, origin.as_ref())?;
        if is_encrypted {
            receiving.activate(tx, DatasetFeature::Encryption)?;
        }
        dsl.new_stamp();
        match &self.sealed {
            None => fill(context, &receiving, self.kind, None)?,
            Some(sealed) => self.fill_sealed(context, &receiving, sealed)?,
        }
        Ok(receiving)
    }

    /// A new object set that is received as it was sealed, in a root of encryption.
    fn fill_sealed(
        &self,
        context: &TaskContext<'_>,
        receiving: &Arc<Dataset>,
        sealed: &SealedStream,
    ) -> Result<()> {
        let (dsl, tx) = (context.dsl, context.tx);
        let location = PropertyValue::Text(KeyLocation::DEFAULT.to_owned());
        set_local(dsl, tx, receiving, KEYLOCATION.name, &location)?;
        dsl.keys.keep_locked(ObjectSetId(receiving.id().0));
        let object_set = ObjectSet::create(receiving.open_options(true), self.kind, tx)?;
        object_set.begin_sealed(tx, &sealed.shape)?;
        receiving.enter_new(&object_set);
        receiving.sync_in(tx, context.pass)?;
        Ok(())
    }
}

/// Goes on with a receive that was interrupted.
#[derive(Clone, Debug)]
pub struct ResumeReceive {
    /// The path of the head.
    pub path: String,
    /// The guid of the snapshot that is received.
    pub to_guid: Guid,
    /// The guid of the snapshot that the stream begins at; 0 of a full one.
    pub from_guid: Guid,
    /// The object and the offset that the stream goes on at.
    pub at: (u64, u64),
    /// The blocks come as they are encrypted.
    pub sealed: Option<SealedStream>,
    /// The guids of the snapshots by which the stream is redacted; none: it is whole.
    pub redacted_by: Option<Vec<Guid>>,
}

impl Task for ResumeReceive {
    /// What is received into.
    type Output = Arc<Dataset>;

    fn space(&self) -> SpaceClass {
        SpaceClass::Normal
    }

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let name = || self.path.clone();
        let not_resumable = || DslError::NotResumable { name: name() };
        let receiving = interrupted(context.dsl, &self.path)?.ok_or_else(not_resumable)?;
        let state = receiving.resume_state()?.ok_or_else(not_resumable)?;
        let ResumePoint { object, offset, .. } = state.point;
        let is_same = state.to_guid == self.to_guid && state.from_guid == self.from_guid;
        let is_redacted_alike = match (receiving.redacted_by()?, &self.redacted_by) {
            (None, None) => true,
            (Some(here), Some(there)) => is_same_set(&here, there),
            (Some(_), None) | (None, Some(_)) => false,
        };
        let is_same = is_same && is_redacted_alike;
        if !is_same || (object, offset) != self.at || state.raw != self.sealed.is_some() {
            return Err(not_resumable());
        }
        if let Some(sealed) = &self.sealed {
            let record = receiving.directory().key_record()?;
            let record = record.ok_or_else(|| DslError::NotSealed { name: name() })?;
            if record.stored()?.guid != sealed.keys.guid {
                return Err(DslError::OtherKeys { name: name() });
            }
        }
        if receiving.is_in_use() || receiving.is_held_long() {
            return Err(DslError::busy(name()));
        }
        Ok(())
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<Arc<Dataset>> {
        let receiving = interrupted(context.dsl, &self.path)?;
        let receiving = receiving.ok_or_else(|| DslError::not_found(self.path.as_str()))?;
        if let Some(sealed) = &self.sealed {
            receiving.begin_sealed(context.tx, &sealed.shape)?;
        }
        context.record(&HistoryEvent {
            name: "resume receive",
            dataset: &receiving.name()?,
            dataset_id: receiving.id(),
            text: " ",
        })?;
        Ok(receiving)
    }
}

/// Ends a receive: its snapshot is there, and the head has its contents. Whoever has the object set of an existing
/// head open must open it anew: the dataset's epoch changes.
#[derive(Debug)]
pub struct EndReceive {
    /// What was received into.
    pub receiving: Arc<Dataset>,
    /// The short name of the snapshot.
    pub snapshot: String,
    /// Its guid.
    pub guid: Guid,
    /// When it was taken, in seconds.
    pub creation_time: u64,
    /// Changes and snapshots after the one that the stream continues may go.
    pub force: bool,
    /// The blocks came as they are encrypted.
    pub sealed: Option<SealedStream>,
}

impl Task for EndReceive {
    /// The snapshot.
    type Output = Arc<Dataset>;

    fn space(&self) -> SpaceClass {
        SpaceClass::Normal
    }

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let head = self.head()?;
        let directory = head.directory();
        if head.snapshot(&self.snapshot)?.is_some() {
            let name = format!("{}@{}", directory.name(), self.snapshot);
            return Err(DslError::exists(name));
        }
        check_txg(context, &head)?;
        check_txg(context, &self.receiving)?;
        check_limits(
            context.actor,
            Counted::Snapshots,
            std::iter::once(&directory),
        )?;
        if self.is_beside() {
            self.check_beside(&head)?;
        }
        check_reservation(&head)
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<Arc<Dataset>> {
        let tx = context.tx;
        let (head, receiving) = (self.head()?, Arc::clone(&self.receiving));
        receiving.forget_resume_state(tx)?;
        receiving.change(tx, |phys| phys.flags &= !DatasetPhys::FLAG_INCONSISTENT)?;
        if self.is_beside() {
            for later in later_snapshots(&head, &receiving)? {
                destroy_snapshot(context, &later)?;
            }
            end_intent_log(context, &head)?;
            swap(context, &receiving, &head)?;
            clear_intent_log(context, &head)?;
            context.record(&HistoryEvent {
                name: "clone swap",
                dataset: &receiving.name()?,
                dataset_id: receiving.id(),
                text: &format!("parent={}", head.directory().name()),
            })?;
        }
        let snapshot = take_snapshot(context, &head, &self.snapshot)?;
        snapshot.change(tx, |phys| {
            phys.creation_time = self.creation_time;
            phys.guid = self.guid;
            phys.flags &= !DatasetPhys::FLAG_INCONSISTENT;
        })?;
        context.record(&HistoryEvent {
            name: "finish receiving",
            dataset: &head.directory().name(),
            dataset_id: head.id(),
            text: &format!("snap={}", self.snapshot),
        })?;
        if let Some(sealed) = &self.sealed {
            self.end_sealed(context, (&head, &snapshot), sealed)?;
        }
        if self.is_beside() {
            destroy_head(context, &receiving)?;
        }
        Ok(snapshot)
    }
}

impl EndReceive {
    /// Whether it was received into a hidden dataset below the head.
    fn is_beside(&self) -> bool {
        self.receiving.directory().component() == COMPONENT
    }

    /// The snapshot has the vectors of the one that was sent, the head the keys as they are wrapped there.
    fn end_sealed(
        &self,
        context: &TaskContext<'_>,
        (head, snapshot): (&Arc<Dataset>, &Dataset),
        sealed: &SealedStream,
    ) -> Result<()> {
        let (dsl, tx) = (context.dsl, context.tx);
        let extra = snapshot.make_extra(tx)?;
        extra.update(tx, key::IVSET_GUID.as_bytes(), sealed.vectors)?;
        if !self.is_beside() {
            head.replace_object_set(tx);
        }
        follow_wrapping(dsl, tx, &head.directory(), sealed)
    }

    /// The head that the snapshot will be of.
    fn head(&self) -> Result<Arc<Dataset>> {
        if !self.is_beside() {
            return Ok(Arc::clone(&self.receiving));
        }
        let parent = self.receiving.directory().parent();
        let head = parent.map(|parent| parent.head()).transpose()?;
        let id = self.receiving.id();
        head.flatten()
            .ok_or_else(|| DslError::damaged(id, "it is below no head"))
    }

    /// Whether what was received may still take the place of the head's contents.
    fn check_beside(&self, head: &Arc<Dataset>) -> Result<()> {
        let name = head.directory().name();
        let source = self.receiving.previous()?;
        let source = source.ok_or_else(|| DslError::NoSource { name: name.clone() })?;
        if self.sealed.is_none() {
            refuse_unwritable(head, &name)?;
        }
        if self.force {
            for later in later_snapshots(head, &self.receiving)? {
                let name = later.name()?;
                if !later.holds()?.is_empty() || later.is_held_long() {
                    return Err(DslError::Busy { name });
                }
                if later.phys()?.child_count > 1 {
                    return Err(DslError::HasClones { name });
                }
            }
        } else {
            check_unmodified(head, &source)?;
        }
        let quota = head.ref_quota()?;
        if quota != 0 && self.receiving.phys()?.referenced_bytes > quota {
            return Err(DslError::Quota { name });
        }
        Ok(())
    }
}

/// Where the stream came from its keys may be wrapped with another key by now: they are here, too. The keys themselves
/// stay, and so does what is open of them.
fn follow_wrapping(
    dsl: &Arc<Dsl>,
    tx: &Tx,
    directory: &Arc<Directory>,
    sealed: &SealedStream,
) -> Result<()> {
    let Some(record) = directory.key_record()? else {
        return Ok(());
    };
    let Some(root) = record.root().map(|root| root.id()) else {
        return Ok(());
    };
    let is_root = root == directory.id();
    let (stored, material) = (record.stored()?, record.material()?);
    // What has its key from above has the one that the root has by now.
    let is_same = stored.wrapped == sealed.keys.wrapped && material == sealed.material;
    if is_same || (!is_root && material != sealed.material) {
        return Ok(());
    }
    let loaded = dsl.keys.wrapping(root);
    let loaded = loaded.map_err(|error| record.unusable(error))?;
    let is_opened = loaded.map(|key| sealed.keys.unwrap(&key).is_ok());
    if !is_root && is_opened == Some(false) {
        return Ok(());
    }
    if is_root && is_opened == Some(false) {
        for member in members_of(dsl, directory, root)?.values() {
            // What the key does not open was not open, and is not then.
            let _opened = dsl.keys.keep_open(member.id(), root, &member.stored()?);
        }
        let (dsl, record) = (Arc::clone(dsl), record.id());
        tx.on_success(move || dsl.keys.supersede(root, record));
    }
    put_wrapped(
        tx,
        &dsl.mos.zap(record.id())?,
        &sealed.keys,
        sealed.material,
    )
}

/// The head of that path, if there is one.
fn existing(dsl: &Dsl, path: &str) -> Result<Option<Arc<Dataset>>> {
    match dsl.head(path) {
        Ok(head) => Ok(Some(head)),
        Err(DslError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a receive into that path was interrupted in.
fn interrupted(dsl: &Dsl, path: &str) -> Result<Option<Arc<Dataset>>> {
    let Some(head) = existing(dsl, path)? else {
        return Ok(None);
    };
    let hidden = head.directory().child(COMPONENT)?;
    let hidden = hidden.map(|hidden| hidden.head()).transpose()?.flatten();
    let receiving = hidden.unwrap_or(head);
    Ok(receiving.is_inconsistent()?.then_some(receiving))
}

impl Dsl {
    /// What a receive into that path was interrupted in, if it can go on: the head itself, or a hidden one below it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn interrupted_receive(&self, path: &str) -> Result<Option<(Arc<Dataset>, ResumeState)>> {
        let Some(receiving) = interrupted(self, path)? else {
            return Ok(None);
        };
        Ok(receiving.resume_state()?.map(|state| (receiving, state)))
    }
}

/// Why nothing else can be received there.
fn under_way(directory: &Arc<Directory>, name: String) -> Result<DslError> {
    let head = directory.head()?;
    let state = head.map(|head| head.resume_state()).transpose()?.flatten();
    Ok(match state {
        Some(_) => DslError::PartlyReceived { name },
        None => DslError::Busy { name },
    })
}

/// The newest snapshot of a head with that guid.
fn source_of(head: &Arc<Dataset>, guid: Guid) -> Result<Option<Arc<Dataset>>> {
    for snapshot in head.snapshots()?.into_iter().rev() {
        if snapshot.guid()? == guid {
            return Ok(Some(snapshot));
        }
    }
    Ok(None)
}

/// The snapshots of a head after the one that was received onto, newest first.
fn later_snapshots(head: &Arc<Dataset>, receiving: &Dataset) -> Result<Vec<Arc<Dataset>>> {
    let since = receiving.previous_snapshot_txg()?;
    let mut later = Vec::new();
    let mut current = head.latest_snapshot()?;
    while let Some(snapshot) = current {
        if snapshot.phys()?.creation_txg <= since {
            break;
        }
        current = snapshot.latest_snapshot()?;
        later.push(snapshot);
    }
    Ok(later)
}

fn check_unmodified(head: &Arc<Dataset>, source: &Arc<Dataset>) -> Result<()> {
    let name = head.directory().name();
    let is_latest = head.phys()?.previous_snapshot == source.id();
    if !is_latest || head.is_modified_since(source)? {
        return Err(DslError::Modified { name });
    }
    Ok(())
}

/// Refuses what cannot be written without its key.
fn refuse_unwritable(dataset: &Dataset, name: &str) -> Result<()> {
    let record = dataset.directory().key_record()?;
    if record.is_some_and(|record| !record.is_loaded()) {
        return Err(DslError::KeyUnloaded {
            name: name.to_owned(),
        });
    }
    Ok(())
}
