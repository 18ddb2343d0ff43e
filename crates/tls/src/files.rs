//! Certificates and keys from files in PEM form.

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
        return Err(fault(path, wanted, PemError::NoItemsFound));
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

/// The authorities that this host believes. One that is no certificate is none.
pub(crate) fn authorities_of_host() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(TlsError::NoAuthorities);
    }
    Ok(roots)
}

fn fault(path: &Path, wanted: &'static str, error: PemError) -> TlsError {
    let path = path.to_owned();
    if let PemError::NoItemsFound = error {
        return TlsError::Absent { path, wanted };
    }
    if let PemError::Io(error) = error {
        return TlsError::File { path, error };
    }
    TlsError::Unusable {
        path,
        reason: error.to_string(),
    }
}
