//! Who speaks: servers and clients with what they show and whom they believe, and their handshakes.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::ServerName;
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
};

use crate::TlsError;
use crate::files::{authorities, authorities_of_host, certificates, key};
use crate::stream::{SecureReader, SecureWriter, secured};

/// A reader and a writer of a connection after its handshake.
type Secured<R, W> = (SecureReader<R>, SecureWriter<W>);

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn unusable(path: &Path, error: &impl ToString) -> TlsError {
    TlsError::Unusable {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}

/// A server.
#[derive(Clone, Debug)]
pub struct Server(Arc<ServerConfig>);

impl Server {
    /// A server that shows a certificate, with those that vouch for it in the same file, whose key is in another file.
    /// With a file of authorities only clients are let in that one of these vouches for.
    ///
    /// # Errors
    /// A file cannot be read, or does not have what it should.
    pub fn new(
        certificate: &Path,
        private_key: &Path,
        clients: Option<&Path>,
    ) -> Result<Self, TlsError> {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(certificate, &error))?;
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(authorities(path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
                let verifier = verifier.build().map_err(|error| unusable(path, &error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let chain = certificates(certificate)?;
        let config = builder
            .with_single_cert(chain, key(private_key)?)
            .map_err(|error| unusable(private_key, &error))?;
        Ok(Self(Arc::new(config)))
    }

    /// Lets a client in: the handshake, over both directions of one connection.
    ///
    /// # Errors
    /// The connection broke, or the client is refused, or refuses.
    pub fn accept<R: Read, W: Write>(&self, input: R, output: W) -> io::Result<Secured<R, W>> {
        let connection = ServerConnection::new(Arc::clone(&self.0)).map_err(io::Error::other)?;
        secured(Connection::Server(connection), input, output)
    }
}

/// A client.
#[derive(Clone, Debug)]
pub struct Client(Arc<ClientConfig>);

impl Client {
    /// A client that believes the authorities of a file, or else those of this host, and shows a certificate whose key
    /// is in another file, if there are any.
    ///
    /// # Errors
    /// A file cannot be read, or does not have what it should; or this host has no authorities.
    pub fn new(servers: Option<&Path>, own: Option<(&Path, &Path)>) -> Result<Self, TlsError> {
        let roots: RootCertStore = match servers {
            Some(path) => authorities(path)?,
            None => authorities_of_host()?,
        };
        let none = Path::new("");
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(servers.unwrap_or(none), &error))?
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, private_key)) => builder
                .with_client_auth_cert(certificates(certificate)?, key(private_key)?)
                .map_err(|error| unusable(private_key, &error))?,
        };
        Ok(Self(Arc::new(config)))
    }

    /// Speaks to a server that must be the host of this name, or of this address.
    ///
    /// # Errors
    /// The connection broke, or the server is not believed, or refuses; or the name is none.
    pub fn connect<R: Read, W: Write>(
        &self,
        host: &str,
        input: R,
        output: W,
    ) -> io::Result<Secured<R, W>> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| io::Error::other(TlsError::Name(host.to_owned())))?;
        let connection =
            ClientConnection::new(Arc::clone(&self.0), name).map_err(io::Error::other)?;
        secured(Connection::Client(connection), input, output)
    }
}
