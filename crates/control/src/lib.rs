//! The typed admin service that the daemon offers and the commands use.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod client;
mod compatibility;
pub mod daemon;
mod date;
mod events;
mod failure;
mod found;
mod image;
mod message;
mod metrics;
mod mounts;
mod name;
mod number;
mod permission;
mod property;
mod render;
mod report;
mod service;
mod table;
mod vdevs;
mod wire;

pub use date::{creation, history as history_time, hold as hold_time, moment, span};
/// The rows of properties, which the commands go by too.
pub use dsl::property as rows;
pub use events::{EVENTS_HEADER, EventField, EventRecord, EventValue, events};
pub use failure::{Failure, FailureKind};
pub use found::{
    Found, discover, explain_nothing, features_text, is_feature, labelclear, upgraded_features,
};
pub use image::{ImageProgress, ImageReport, ImageRequest, Reproducible, Watcher, make_image};
pub use message::{
    Assignments, Caller, Change, CreateRequest, DatasetQuery, DatasetRow, ImportRequest,
    OpenRequest, Request, Response, Selection, VdevShape, VdevSpec,
};
pub use metrics::{ClassIo, Distribution, IoReport, LeafIo, Metric, MetricsReport, Reading};
pub use mounts::{MountOptions, MountRequest, Mounted, Mounts, NoMounts};
pub use name::{
    NameError, NameKind, check as check_name, check_bookmark, check_dataset, check_pool,
    check_snapshot, dataset_of, is_within, kind_of, parent_of, pool_of,
};
pub use number::{NumberError, human, human_bytes, parse_size, ratio};
pub use permission::{is_permission, is_set_name, key_of_sets};
pub use property::describe;
pub use property::{
    DATASET_PROPERTIES, POOL_PROPERTIES, PropertyError, PropertyName, RowText, Setting, Source,
    Types, VDEV_PROPERTIES, Value, check_user_property, find_dataset_property, find_pool_property,
    find_vdev_property,
};
pub use render::{
    DiffOptions, GetField, GetRow, ImportCandidate, ImportState, Json, JsonOptions, OwnerField,
    OwnerNames, OwnerSort, PoolListOptions, SortKey, StatusOptions, Style, VdevNaming,
    dataset_list, diff, get, grants, history, holds, import_list, owner_space, pool_list,
    sort_datasets, sort_owners, status,
};
pub use render::{
    IoHistogram, IoLayout, IoTable, MetricsTable, iostat, metrics_json, metrics_table, prometheus,
};
pub use report::{
    CheckpointReport, DedupReport, DiffChange, DiffRecord, ExpansionReport, GrantRecord,
    HistoryEvent, HistoryRecord, HoldRecord, LeafReport, LeafWork, LeafWorkState, OwnerKind,
    OwnerRecord, PoolNote, PoolReport, PoolStatus, RemovalReport, ScanKind, ScanReport, ScanState,
    VdevCause, VdevClass, VdevReport, VdevState,
};
pub use service::changes::{self, DestroyTarget, ScrubAction, TrimAction, VolumeSpec};
pub use service::{FileSource, Opened, Service, Sink, cached_devices};
pub use table::{Column, aligned, scripted};
pub use wire::{MESSAGE_LENGTH_MAX, WireError, receive, send};
