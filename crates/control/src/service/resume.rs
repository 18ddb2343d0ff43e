//! How far a receive has come that may go on, as the text that `zfs send -t` takes.

use base::{Guid, ObjectId};
use dsl::ResumeState;
use stream::ResumeToken;

/// The token of a receive that was interrupted.
pub(super) fn token_of(state: &ResumeState, redacted_by: Option<&[Guid]>) -> String {
    let words = |guids: &[Guid]| guids.iter().map(|guid| guid.0).collect();
    let token = ResumeToken {
        from_guid: Some(state.from_guid).filter(|guid| guid.0 != 0),
        to_guid: state.to_guid,
        to_name: state.to_name.clone().into_bytes(),
        object: ObjectId(state.point.object),
        offset: state.point.offset,
        bytes: state.point.bytes,
        large_blocks: state.large_blocks,
        embedded: state.embedded,
        compressed: state.compressed,
        raw: state.raw,
        saved: false,
        redact_snapshots: redacted_by.map(words),
        bookmark_redact_snapshots: state.redacted_from.as_deref().map(words),
    };
    token.encode()
}
