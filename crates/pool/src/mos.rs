//! What the pool itself keeps in its own object set (the MOS).

pub(crate) mod data_error;
pub(crate) mod device_list;
pub(crate) mod error_log;
pub(crate) mod features;
pub(crate) mod history;
pub(crate) mod mapping;
