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
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::PublishError;

const DOING: &str = "connect to the server";

/// How long connecting to a server may take, with TLS and log-in, unless the URL sets `connect_timeout`.
const CONNECT: Duration = Duration::from_secs(60);

/// How long a server may take to accept a connection, so that another one is tried soon.
const REACH: Duration = Duration::from_secs(10);

/// The validated target of publishing. `Debug` shows no password, as that of the driver's configuration does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishUrl {
    /// Each server of the URL.
    servers: Vec<Config>,
    /// PEM certificates of a private authority.
    authority: Option<PathBuf>,
    /// Host, port and database of each.
    pub place: String,
}

impl PublishUrl {
    pub fn new(url: &SecretString) -> Result<PublishUrl, PublishError> {
        let wrong = |reason: String| PublishError::Url { reason };
        let text = url.expose_secret();
        if !(text.starts_with("postgres://") || text.starts_with("postgresql://")) {
            return Err(wrong("it does not begin with postgres://".into()));
        }
        let (rest, mode, authority) = without_tls_options(text).map_err(wrong)?;
        // The driver ends user and password at the first `@`, wherever that is, and would take the rest of them for the host.
        let login = rest.split_once("://").and_then(|(_, rest)| rest.split_once('@'));
        if login.is_some_and(|(login, rest)| login.contains(['/', '?']) || rest.contains('@')) {
            let why = "`@`, `/` and `?` in a user name, password or parameter are written `%40`, `%2F` and `%3F`";
            return Err(wrong(why.into()));
        }
        let mut servers =
            one_of_each_host(&rest).iter().map(|url| config(url).map_err(wrong)).collect::<Result<Vec<_>, _>>()?;
        let mode = mode.unwrap_or(if servers.iter().all(is_local) { SslMode::Disable } else { SslMode::Require });
        servers.iter_mut().for_each(|server| _ = server.ssl_mode(mode));
        let places: Vec<String> = servers.iter().map(place).collect();
        Ok(PublishUrl { place: places.join(" or "), servers, authority })
    }

    /// Connects to the first server that can be used. Returns a session, its driver, which ends with it, and the place.
    pub(super) async fn connect(&self) -> Result<(Client, JoinHandle<()>, String), PublishError> {
        let mut last = PublishError::no_answer(DOING, &self.place, "the URL names no server");
        for config in &self.servers {
            let (place, mut config) = (place(config), config.clone());
            let limit = config.get_connect_timeout().copied().unwrap_or(CONNECT);
            config.connect_timeout(limit.min(REACH));
            // Hosts that stay together are tried one after the other.
            let hosts = config.get_hosts().len().max(config.get_hostaddrs().len());
            let limit = limit.saturating_mul(u32::try_from(hosts).unwrap_or(1).max(1));
            let connected = match config.get_ssl_mode() {
                SslMode::Disable => tokio::time::timeout(limit, begin(&config, NoTls)).await,
                _ => tokio::time::timeout(limit, begin(&config, MakeRustlsConnect::new(self.tls()?))).await,
            };
            last = match connected {
                Ok(Ok((client, driver))) => return Ok((client, driver, place)),
                Ok(Err(error)) => PublishError::of(DOING, &place, &error),
                Err(_) => PublishError::no_answer(DOING, &place, &format!("no answer within {} s", limit.as_secs())),
            };
        }
        Err(last)
    }

    fn tls(&self) -> Result<ClientConfig, PublishError> {
        let mut roots = RootCertStore::empty();
        if let Some(path) = &self.authority {
            let wrong = |why: String| PublishError::Url {
                reason: format!("the certificates in {} cannot be used: {why}", path.display()),
            };
            let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            for certificate in found.map_err(|error| wrong(error.to_string()))? {
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

async fn begin<T>(config: &Config, tls: T) -> Result<(Client, JoinHandle<()>), tokio_postgres::Error>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, connection) = config.connect(tls).await?;
    // An error of the connection is reported by the statement that needed it.
    Ok((client, tokio::spawn(async { drop(connection.await) })))
}

/// The URL with one of its hosts each, so that a message can name the one that was reached. Hosts that have addresses or ports
/// of their own stay together.
fn one_of_each_host(url: &str) -> Vec<String> {
    if ["hostaddr=", "port="].iter().any(|option| url.contains(option)) {
        return vec![url.to_string()];
    }
    let begin = url.find('@').map(|at| at + 1).or(url.find("://").map(|at| at + 3)).unwrap_or_default();
    let end = url[begin..].find(['/', '?']).map_or(url.len(), |at| begin + at);
    url[begin..end].split(',').map(|host| format!("{}{host}{}", &url[..begin], &url[end..])).collect()
}

fn config(url: &str) -> Result<Config, String> {
    let mut config = Config::from_str(url).map_err(|error| {
        // The source contains the name of an option or a port, never a value.
        let why = std::error::Error::source(&error).map(ToString::to_string);
        why.unwrap_or_else(|| "it cannot be parsed".into())
    })?;
    if config.get_user().is_none() {
        return Err("it has no user".into());
    }
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err("it has no host".into());
    }
    if config.get_application_name().is_none() {
        config.application_name("crm-mirror");
    }
    Ok(config)
}

fn place(config: &Config) -> String {
    let of_host = |host: &Host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    };
    let mut names: Vec<String> = config.get_hosts().iter().map(of_host).collect();
    if names.is_empty() {
        names = config.get_hostaddrs().iter().map(ToString::to_string).collect();
    }
    let port = config.get_ports().first().copied().unwrap_or(5432);
    format!("{}:{port}/{}", names.join(","), config.get_dbname().or(config.get_user()).unwrap_or_default())
}

fn is_local(config: &Config) -> bool {
    let is_local = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
    };
    config.get_hosts().iter().all(is_local) && config.get_hostaddrs().iter().all(std::net::IpAddr::is_loopback)
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
            assert_eq!(read.servers[0].get_ssl_mode(), mode, "{url}");
            assert!(!format!("{read:?}{}", read.place).contains("s3cret"), "{url}");
        }
        let read = read("postgres://u:p@h:6543/d?sslrootcert=%2Fetc%2Fca.pem&application_name=x").unwrap();
        assert_eq!(read.authority, Some("/etc/ca.pem".into()));
        assert_eq!((read.place.as_str(), read.servers[0].get_application_name()), ("h:6543/d", Some("x")));
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
            "postgres://u:p@s3cret@h/d",
            "postgres://u:p@ss/s3cret@h/d",
            "postgres://u:p@ss?s3cret@h/d",
            "postgres://h/d?user=u&password=p@s3cret",
        ] {
            let error = read(url).unwrap_err();
            let shown = crate::error_chain::error_chain(&error);
            assert!(!shown.contains("s3cret"), "{shown}");
        }
    }
}
