//! What commands, programs and the service of a pool say to each other: requests and changes,
//! answers, refusals, and how they travel. Nothing here opens a pool.
//!
//! | module | what |
//! |---|---|
//! | [`changes`] | what commands may ask to be changed |
//! | [`queries`] | what commands may ask, and of which type the answer is |
//! | `message`, `report`, `metrics`, `events` | requests and the parts of answers, as they travel |
//! | `failure` | why a request was refused or failed |
//! | `handler` | who answers |
//! | `wire`, [`client`] | messages on a stream; the daemons that run, and how to ask them |
//! | `property`, [`describe`] | properties as people read and write them |
//! | [`name`], `number`, [`date`], `permission` | names, sizes, moments and what may be granted, as text |
//! | `program` | what channel programs return |
//! | `secret` | what travels and is nobody else's business |
//! | [`redundancy`] | whether vdevs that are to be one pool can lose as much as each other |
//! | `candidate`, `order`, `vdev_name` | pools that could be imported; the order of datasets in lists; names of vdevs |

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod candidate;
pub mod changes;
pub mod client;
pub mod date;
mod events;
mod failure;
mod handler;
mod message;
mod metrics;
pub mod name;
mod number;
mod order;
mod permission;
mod program;
mod property;
pub mod queries;
pub mod redundancy;
pub mod register;
mod report;
mod secret;
mod vdev_name;
mod wire;

pub use candidate::{ImportCandidate, ImportState};
pub use changes::{Change, DestroyTarget, InitializeAction, ScrubAction, TrimAction, VolumeSpec};
pub use date::{creation, moment, span};
/// The rows of properties, which the commands go by too.
pub use dsl::property as rows;
pub use events::{EventField, EventRecord, EventValue};
pub use failure::{Failure, FailureKind};
pub use handler::{Handler, Sink};
pub use message::{
    Assignments, Caller, CreateRequest, DatasetQuery, DatasetRow, ImportRequest, KeyRoot, Mounted,
    OpenRequest, ReceiveNaming, ReceiveRequest, Request, Response, Said, Selection, SendProgress,
    SendRequest, ServeRequest, StreamRequest, StreamSize, VdevShape, VdevSpec,
};
pub use metrics::{
    ClassIo, Distribution, IoReport, LeafIo, Metric, MetricFamily, MetricsReport, Reading,
};
pub use name::{
    NameError, NameKind, check as check_name, check_bookmark, check_dataset, check_pool,
    check_snapshot, dataset_of, is_within, kind_of, parent_of, pool_of,
};
pub use number::{NumberError, human, human_bytes, parse_size, ratio};
pub use order::{SortKey, sort_datasets};
pub use permission::{Permission, is_permission, is_set_name, key_of_sets};
pub use program::{ProgramValue, program_result};
pub use property::describe;
pub use property::{
    DATASET_PROPERTIES, POOL_PROPERTIES, PropertyError, PropertyName, RowText, Setting, Source,
    Types, VDEV_PROPERTIES, Value, check_user_property, find_dataset_property, find_pool_property,
    find_vdev_property,
};
pub use register::{KnownPool, LastSeen};
pub use report::{
    CheckpointReport, DedupReport, DiffChange, DiffRecord, ExpansionReport, GrantRecord,
    HistoryEvent, HistoryRecord, HoldRecord, LeafReport, LeafWork, LeafWorkState, OwnerKind,
    OwnerRecord, PoolNote, PoolReport, PoolStatus, RebuildReport, RemovalReport, ScanKind,
    ScanReport, ScanState, StoppedReport, VdevCause, VdevClass, VdevReport, VdevState,
};
pub use secret::Secret;
pub use vdev_name::VdevNaming;
pub use wire::{MESSAGE_LENGTH_MAX, WireError, receive, receive_within, send};
