//! What systemd is told of a pool that is served in its own process: when it is up, and when it ends (`sd_notify(3)`).

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Whoever started this process and wants to know, if anybody does.
pub(super) struct Supervisor(Option<(UnixDatagram, SocketAddr)>);

impl Supervisor {
    /// Whom `$NOTIFY_SOCKET` names.
    pub(super) fn from_environment() -> Self {
        Self::at(std::env::var_os("NOTIFY_SOCKET"))
    }

    /// A path, or an abstract name after `@`. What is neither is nobody.
    fn at(name: Option<OsString>) -> Self {
        let address = name.and_then(|name| match name.as_bytes().split_first() {
            Some((b'@', name)) => SocketAddr::from_abstract_name(name).ok(),
            Some((b'/', _)) => SocketAddr::from_pathname(&name).ok(),
            _ => None,
        });
        Self(UnixDatagram::unbound().ok().zip(address))
    }

    /// The pool is served; `status` is what `systemctl status` shows.
    pub(super) fn ready(&self, status: &str) {
        self.say(&format!("READY=1\nSTATUS={status}"));
    }

    /// The pool is being exported.
    pub(super) fn stopping(&self) {
        self.say("STOPPING=1");
    }

    /// The pool is served all the same if nobody listens.
    fn say(&self, state: &str) {
        if let Some((socket, address)) = &self.0 {
            let _told = socket.send_to_addr(state.as_bytes(), address);
        }
    }
}

#[cfg(test)]
mod tests;
