//! Bookmarks: creating, destroying, and keeping what was freed before the next snapshot.

use std::sync::Arc;

use dmu::{CreateZap, Tx, Zap};
use format::bookmark::BookmarkPhys;
use format::dsl::key;
use format::zap::{NormalizationFlags, Value};
use format::{BlockPointer, ObjectType, features};

use crate::dataset::{Bookmark, Dataset};
use crate::error::{DslError, Result};
use crate::layer::{Dsl, parse};
use crate::name::Target;
use crate::redaction::RedactionList;
use crate::services::{HistoryEvent, SpaceClass};
use crate::sizes::{Sizes, change};
use crate::task::{Task, TaskContext};

/// Bookmarks a snapshot, or copies a bookmark.
pub struct CreateBookmark {
    /// The bookmark's full name.
    pub name: String,
    /// The snapshot's or bookmark's full name.
    pub source: String,
}

pub(super) fn bookmark_parts(name: &str) -> Result<(&str, &str)> {
    match parse(name)? {
        Target::Bookmark { dataset, bookmark } => Ok((dataset, bookmark)),
        Target::Head { .. } | Target::Snapshot { .. } => Err(DslError::not_found(name)),
    }
}

impl CreateBookmark {
    fn source_phys(&self, dsl: &Dsl, head: &Arc<Dataset>) -> Result<BookmarkPhys> {
        if let Target::Bookmark { dataset, bookmark } = parse(&self.source)? {
            let found = dsl.head(dataset)?.bookmark(bookmark)?;
            let found = found.ok_or_else(|| DslError::not_found(self.source.as_str()))?;
            if found.phys.redaction.0 != 0 {
                let what = "redaction";
                return Err(DslError::Unsupported {
                    name: self.source.clone(),
                    what,
                });
            }
            return Ok(found.phys);
        }
        let snapshot = dsl.dataset(&self.source)?;
        if !snapshot.is_snapshot() {
            return Err(DslError::NotSnapshot {
                name: self.source.clone(),
            });
        }
        if !snapshot.is_before(head)? {
            let other = self.name.clone();
            return Err(DslError::Unrelated {
                name: self.source.clone(),
                other,
            });
        }
        of_snapshot(dsl, &snapshot)
    }
}

/// What a bookmark keeps of a snapshot.
pub(super) fn of_snapshot(dsl: &Dsl, snapshot: &Arc<Dataset>) -> Result<BookmarkPhys> {
    let phys = snapshot.phys()?;
    let mut bookmark = BookmarkPhys {
        guid: phys.guid,
        creation_txg: phys.creation_txg,
        creation_time: phys.creation_time,
        ..BookmarkPhys::default()
    };
    if let Some(ivset) = snapshot.extra_word(key::IVSET_GUID)? {
        bookmark.ivset_guid = ivset;
    }
    if dsl.services().is_enabled(&features::BOOKMARK_WRITTEN) {
        bookmark.flags = BookmarkPhys::FLAG_FREED_VALID | BookmarkPhys::FLAG_SNAPSHOT_EXISTS;
        bookmark.referenced_bytes = phys.referenced_bytes;
        bookmark.compressed_bytes = phys.compressed_bytes;
        bookmark.uncompressed_bytes = phys.uncompressed_bytes;
        if let Some(next) = snapshot.next()? {
            let dead = next.deadlist()?.sizes()?;
            change(&mut bookmark.freed_before_next, dead.used);
            change(&mut bookmark.compressed_freed_before_next, dead.compressed);
            change(
                &mut bookmark.uncompressed_freed_before_next,
                dead.uncompressed,
            );
        }
    }
    Ok(bookmark)
}

impl Task for CreateBookmark {
    type Output = ();

