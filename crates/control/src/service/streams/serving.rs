//! Volumes as block devices over a network: one client of NBD, on a socket that the command has accepted.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use admin::{Caller, Failure, FailureKind, ServeRequest};
use base::queue::Bounded;
use base::thread_pool::ThreadPool;
use nbd::{Beginning, Disk, Exports, Fault};
use sys::{Buffer, PassedDescriptor};
use volume::{Durability, VolumeError};

use crate::service::delegation::actor_of;
use crate::service::{OpenVolume, Service};

/// So many requests are done at once, of all clients.
const THREADS_MAX: usize = 32;
/// So many more may wait for a thread.
const QUEUED_MAX: usize = 256;

/// The threads of all clients.
fn workers() -> Arc<ThreadPool> {
    static WORKERS: OnceLock<Arc<ThreadPool>> = OnceLock::new();
    let made = WORKERS.get_or_init(|| {
        let role = ("nbd", sys::thread::ANSWERS);
        ThreadPool::new(role, THREADS_MAX, Bounded::new("nbd.requests", QUEUED_MAX))
    });
    Arc::clone(made)
}

/// What a client may have.
struct Served<'a> {
    service: &'a Service,
    request: &'a ServeRequest,
}

/// A volume as a client sees it.
struct ServedVolume {
    volume: Arc<OpenVolume>,
    read_only: bool,
}

impl Service {
    /// Serves volumes to whoever is on the other side of a socket, until they go.
    pub(super) fn serve_volumes(
        &self,
        request: &ServeRequest,
        caller: &Caller,
        data: PassedDescriptor,
    ) -> Result<(), Failure> {
        let first = request.volumes.first().map_or("", String::as_str);
        let refuse = |kind, text: &str| Failure::cannot(kind, "serve", first, text);
        // As with OpenZFS's block devices, grants of the pool do not reach what is inside of volumes.
        if !actor_of(caller).privileged {
            return Err(refuse(FailureKind::Permission, "permission denied"));
        }
        // All are there, and are volumes: said before anybody asks for one.
        for name in &request.volumes {
            self.open_served(name)
                .map_err(|failure| Failure::cannot(failure.kind, "serve", name, failure.message))?;
        }
        let output = data.try_clone();
        let output = output.map_err(|error| refuse(FailureKind::Service, &error.to_string()))?;
        let served = Served {
            service: self,
            request,
        };
        let beginning = match request.secured {
            None => Beginning::Nothing,
            Some(flags) => Beginning::Secured { flags },
        };
        let ended = nbd::serve(data, output, &served, beginning, &workers());
        ended.map_err(|error| refuse(FailureKind::Service, &error.to_string()))
    }

    fn open_served(&self, name: &str) -> Result<Arc<OpenVolume>, Failure> {
        let dataset = self.dsl.dataset(name).map_err(|error| {
            let (kind, text) = crate::service::refusal::reason(&error);
            Failure::new(kind, text)
        })?;
        self.source().open_volume(&dataset)
    }
}

impl Exports for Served<'_> {
    fn names(&self) -> Vec<String> {
        self.request.volumes.clone()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Disk>, Fault> {
        let volume = self.service.open_served(name);
        Ok(Arc::new(ServedVolume {
            volume: volume.map_err(|_| Fault::Io)?,
            read_only: self.request.read_only,
        }))
    }
}

/// What a client is told.
fn fault(error: VolumeError) -> Fault {
    match error {
        VolumeError::ReadOnly => Fault::ReadOnly,
        VolumeError::NoSpace | VolumeError::QuotaExceeded => Fault::NoSpace,
        VolumeError::OutOfRange { .. } | VolumeError::NoSize | VolumeError::Unaligned { .. } => {
            Fault::Invalid
        }
        VolumeError::Closed => Fault::Closing,
        VolumeError::Storage(_) | VolumeError::Stopped(_) | VolumeError::Log(_) => Fault::Io,
    }
}

const fn durability(durable: bool) -> Durability {
    if durable {
        Durability::AtOnce
    } else {
        Durability::Later
    }
}

impl ServedVolume {
    fn writable(&self) -> Result<&OpenVolume, Fault> {
        if self.read_only {
            return Err(Fault::ReadOnly);
        }
        Ok(&self.volume)
    }
}

impl Disk for ServedVolume {
    fn size(&self) -> u64 {
        self.volume.size()
    }

    fn block_size(&self) -> u32 {
        self.volume.block_size()
    }

    fn is_read_only(&self) -> bool {
        self.read_only || self.volume.is_read_only()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.volume.read_at(offset, out).map_err(fault)
    }

    fn write(&self, offset: u64, data: Vec<Buffer>, durable: bool) -> Result<(), Fault> {
        let volume = self.writable()?;
        volume
            .write_buffers(offset, data, durability(durable))
            .map_err(fault)
    }

    fn write_zeroes(&self, offset: u64, length: u64, durable: bool) -> Result<(), Fault> {
        let volume = self.writable()?;
        volume
            .write_zeroes(offset, length, durability(durable))
            .map_err(fault)
    }

    fn trim(&self, offset: u64, length: u64, durable: bool) -> Result<(), Fault> {
        let volume = self.writable()?;
        volume
            .discard(offset, length, durability(durable))
            .map_err(fault)
    }

    fn flush(&self) -> Result<(), Fault> {
        if self.is_read_only() {
            return Ok(());
        }
        self.volume.flush().map_err(fault)
    }

    fn next_data(&self, range: Range<u64>) -> Result<Option<u64>, Fault> {
        self.volume.next_data(range).map_err(fault)
    }

    fn next_hole(&self, range: Range<u64>) -> Result<u64, Fault> {
        self.volume.next_hole(range).map_err(fault)
    }
}
