//! A real network before a service: a server with TLS, and links that delay, split, cut and go through a proxy.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST, TRANSFER_ENCODING};
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Who signs the certificates of servers.
pub struct Authority {
    /// Its certificate, as a file of trusted ones has it.
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// Until when a certificate is valid.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    Current,
    Expired,
}

impl Authority {
    pub fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    fn acceptor(&self, name: &str, validity: Validity, protocol: &str) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_string()]).unwrap();
        if validity == Validity::Expired {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        }
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}

/// What a server saw and is to do.
#[derive(Default)]
pub struct Seen {
    pub connections: AtomicU32,
    /// Requests over HTTP/2.
    pub multiplexed: AtomicU32,
    /// So many requests from the third on are refused before they are processed.
    pub refuses: AtomicU32,
    /// The first lines that a proxy was asked.
    pub asked: Mutex<Vec<String>>,
    /// Whether the connection of the next PATCH is reset after the service carried it out.
    pub reset_patch: AtomicBool,
    /// How many connections are cut in the middle of an answer.
    pub cuts: AtomicU32,
}

impl Seen {
    pub fn connections(&self) -> u32 {
        self.connections.load(Ordering::SeqCst)
    }
}

/// A server on loopback, as long as it is kept.
pub struct Listening {
    pub address: SocketAddr,
    pub seen: Arc<Seen>,
    _runtime: tokio::runtime::Runtime,
}

impl Listening {
    /// Listens and hands every connection to `serve`, each in a task of its own.
    fn on<F>(ip: &str, serve: impl Fn(TcpStream, Arc<Seen>) -> F + Send + 'static) -> Option<Listening>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let ip: IpAddr = ip.parse().unwrap();
        let listener = runtime.block_on(TcpListener::bind((ip, 0))).ok()?;
        let (address, seen) = (listener.local_addr().unwrap(), Arc::new(Seen::default()));
        let shared = seen.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, shared.clone()));
            }
        });
        Some(Listening { address, seen, _runtime: runtime })
    }

    /// A server with TLS on an address of this machine, for one name, before a service; none where the machine has no
    /// such address.
    pub fn tls(authority: &Authority, ip: &str, name: &str, validity: Validity, service: &str) -> Option<Listening> {
        let acceptor = authority.acceptor(name, validity, "http/1.1");
        let service = service.to_string();
        Listening::on(ip, move |stream, seen| {
            let (acceptor, service) = (acceptor.clone(), service.clone());
            async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    relay_requests(stream, &service, &seen).await;
                }
            }
        })
    }

    /// The same, speaking HTTP/2 only.
    pub fn http2(authority: &Authority, name: &str, service: &str) -> Listening {
        let acceptor = authority.acceptor(name, Validity::Current, "h2");
        let service = service.to_string();
        let listening = Listening::on("127.0.0.1", move |stream, seen| {
            let (acceptor, service) = (acceptor.clone(), service.clone());
            async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let forward = hyper::service::service_fn(move |request| {
                    let (seen, service) = (seen.clone(), service.clone());
                    async move {
                        let number = seen.multiplexed.fetch_add(1, Ordering::SeqCst) + 1;
                        if (3..3 + seen.refuses.load(Ordering::SeqCst)).contains(&number) {
                            return Err(h2::Error::from(h2::Reason::REFUSED_STREAM));
                        }
                        forward(request, service).await.map_err(|_| h2::Error::from(h2::Reason::INTERNAL_ERROR))
                    }
                });
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(TokioIo::new(stream), forward).await;
            }
        });
        listening.unwrap()
    }

    /// A proxy that connects whatever it is asked for to one server.
    pub fn proxy(to: SocketAddr) -> Listening {
        let listening = Listening::on("127.0.0.1", move |mut stream, seen| async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                match stream.read_u8().await {
                    Ok(byte) => head.push(byte),
                    Err(_) => return,
                }
            }
            let first = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_string();
            seen.asked.lock().unwrap().push(first);
            let answered = stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await;
            if let (Ok(()), Ok(mut server)) = (answered, TcpStream::connect(to).await) {
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
            }
        });
        listening.unwrap()
    }

    /// A slow link: bytes come late, a few at a time, and some connections are cut.
    pub fn slow_link(to: SocketAddr, cuts: u32) -> Listening {
        let listening = Listening::on("127.0.0.1", move |mut stream, seen| async move {
            let _ = stream.set_nodelay(true);
            let Ok(mut server) = TcpStream::connect(to).await else { return };
            let (from_client, to_client) = stream.split();
            let (from_server, to_server) = server.split();
            // In the middle of the service's first page: after the handshake.
            let cut = seen.cuts.fetch_add(1, Ordering::SeqCst) < cuts;
            tokio::select! {
                () = drip(from_client, to_server, None) => {}
                () = drip(from_server, to_client, cut.then_some(2_500)) => {}
            }
        });
        listening.unwrap()
    }

    /// The address of the service behind this server.
    pub fn base_url(&self, host: &str) -> String {
        format!("https://{host}:{}/v1", self.address.port())
    }
}

/// Passes bytes on, a few at a time, up to an end.
async fn drip(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, most: Option<usize>) {
    let mut passed = 0;
    let mut piece = [0; 97];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        passed += read;
        if most.is_some_and(|most| passed > most) || to.write_all(&piece[..read]).await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
}

/// Connects a decrypted stream to the service, and resets it where that was asked for.
async fn relay_requests(stream: impl AsyncRead + AsyncWrite, service: &str, seen: &Seen) {
    let Ok(mut server) = TcpStream::connect(service).await else { return };
    let (mut from_client, mut to_client) = tokio::io::split(stream);
    let (mut from_server, mut to_server) = server.split();
    let is_patch = AtomicBool::new(false);
    let requests = async {
        let mut piece = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from_client.read(&mut piece).await {
            if piece.starts_with(b"PATCH ") && seen.reset_patch.swap(false, Ordering::SeqCst) {
                is_patch.store(true, Ordering::SeqCst);
            }
            if to_server.write_all(&piece[..read]).await.is_err() {
                return;
            }
        }
    };
    let answers = async {
        let mut piece = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from_server.read(&mut piece).await {
            // The service has carried it out, and the answer is lost.
            if is_patch.load(Ordering::SeqCst) || to_client.write_all(&piece[..read]).await.is_err() {
                return;
            }
            let _ = to_client.flush().await;
        }
    };
    tokio::select! {
        () = requests => {}
        () = answers => {}
    }
}

/// Asks the service over HTTP/1.1 what came over HTTP/2.
async fn forward(request: Request<Incoming>, service: String) -> Result<Response<Incoming>, hyper::Error> {
    let stream = TcpStream::connect(&service).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let (mut head, body) = request.into_parts();
    head.version = Version::HTTP_11;
    head.uri = head.uri.path_and_query().unwrap().as_str().parse().unwrap();
    head.headers.insert(HOST, service.parse().unwrap());
    let mut response = sender.send_request(Request::from_parts(head, body)).await?;
    for name in [CONNECTION, TRANSFER_ENCODING] {
        response.headers_mut().remove(name);
    }
    *response.version_mut() = Version::HTTP_2;
    Ok(response)
}
