//! A certificate authority that a test has to itself, and what it vouches for.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// An authority; its certificate lies in a file.
pub(crate) struct Authority {
    folder: PathBuf,
    name: String,
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

/// A certificate and its key, in files and as they are.
pub(crate) struct Identity {
    pub(crate) certificate_file: PathBuf,
    pub(crate) key_file: PathBuf,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Authority {
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).expect("parameters");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        parameters.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let own = parameters.self_signed(&key).expect("a certificate");
        fs::write(folder.join(format!("{name}.pem")), own.pem()).expect("a file");
        Self {
            folder: folder.to_owned(),
            name: name.to_owned(),
            certificate: own.der().clone(),
            issuer: Issuer::new(parameters, key),
        }
    }

    /// The file with its certificate.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.join(format!("{}.pem", self.name))
    }

    /// Vouches for hosts of these names, or for a client.
    pub(crate) fn identity(&self, name: &str, hosts: &[&str]) -> Identity {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut parameters = CertificateParams::new(hosts).expect("parameters");
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().expect("a key");
        let signed = parameters
            .signed_by(&key, &self.issuer)
            .expect("a certificate");
        let file = |end: &str, text: String| {
            let path = self.folder.join(format!("{}-{name}-{end}.pem", self.name));
            fs::write(&path, text).expect("a file");
            path
        };
        Identity {
            certificate_file: file("cert", signed.pem()),
            key_file: file("key", key.serialize_pem()),
            chain: vec![signed.der().clone()],
            key: PrivateKeyDer::try_from(key.serialize_der()).expect("a key"),
        }
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).expect("a root");
        roots
    }

    /// How a client that believes this authority alone connects, as somebody or nobody.
    pub(crate) fn client(&self, who: Option<&Identity>) -> Arc<ClientConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(self.roots());
        Arc::new(match who {
            None => builder.with_no_client_auth(),
            Some(who) => builder
                .with_client_auth_cert(who.chain.clone(), who.key.clone_key())
                .expect("an identity"),
        })
    }
}

impl Identity {
    /// How a server of this identity answers; clients must be vouched for by an authority, if there is one.
    pub(crate) fn server(&self, clients: Option<&Authority>) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("versions");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let roots = Arc::new(authority.roots());
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
            }
        };
        let config = builder.with_single_cert(self.chain.clone(), self.key.clone_key());
        Arc::new(config.expect("an identity"))
    }
}
