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

/// The paths of a list with a colon between each two, as environment variables have it. The colons of a URI's scheme,
/// in its host and before its port are its own; behind these it has `%3a`.
#[must_use]
pub fn paths_in(list: &str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let mut rest = Some(list);
    while let Some(list) = rest {
        let (own, behind) = list.split_at(with_own_colons(list));
        let (end, left) = match behind.split_once(':') {
            Some((end, left)) => (end, Some(left)),
            None => (behind, None),
        };
        paths.push(PathBuf::from(format!("{own}{end}")));
        rest = left;
    }
    paths
}

/// How many bytes of a list belong to a URI at its beginning, whatever colons they have.
fn with_own_colons(list: &str) -> usize {
    let mut schemes = SCHEMES.iter().map(|(scheme, ..)| scheme);
    let Some(rest) = schemes.find_map(|scheme| list.strip_prefix(scheme)) else {
        return 0;
    };
    let host = match rest.starts_with('[') {
        true => rest.find(']').map_or(0, |at| at + 1),
        false => rest.find([':', '/', '?']).unwrap_or(rest.len()),
    };
    let (_, behind) = rest.split_at(host);
    let port = behind.strip_prefix(':').map_or(0, |rest| {
        let behind = rest.trim_start_matches(|it: char| it.is_ascii_digit());
        // A name that begins with a digit is the next path's.
        let is_port = behind.is_empty() || behind.starts_with([':', '/', '?']);
        match rest.len() - behind.len() {
            digits if digits > 0 && is_port => digits + 1,
            _ => 0,
        }
    });
    list.len() - rest.len() + host + port
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
