//! The URL of the database, and the connection.
//!
//! # Invariants
//! - No message shows the URL or a part of it that may be secret: only host, port and database.
//! - Without `sslmode`, the connection is encrypted and the server's certificate is checked, except on loopback and
//!   Unix sockets.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use secrecy::{ExposeSecret, SecretString};
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::PublishError;

/// The connection timeout, unless the URL sets one.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection may be silent before the server is probed, and how long sent data may stay unacknowledged.
const SILENT: Duration = Duration::from_secs(30);

/// The validated target of publishing. `Debug` shows no password.
#[derive(Clone, PartialEq, Eq)]
pub struct PublishUrl {
    config: Config,
    /// PEM certificates of a private authority.
    authority: Option<PathBuf>,
    place: String,
}

impl std::fmt::Debug for PublishUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PublishUrl({})", self.place)
    }
}

impl PublishUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// Returns [`PublishError::Url`], which describes the error without the URL.
    pub fn new(url: &SecretString) -> Result<PublishUrl, PublishError> {
        let wrong = |reason: String| PublishError::Url { reason };
        let text = url.expose_secret();
        if !(text.starts_with("postgres://") || text.starts_with("postgresql://")) {
            return Err(wrong("it does not begin with postgres://".into()));
        }
        let (rest, mode, authority) = without_tls_options(text).map_err(wrong)?;
        let mut config = Config::from_str(&rest).map_err(|error| {
            // The source contains the name of an option or a port, never a value.
            let why = std::error::Error::source(&error).map(ToString::to_string);
            wrong(why.unwrap_or_else(|| "it cannot be parsed".into()))
        })?;
        let is_local =
            config.get_hosts().iter().all(is_local) && config.get_hostaddrs().iter().all(std::net::IpAddr::is_loopback);
        config.ssl_mode(match mode {
            Some(mode) => mode,
            None if is_local => SslMode::Disable,
            None => SslMode::Require,
        });
        if config.get_user().is_none() {
            return Err(wrong("it has no user".into()));
        }
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(wrong("it has no host".into()));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_application_name().is_none() {
            config.application_name("crm-mirror");
        }
        config.keepalives_idle(SILENT).tcp_user_timeout(SILENT * 2);
        let place = place(&config);
        Ok(PublishUrl { config, authority, place })
    }

    /// Host, port and database.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Connects. The returned task drives the connection, and ends with the client.
    pub(super) async fn connect(&self) -> Result<(Client, JoinHandle<()>), PublishError> {
        let failed = |error| PublishError::of("connect", &self.place, error);
        // An error of the connection is reported by the statement that needed it.
        if self.config.get_ssl_mode() == SslMode::Disable {
            let (client, connection) = self.config.connect(NoTls).await.map_err(failed)?;
            return Ok((client, tokio::spawn(async { drop(connection.await) })));
        }
        let tls = MakeRustlsConnect::new(self.tls()?);
        let (client, connection) = self.config.connect(tls).await.map_err(failed)?;
        Ok((client, tokio::spawn(async { drop(connection.await) })))
    }

    fn tls(&self) -> Result<ClientConfig, PublishError> {
        let mut roots = RootCertStore::empty();
        if let Some(path) = &self.authority {
            let wrong = |reason: String| PublishError::Certificates { path: path.clone(), reason };
            let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
            for certificate in found {
                let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
                roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(wrong("it contains no certificate".into()));
            }
        } else {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| PublishError::Url { reason: error.to_string() })?;
        Ok(builder.with_root_certificates(roots).with_no_client_auth())
    }
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
    }
}

/// Removes `sslmode` and `sslrootcert` from a URL: the library does not support all modes.
fn without_tls_options(url: &str) -> Result<(String, Option<SslMode>, Option<PathBuf>), String> {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut mode, mut authority, mut kept) = (None, None, Vec::new());
    for option in query.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("sslmode", value)) => {
                mode = Some(match value {
                    "disable" => SslMode::Disable,
                    "allow" | "prefer" => SslMode::Prefer,
                    "require" | "verify-ca" | "verify-full" => SslMode::Require,
                    _ => return Err("its `sslmode` is not disable, prefer, require, verify-ca or verify-full".into()),
                });
            }
            Some(("sslrootcert", value)) => {
                let path = percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned();
                authority = (path != "system").then(|| PathBuf::from(path));
            }
            _ => kept.push(option),
        }
    }
    let url = if kept.is_empty() { base.to_string() } else { format!("{base}?{}", kept.join("&")) };
    Ok((url, mode, authority))
}

fn place(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => config.get_hostaddrs().first().map(ToString::to_string).unwrap_or_default(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    format!("{host}:{port}/{}", config.get_dbname().or(config.get_user()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<PublishUrl, PublishError> {
        PublishUrl::new(&SecretString::from(url))
    }

    #[test]
    fn remote_connections_are_encrypted_unless_the_url_disables_it() {
        for (url, mode) in [
            ("postgres://u:s3cret@db.example.com/crm", SslMode::Require),
            ("postgresql://u:s3cret@db.example.com/crm?sslmode=verify-full", SslMode::Require),
            ("postgres://u:s3cret@db.example.com/crm?sslmode=disable", SslMode::Disable),
            ("postgres://u:s3cret@localhost:5433/crm", SslMode::Disable),
            ("postgres://u:s3cret@127.0.0.1/crm", SslMode::Disable),
            ("postgres://u:s3cret@[::1]/crm?sslmode=require", SslMode::Require),
            ("postgres://u:s3cret@%2Frun%2Fpostgresql/crm", SslMode::Disable),
            ("postgres://u:s3cret@localhost,db.example.com/crm", SslMode::Require),
            ("postgres://u:s3cret@10.0.0.7/crm", SslMode::Require),
        ] {
            let read = read(url).unwrap();
            assert_eq!(read.config.get_ssl_mode(), mode, "{url}");
            assert!(!format!("{read:?}{}", read.place()).contains("s3cret"), "{url}");
        }
        let read = read("postgres://u:p@h:6543/d?sslrootcert=%2Fetc%2Fca.pem&application_name=x").unwrap();
        assert_eq!(read.authority, Some("/etc/ca.pem".into()));
        assert_eq!((read.place(), read.config.get_application_name()), ("h:6543/d", Some("x")));
    }

    #[test]
    fn url_that_cannot_be_used_is_refused_and_not_shown() {
        for url in [
            "s3cret",
            "mysql://u:s3cret@h/d",
            "postgres://u:s3cret@h:port/d",
            "postgres://u:s3cret@h/d?sslmode=s3cret",
            "postgres://u:s3cret@h/d?nonsense=s3cret",
            "postgres://h/d",
            "postgres://u:s3cret@/d",
        ] {
            let error = read(url).unwrap_err();
            let shown = crate::error_chain::error_chain(&error);
            assert!(!shown.contains("s3cret"), "{shown}");
        }
    }
}
