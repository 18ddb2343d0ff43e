//! Where a remote disk is: `nbd://HOST[:PORT]/EXPORT` or `nbd+unix:///EXPORT?socket=PATH`, and with TLS `nbds://…` and
//! `nbds+unix://…`, with `tls-certificates=DIRECTORY` and `tls-hostname=HOST` behind `?`, if need be.

use std::path::{Path, PathBuf};

/// The port of NBD.
const PORT: u16 = 10809;
/// The schemes, whether they mean TLS, and whether sockets of this machine.
const SCHEMES: [(&str, bool, bool); 4] = [
    ("nbd://", false, false),
    ("nbd+unix://", false, true),
    ("nbds://", true, false),
    ("nbds+unix://", true, true),
];
/// Whom a server on a socket must be vouched for as, unless another name is given.
const THIS_HOST: &str = "localhost";

/// How a server is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Host(String, u16),
    Socket(PathBuf),
}

/// Where a remote disk is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Uri {
    pub(crate) place: Place,
    /// Which of the server's disks.
    pub(crate) export: String,
    /// Of one with TLS.
    pub(crate) security: Option<Security>,
}

/// What is said of TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Security {
    /// A directory with `ca-cert.pem`, and perhaps `client-cert.pem` and `client-key.pem`; else this host's authorities
    /// count.
    pub(crate) certificates: Option<PathBuf>,
    /// Whom the server must be vouched for as.
    pub(crate) host: String,
}

/// Whether a path is the URI of a remote disk.
#[must_use]
pub fn is_remote(path: &Path) -> bool {
    let text = path.to_str().unwrap_or_default();
    SCHEMES.iter().any(|(scheme, ..)| text.starts_with(scheme))
}

/// The path from the root on; that of a remote disk is its URI.
#[must_use]
pub fn absolute(path: &Path) -> PathBuf {
    if is_remote(path) {
        return path.to_owned();
    }
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

impl Uri {
    /// What a URI says, or what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let found = SCHEMES
            .iter()
            .find_map(|(scheme, tls, unix)| Some((text.strip_prefix(scheme)?, *tls, *unix)));
        let Some((rest, is_secured, is_unix)) = found else {
            return Err("no URI of a remote disk");
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, export) = rest.split_once('/').unwrap_or((rest, ""));
        let (mut socket, mut certificates, mut host) = (None, None, None);
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("socket", value)) if is_unix => socket = Some(PathBuf::from(decoded(value)?)),
                Some(("tls-certificates", value)) if is_secured => {
                    certificates = Some(PathBuf::from(decoded(value)?));
                }
                Some(("tls-hostname", value)) if is_secured => host = Some(decoded(value)?),
                Some(_) => return Err("a query that is not known"),
                None => return Err("a query without a value"),
            }
        }
        let place = match (is_unix, socket) {
            (true, Some(socket)) if authority.is_empty() && socket.is_absolute() => {
                Place::Socket(socket)
            }
            (true, _) => return Err("no absolute path of a socket, or a host beside it"),
            (false, _) => host_of(authority)?,
        };
        if certificates
            .as_ref()
            .is_some_and(|path| !path.is_absolute())
        {
            return Err("no absolute path of the certificates");
        }
        let name = || match &place {
            Place::Host(host, _) => host.clone(),
            Place::Socket(_) => THIS_HOST.to_owned(),
        };
        let security = is_secured.then(|| Security {
            certificates,
            host: host.unwrap_or_else(name),
        });
        Ok(Self {
            place,
            export: decoded(export)?,
            security,
        })
    }
}

fn host_of(authority: &str) -> Result<Place, &'static str> {
    let (host, port) = match authority.strip_prefix('[') {
        // An address with colons in it.
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or("an address without an end")?;
            (host, rest.strip_prefix(':'))
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() || host.contains('@') {
        return Err("no host");
    }
    let port = match port {
        None | Some("") => PORT,
        Some(digits) => digits.parse().map_err(|_| "no port")?,
    };
    Ok(Place::Host(host.to_owned(), port))
}

/// Text whose `%20` are letters again.
fn decoded(text: &str) -> Result<String, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        let (high, low) = (digit(rest.next()), digit(rest.next()));
        let (Some(high), Some(low)) = (high, low) else {
            return Err("a '%' without two digits");
        };
        bytes.push(u8::try_from(high << 4 | low).unwrap_or_default());
    }
    String::from_utf8(bytes).map_err(|_| "no UTF-8")
}

#[cfg(test)]
mod tests;
