//! Certificates and keys from files in PEM form.

use std::io;
use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::TlsError;

/// The certificates of a file, at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wanted = "certificate";
    let found = CertificateDer::pem_file_iter(path).map_err(|error| fault(path, wanted, error))?;
    let found: Result<Vec<_>, _> = found.collect();
    let found = found.map_err(|error| fault(path, wanted, error))?;
    if found.is_empty() {
        return Err(absent(path, wanted));
    }
    Ok(found)
}

/// The private key of a file.
pub(crate) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| fault(path, "private key", error))
}

/// The authorities of a file.
pub(crate) fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| TlsError::Unusable {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
    }
    Ok(roots)
}

fn absent(path: &Path, wanted: &'static str) -> TlsError {
    TlsError::Absent {
        path: path.to_owned(),
        wanted,
    }
}

fn fault(path: &Path, wanted: &'static str, error: PemError) -> TlsError {
    let file = |error: io::Error| TlsError::File {
        path: path.to_owned(),
        error,
    };
    match error {
        PemError::Io(error) => file(error),
        PemError::NoItemsFound => absent(path, wanted),
        other => TlsError::Unusable {
            path: path.to_owned(),
            reason: other.to_string(),
        },
    }
}