    fn space(&self) -> SpaceClass {
        SpaceClass::Normal
    }

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let (path, short) = bookmark_parts(&self.name)?;
        let feature = &features::BOOKMARKS;
        if !context.dsl.services().is_enabled(feature) {
            return Err(DslError::FeatureDisabled {
                feature: feature.name,
            });
        }
        let head = context.dsl.head(path)?;
        if head.bookmark(short)?.is_some() {
            return Err(DslError::exists(self.name.as_str()));
        }
        self.source_phys(context.dsl, &head).map(drop)
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let dsl = context.dsl;
        let (path, short) = bookmark_parts(&self.name)?;
        let head = dsl.head(path)?;
        let phys = self.source_phys(dsl, &head)?;
        add(context, &head, short, &phys)?;
        context.record(&HistoryEvent {
            name: "bookmark",
            dataset: path,
            dataset_id: head.id(),
            text: &format!(
                "name={short} creation_txg={} source_guid={}",
                phys.creation_txg, phys.guid
            ),
        })
    }
}

/// Adds a bookmark to those of a head, and counts it.
pub(super) fn add(
    context: &TaskContext<'_>,
    head: &Arc<Dataset>,
    short: &str,
    phys: &BookmarkPhys,
) -> Result<()> {
    let (dsl, tx) = (context.dsl, context.tx);
    let services = &dsl.mos.services;
    let zap = zap_of(context, head)?;
    let second_form = is_second_form(dsl, phys);
    if second_form {
        services.change_references(tx, &features::BOOKMARK_V2, 1)?;
    }
    if phys.counts_freed() {
        services.change_references(tx, &features::BOOKMARK_WRITTEN, 1)?;
    }
    Ok(zap.add_value(tx, short.as_bytes(), &value(phys, second_form))?)
}

/// The ZAP of a head's bookmarks, made when it is not there.
pub(super) fn zap_of(context: &TaskContext<'_>, head: &Arc<Dataset>) -> Result<Zap> {
    if let Some(zap) = head.bookmark_zap()? {
        return Ok(zap);
    }
    let (dsl, tx) = (context.dsl, context.tx);
    let options = CreateZap {
        object_type: ObjectType::OTN_ZAP_METADATA,
        normalization: NormalizationFlags::FOLD_UPPER,
        ..CreateZap::default()
    };
    let zap = Zap::create(&dsl.mos.set, tx, &options)?;
    head.make_extra(tx)?
        .add(tx, key::BOOKMARKS.as_bytes(), zap.object().id().0)?;
    dsl.mos
        .services
        .change_references(tx, &features::BOOKMARKS, 1)?;
    Ok(zap)
}

fn is_second_form(dsl: &Dsl, phys: &BookmarkPhys) -> bool {
    phys.needs_v2() && dsl.services().is_enabled(&features::BOOKMARK_V2)
}

fn value(phys: &BookmarkPhys, second_form: bool) -> Value {
    let words = phys.to_words();
    let count = if second_form {
        BookmarkPhys::WORDS_V2
    } else {
        BookmarkPhys::WORDS_V1
    };
    Value::words(words.get(..count).unwrap_or(&words))
}

/// Stores a bookmark that exists, in the form that it needs.
pub(crate) fn store(zap: &Zap, tx: &Tx, bookmark: &Bookmark) -> Result<()> {
    let value = value(&bookmark.phys, bookmark.phys.needs_v2());
    Ok(zap.update_value(tx, bookmark.name.as_bytes(), &value)?)
}

/// Takes a bookmark off the counts of features.
pub(super) fn uncount(dsl: &Dsl, tx: &Tx, bookmark: &Bookmark) -> Result<()> {
    let services = &dsl.mos.services;
    if is_second_form(dsl, &bookmark.phys) {
        services.change_references(tx, &features::BOOKMARK_V2, -1)?;
    }
    if bookmark.phys.counts_freed() {
        services.change_references(tx, &features::BOOKMARK_WRITTEN, -1)?;
    }
    if bookmark.phys.redaction.0 != 0 {
        RedactionList::open(dsl, bookmark.phys.redaction)?.free(dsl, tx)?;
    }
    Ok(())
}

/// Destroys bookmarks.
pub struct DestroyBookmark {
    /// The full name.
    pub name: String,
}

