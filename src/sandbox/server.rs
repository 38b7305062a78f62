//! The sandbox on a socket: accepts connections and serves each one until it, or the server, is closed.

use std::io;

use axum::body::Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use super::handle::Sandbox;
use super::http;
use super::wire::{Switch, Wire};

/// A running sandbox server. Dropping it stops the server and breaks its connections.
pub struct SandboxServer {
    /// The base URL, `/v1` included.
    pub base_url: String,
    sandbox: Sandbox,
    stop: Switch,
    serving: tokio::task::JoinHandle<()>,
}

impl SandboxServer {
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl Drop for SandboxServer {
    fn drop(&mut self) {
        self.stop.cut();
        self.serving.abort();
    }
}

impl Sandbox {
    /// Serves on 127.0.0.1; port 0 picks a free one. The sandbox can be served more than once, also after a stop.
    pub async fn start(&self, port: u16) -> io::Result<SandboxServer> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let port = listener.local_addr()?.port();
        let stop = Switch::default();
        let serving = tokio::spawn(accept(self.clone(), listener, stop.clone()));
        Ok(SandboxServer { base_url: format!("http://127.0.0.1:{port}/v1"), sandbox: self.clone(), stop, serving })
    }
}

async fn accept(sandbox: Sandbox, listener: TcpListener, stop: Switch) {
    loop {
        // A connection that fails before it is accepted is ignored.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        tokio::spawn(serve(sandbox.clone(), stream, stop.clone()));
    }
}

async fn serve(sandbox: Sandbox, stream: TcpStream, stop: Switch) {
    // Answers are small: Nagle's algorithm would only delay them.
    let _ = stream.set_nodelay(true);
    let switch = Switch::default();
    let wire = Wire { stream, switch: switch.clone(), stop };
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        http::answer(sandbox.clone(), switch.clone(), request.map(Body::new))
    });
    // The `Date` header is set by the settings. A broken connection is noticed by the peer.
    let _ = http1::Builder::new().auto_date_header(false).serve_connection(TokioIo::new(wire), service).await;
}
