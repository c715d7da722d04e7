//! The certificate of the server.

use super::ServeError;
use pgwire::tokio::TlsAcceptor;
use pgwire::tokio::tokio_rustls::rustls::ServerConfig;
use pgwire::tokio::tokio_rustls::rustls::crypto::ring;
use pgwire::tokio::tokio_rustls::rustls::pki_types::pem::PemObject;
use pgwire::tokio::tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

/// A certificate that was read and is usable.
#[derive(Clone)]
pub struct Certificate {
    pub(crate) acceptor: TlsAcceptor,
    /// The same for HTTP.
    pub(crate) https: TlsAcceptor,
    /// The same for gRPC.
    pub(crate) grpc: TlsAcceptor,
    /// As in the file: SCRAM binds its exchange to it.
    pub(crate) pem: Vec<u8>,
}

impl Certificate {
    /// Reads a certificate, with those of its issuers after it, and its private key, as PEM.
    ///
    /// # Errors
    /// Bad input: files that cannot be read, or that do not belong together.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, ServeError> {
        let wrong = |path: &Path, problem: &dyn Display| {
            ServeError::input(format!("{}: {problem}", path.display()))
        };
        let pem = std::fs::read(certificate)
            .map_err(|e| wrong(certificate, &format!("cannot read: {e}")))?;
        let chain: Vec<CertificateDer> = CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<_, _>>()
            .map_err(|e| wrong(certificate, &format!("expected certificates as PEM: {e}")))?;
        if chain.is_empty() {
            return Err(wrong(certificate, &"there is no certificate (PEM) in it"));
        }
        let secret = std::fs::read(key).map_err(|e| wrong(key, &format!("cannot read: {e}")))?;
        let secret = PrivateKeyDer::from_pem_slice(&secret)
            .map_err(|e| wrong(key, &format!("expected a private key as PEM: {e}")))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| wrong(certificate, &e))?
            .with_no_client_auth()
            .with_single_cert(chain, secret)
            .map_err(|e| wrong(key, &format!("does not fit {}: {e}", certificate.display())))?;
        let mut config = config;
        let (mut https, mut grpc) = (config.clone(), config.clone());
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        https.alpn_protocols = vec![b"http/1.1".to_vec()];
        grpc.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Certificate {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            https: TlsAcceptor::from(Arc::new(https)),
            grpc: TlsAcceptor::from(Arc::new(grpc)),
            pem,
        })
    }
}
