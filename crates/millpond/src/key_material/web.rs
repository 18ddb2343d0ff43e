//! Key material from web servers, by `ureq` over `rustls`: bounded in time and size, and never from a server that is
//! not who it should be. What the libraries copied of it is zeroed when they free it.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls_native_certs::{CertificateResult, load_certs_from_paths, load_native_certs};
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, TlsConfig, parse_pem};
use ureq::{Agent, Error};
use zeroize::Zeroizing;

use super::LENGTH_MAX;

/// The whole of it takes no longer, from the look-up of the name to the last byte.
const TIME_MAX: Duration = Duration::from_secs(15);
/// So often a server may say that it is elsewhere.
const REDIRECTS_MAX: u32 = 5;
/// An answer begins with no more bytes than that.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// What is at an address; or why it cannot be had.
pub(super) fn get(address: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    crypto::with_clean_stack(|| sys::with_freed_memory_wiped(|| get_now(address)))
}

fn get_now(address: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    let config = Agent::config_builder()
        .tls_config(security()?)
        // What begins with https does not end without.
        .https_only(address.starts_with("https:"))
        .timeout_global(Some(TIME_MAX))
        .max_redirects(REDIRECTS_MAX)
        .max_response_header_size(HEAD_BYTES_MAX)
        .max_idle_connections(0)
        .user_agent(concat!("millpond/", env!("CARGO_PKG_VERSION")));
    let agent: Agent = config.build().into();
    let answer = agent.get(address).call().map_err(reason)?;
    let mut body = answer.into_body();
    if let Some(length) = body.content_length()
        && length > LENGTH_MAX as u64
    {
        return Err(format!("the answer has {length} bytes, more than any key"));
    }
    read(body.as_reader()).map_err(|error| reason(error.into()))
}

/// All of an answer, in a buffer that does not grow; that it is too long is an error of its own.
fn read(mut from: impl Read) -> io::Result<Zeroizing<Vec<u8>>> {
    let given = super::read(&mut from)?;
    let mut more = Zeroizing::new([0]);
    if given.len() == LENGTH_MAX && from.read(&mut *more)? > 0 {
        let text = format!("the answer has more than {LENGTH_MAX} bytes, more than any key");
        return Err(io::Error::other(text));
    }
    Ok(given)
}

/// Whom is believed, and who we are, as variables say; else the host's own certificate authorities.
fn security() -> Result<TlsConfig, String> {
    let (file, folder) = (named("SSL_CA_CERT_FILE"), named("SSL_CA_CERT_PATH"));
    let found = if file.is_none() && folder.is_none() {
        load_native_certs()
    } else {
        let found = load_certs_from_paths(file.as_deref(), folder.as_deref());
        if let Some(error) = found.errors.first() {
            return Err(format!(
                "the certificate authorities cannot be read: {error}"
            ));
        }
        if found.certs.is_empty() {
            return Err(
                "no certificate authority is where SSL_CA_CERT_FILE and SSL_CA_CERT_PATH say"
                    .to_owned(),
            );
        }
        found
    };
    let CertificateResult { certs, .. } = found;
    let roots = certs
        .iter()
        .map(|certificate| Certificate::from_der(certificate).to_owned());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(TlsConfig::builder()
        .unversioned_rustls_crypto_provider(provider)
        .root_certs(roots.collect::<Vec<_>>().into())
        .client_cert(client()?)
        .build())
}

/// What we show a server that asks who we are.
fn client() -> Result<Option<ClientCert>, String> {
    const FILE: &str = "SSL_CLIENT_CERT_FILE";
    const KEY: &str = "SSL_CLIENT_KEY_FILE";
    let Some(file) = named(FILE) else {
        return Ok(None);
    };
    let items = pem(FILE, &file)?;
    // A key may stand behind the certificates.
    let key = match named(KEY) {
        Some(path) => pem(KEY, &path)?,
        None => pem(FILE, &file)?,
    };
    let private = |item| {
        if let PemItem::PrivateKey(key) = item {
            return Some(key);
        }
        None
    };
    let key: Option<PrivateKey<'static>> = key.into_iter().find_map(private);
    let key = key.ok_or_else(|| format!("no private key is where {KEY} says"))?;
    let public = |item| {
        if let PemItem::Certificate(certificate) = item {
            return Some(certificate);
        }
        None
    };
    let chain: Vec<_> = items.into_iter().filter_map(public).collect();
    if chain.is_empty() {
        return Err(format!("no certificate is where {FILE} says"));
    }
    Ok(Some(ClientCert::new_with_certs(&chain, key)))
}

/// What a file that a variable names has.
fn pem(variable: &str, path: &Path) -> Result<Vec<PemItem<'static>>, String> {
    let bytes = std::fs::read(path);
    let bytes = Zeroizing::new(bytes.map_err(|error| {
        let reason = base::host_reason(&error);
        format!("{variable} cannot be read: {reason}")
    })?);
    let items: Result<Vec<_>, Error> = parse_pem(&bytes).collect();
    items.map_err(|error| format!("{variable} makes no sense: {error}"))
}

/// The path that a variable has.
fn named(variable: &str) -> Option<PathBuf> {
    let value = std::env::var_os(variable)?;
    (!value.is_empty()).then(|| value.into())
}

/// What went wrong, without the address: names and passwords may be in it.
fn reason(error: Error) -> String {
    if let Error::StatusCode(status) = &error {
        return format!("the server answered with status {status}");
    }
    if let Error::Timeout(_) = &error {
        return format!("it took longer than {} seconds", TIME_MAX.as_secs());
    }
    if let Error::RequireHttpsOnly(_) = &error {
        return "the server redirects to an address without https".to_owned();
    }
    if let Error::TooManyRedirects = &error {
        return "the server redirects too often".to_owned();
    }
    // What libraries say of an address has it in it.
    if let Error::BadUri(_) | Error::Http(_) = &error {
        return "the address makes no sense".to_owned();
    }
    if let Error::Io(error) = &error {
        return base::host_reason(error);
    }
    error.to_string()
}
