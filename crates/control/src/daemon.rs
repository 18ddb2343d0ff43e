//! The serving process of one pool: its start, its socket, its mounts, its end.
//!
//! A command starts it with [`start`]: this very program again, with [`CHILD_ARGUMENT`]. The
//! request travels over the child's standard input, the outcome back over its standard output;
//! then the child leaves the terminal and serves. It ends when the pool is exported or destroyed,
//! or by SIGTERM or SIGINT, which unmount and export first. What is left when it is killed (a
//! socket nobody listens on, dead mounts) is recognised and removed by the next one.

mod endpoint;
#[cfg(feature = "mounts")]
mod mount_point;
#[cfg(feature = "mounts")]
mod mounts;
mod runtime;
mod server;
#[cfg(feature = "mounts")]
mod start;
#[cfg(test)]
mod tests;

pub use endpoint::Endpoint;
#[cfg(feature = "mounts")]
pub use mounts::{DaemonMounts, DatasetSource};
pub use server::{Handler, Server};
#[cfg(feature = "mounts")]
pub use start::{CHILD_ARGUMENT, child, serve, start};

/// Creates or imports the pool and takes charge of it.
#[cfg(feature = "mounts")]
fn open_service(request: &crate::OpenRequest) -> Result<start::Begin, crate::Failure> {
    use crate::Service;

    let opened = Service::open(request)?;
    let mounts = DaemonMounts::new(crate::service::dataset_source(&opened));
    let service = Service::new(opened, mounts);
    Ok(start::Begin {
        handler: service.clone(),
        begin: Box::new(move |sink| service.begin(sink)),
    })
}
