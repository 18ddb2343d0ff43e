//! Waiting for requests of many FUSE mounts at once.

use crate::fuse_device::FuseDevice;
use rustix::event::epoll::{
    CreateFlags, Event, EventData, EventFlags, add, create, delete, modify, wait,
};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

/// Devices of which each is told of to one thread, once, until that thread asks for it again.
#[derive(Debug)]
pub struct FuseWatch {
    descriptor: OwnedFd,
}

/// A mount that is gone is told of as well, whether that was asked for or not.
const ONCE: EventFlags = EventFlags::IN.union(EventFlags::ONESHOT);

impl FuseWatch {
    /// Of no device.
    ///
    /// # Errors
    /// What epoll_create(2) says.
    pub fn new() -> Result<Self, Errno> {
        let descriptor = create(CreateFlags::CLOEXEC)?;
        Ok(Self { descriptor })
    }

    /// Watches a device, under a number. It must not wait when it is read: what there was may be gone.
    ///
    /// # Errors
    /// What epoll_ctl(2) and fcntl(2) say; NOTSUP where the device may be somebody else's as well.
    pub fn add(&self, device: &FuseDevice, number: u64) -> Result<(), Errno> {
        device.set_waits(false)?;
        add(&self.descriptor, device, EventData::new_u64(number), ONCE)
    }

    /// Asks for a device again that was told of.
    ///
    /// # Errors
    /// What epoll_ctl(2) says.
    pub fn ask_again(&self, device: &FuseDevice, number: u64) -> Result<(), Errno> {
        modify(&self.descriptor, device, EventData::new_u64(number), ONCE)
    }

    /// Watches a device no more.
    ///
    /// # Errors
    /// What epoll_ctl(2) says.
    pub fn remove(&self, device: &FuseDevice) -> Result<(), Errno> {
        delete(&self.descriptor, device)
    }

    /// Waits for a device that has a request, or whose mount is gone: its number.
    ///
    /// # Errors
    /// What epoll_wait(2) says; AGAIN when it was nothing.
    pub fn wait(&self) -> Result<u64, Errno> {
        let mut events = [Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        }];
        match wait(&self.descriptor, &mut events, None)? {
            0 => Err(Errno::AGAIN),
            _ => Ok({ events[0].data }.u64()),
        }
    }
}
