//! The URL of the database, and the connection.
//!
//! # Invariants
//! - No message shows the URL or a part of it that may be secret: only host, port and database.
//! - A server that is silent or sends too much costs bounded time and memory: see `bounded_stream`.
//! - Without `sslmode`, the connection is encrypted and the server's certificate is checked, except on loopback and
//!   Unix sockets.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::PublishError;
use super::bounded_stream::{BoundedStream, BoundedTls, Expected, StreamLimits};

/// How long connecting to a server may take, with TLS and log-in, unless the URL sets `connect_timeout`.
const CONNECT: Duration = Duration::from_secs(60);

/// How long a server may take to accept a connection, so that another one is tried soon.
const REACH: Duration = Duration::from_secs(10);

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
        if config.get_application_name().is_none() {
            config.application_name("crm-mirror");
        }
        let mut url = PublishUrl { config, authority, place: String::new() };
        let servers: Vec<String> = url.servers().into_iter().map(|server| server.place).collect();
        url.place = servers.join(" or ");
        Ok(url)
    }

    /// Host, port and database.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Connects to the first server that can be used.
    pub(super) async fn connect(&self) -> Result<Connected, PublishError> {
        let mut servers = self.servers();
        if self.config.get_load_balance_hosts() == LoadBalanceHosts::Random {
            fastrand::shuffle(&mut servers);
        }
        let limit = self.config.get_connect_timeout().copied().unwrap_or(CONNECT);
        let mut last = PublishError::not_connected(&self.place, "the URL names no server");
        for server in servers {
            last = match tokio::time::timeout(limit, self.connect_to(&server)).await {
                Ok(Ok(connected)) => return Ok(connected),
                Ok(Err(error)) => error,
                Err(_) => {
                    PublishError::not_connected(&server.place, &format!("no answer within {} s", limit.as_secs()))
                }
            };
        }
        Err(last)
    }

    fn servers(&self) -> Vec<Server> {
        let (hosts, addresses, ports) = (self.config.get_hosts(), self.config.get_hostaddrs(), self.config.get_ports());
        (0..hosts.len().max(addresses.len()))
            .map(|place| {
                let port = ports.get(place).or(ports.first()).copied().unwrap_or(5432);
                let (host, address) = (hosts.get(place).cloned(), addresses.get(place).copied());
                let name = match (&host, address) {
                    (Some(Host::Tcp(name)), _) => name.clone(),
                    (Some(Host::Unix(path)), _) => path.display().to_string(),
                    (None, address) => address.map(|address| address.to_string()).unwrap_or_default(),
                };
                let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
                Server { host, address, port, place: format!("{name}:{port}/{database}") }
            })
            .collect()
    }

    async fn connect_to(&self, server: &Server) -> Result<Connected, PublishError> {
        let failed = |error: std::io::Error| PublishError::not_connected(&server.place, &error.to_string());
        let addresses: Vec<SocketAddr> = match (&server.host, server.address) {
            (_, Some(address)) => vec![SocketAddr::new(address, server.port)],
            (Some(Host::Tcp(name)), None) => {
                tokio::net::lookup_host((name.as_str(), server.port)).await.map_err(failed)?.collect()
            }
            (Some(Host::Unix(folder)), None) => {
                let path = folder.join(format!(".s.PGSQL.{}", server.port));
                return self.begin(UnixStream::connect(path).await.map_err(failed)?, server).await;
            }
            (None, None) => Vec::new(),
        };
        let mut last = PublishError::not_connected(&server.place, "its name has no address");
        for address in addresses {
            let reached = tokio::time::timeout(REACH, TcpStream::connect(address)).await;
            let reached = reached.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()));
            let connected = match reached.and_then(|socket| socket.set_nodelay(true).map(|()| socket)) {
                Ok(socket) => self.begin(socket, server).await,
                Err(error) => Err(failed(error)),
            };
            match connected {
                Ok(connected) => return Ok(connected),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn begin<S>(&self, socket: S, server: &Server) -> Result<Connected, PublishError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let failed = |error| PublishError::of("connect", &server.place, &error);
        let limits = StreamLimits::default();
        let mode = self.config.get_ssl_mode();
        let (client, driver) = if mode == SslMode::Disable {
            let stream = BoundedStream::new(socket, Expected::MESSAGE, limits);
            let (client, connection) = self.config.connect_raw(stream, NoTls).await.map_err(failed)?;
            (client, tokio::spawn(async { drop(connection.await) }))
        } else {
            let is_sure = mode == SslMode::Require;
            let stream =
                BoundedStream::new(socket, if is_sure { Expected::Cipher } else { Expected::TlsOrNot }, limits);
            let name = match &server.host {
                Some(Host::Tcp(name)) => name.as_str(),
                _ => "",
            };
            let mut tls = MakeRustlsConnect::new(self.tls()?);
            let tls = MakeTlsConnect::<BoundedStream<S>>::make_tls_connect(&mut tls, name);
            let tls = tls.map_err(|error| PublishError::not_connected(&server.place, &error.to_string()))?;
            let (client, connection) =
                self.config.connect_raw(stream, BoundedTls(tls, limits)).await.map_err(failed)?;
            // An error of the connection is reported by the statement that needed it.
            (client, tokio::spawn(async { drop(connection.await) }))
        };
        let connected = Connected { client, driver, place: server.place.clone() };
        let (wanted, why) = match self.config.get_target_session_attrs() {
            TargetSessionAttrs::ReadWrite => ("off", "it does not allow writes"),
            TargetSessionAttrs::ReadOnly => ("on", "it is not read-only"),
            _ => return Ok(connected),
        };
        let answer = connected.client.simple_query("SHOW transaction_read_only").await.map_err(failed)?;
        let is_wanted = |message: &SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some(wanted));
        if answer.iter().any(is_wanted) { Ok(connected) } else { Err(PublishError::not_connected(&server.place, why)) }
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

struct Server {
    host: Option<Host>,
    address: Option<IpAddr>,
    port: u16,
    place: String,
}

/// A session. The driver ends with the client.
pub(super) struct Connected {
    pub client: Client,
    pub driver: JoinHandle<()>,
    pub place: String,
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