impl Task for DestroyBookmark {
    type Output = ();

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let (path, short) = bookmark_parts(&self.name)?;
        let found = context.dsl.head(path)?.bookmark(short)?;
        found
            .map(drop)
            .ok_or_else(|| DslError::not_found(self.name.as_str()))
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let (path, short) = bookmark_parts(&self.name)?;
        let head = context.dsl.head(path)?;
        match head.bookmark(short)? {
            Some(bookmark) => remove(context, &head, &bookmark),
            None => Ok(()),
        }
    }
}

/// Takes a bookmark off those of a head, with what it leads to.
pub(super) fn remove(
    context: &TaskContext<'_>,
    head: &Arc<Dataset>,
    bookmark: &Bookmark,
) -> Result<()> {
    let (dsl, tx) = (context.dsl, context.tx);
    let Some(zap) = head.bookmark_zap()? else {
        return Ok(());
    };
    let short = bookmark.name.as_str();
    uncount(dsl, tx, bookmark)?;
    zap.remove(tx, short.as_bytes())?;
    if bookmark.phys.counts_freed() {
        drop_key(head, tx, bookmark)?;
    }
    if zap.is_empty()? {
        dsl.mos
            .services
            .change_references(tx, &features::BOOKMARKS, -1)?;
        head.make_extra(tx)?.remove(tx, key::BOOKMARKS.as_bytes())?;
        dsl.mos.free(tx, zap.object().id())?;
    }
    context.record(&HistoryEvent {
        name: "remove bookmark",
        dataset: &head.name()?,
        dataset_id: head.id(),
        text: &format!("name={short}"),
    })
}

/// The deadlist's key that a bookmark kept alive after its snapshot goes, unless another bookmark
/// needs it.
fn drop_key(head: &Arc<Dataset>, tx: &Tx, bookmark: &Bookmark) -> Result<()> {
    let txg = bookmark.phys.creation_txg;
    let still_needed = bookmark.phys.flags & BookmarkPhys::FLAG_SNAPSHOT_EXISTS != 0
        || head
            .bookmarks()?
            .iter()
            .any(|other| other.phys.counts_freed() && other.phys.creation_txg == txg);
    if still_needed {
        return Ok(());
    }
    head.deadlist()?.remove_key(tx, txg)
}

impl Dataset {
    /// Adds blocks that the head dropped to the bookmarks that count them.
    pub(crate) fn bookmarks_saw_dead(&self, tx: &Tx, dead: &[BlockPointer]) -> Result<()> {
        if dead.is_empty() {
            return Ok(());
        }
        let Some(zap) = self.bookmark_zap()? else {
            return Ok(());
        };
        let previous = self.phys()?.previous_snapshot_txg;
        let store_of_blocks = self.dsl().mos.store.as_ref();
        for mut bookmark in self.bookmarks()? {
            let txg = bookmark.phys.creation_txg;
            if !bookmark.phys.counts_freed() || txg < previous {
                continue;
            }
            let gained: Sizes = dead
                .iter()
                .filter(|pointer| pointer.space_birth() <= txg)
                .map(|pointer| Sizes::of(store_of_blocks, pointer))
                .sum();
            if gained == Sizes::ZERO {
                continue;
            }
            change(&mut bookmark.phys.freed_before_next, gained.used);
            change(
                &mut bookmark.phys.compressed_freed_before_next,
                gained.compressed,
            );
            change(
                &mut bookmark.phys.uncompressed_freed_before_next,
                gained.uncompressed,
            );
            store(&zap, tx, &bookmark)?;
        }
        Ok(())
    }

    /// The newest txg up to which some bookmark counts what the head drops, beyond its previous
    /// snapshot.
    pub(crate) fn bookmarked_txg(&self) -> Result<Option<base::Txg>> {
        let previous = self.phys()?.previous_snapshot_txg;
        let bookmarks = self.bookmarks()?;
        let counting = bookmarks
            .iter()
            .filter(|bookmark| bookmark.phys.counts_freed());
        Ok(counting
            .map(|bookmark| bookmark.phys.creation_txg)
            .filter(|txg| *txg > previous)
            .max())
    }
}
