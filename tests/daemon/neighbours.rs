//! Neighbours that accept connections and are silent, drip, flood, or lie about lengths: each costs bounded time and memory,
//! is named in the status, and stops nothing else.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::binary::{Ended, SECRET, TestDir};
use crate::fixture::{Daemon, DaemonFixture};
use crate::socket;

/// The most memory that a process may take whatever its neighbours do, in KiB.
const MAX_MEMORY: u64 = 200_000;

/// What a server sends after a request: the beginning, and what follows it for ever; nothing else if that is empty.
type Behaviour = (&'static str, &'static [u8], &'static [u8], Pace);

#[derive(Clone, Copy, PartialEq)]
enum Pace {
    Fast,
    Slow,
}

/// Servers of HTTP.
const HTTP: [Behaviour; 8] = [
    ("silent", b"", b"", Pace::Fast),
    ("drips its head", b"HTTP/1.1 200 OK\r\nx: ", b"x", Pace::Slow),
    ("drips its body", b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n", b" ", Pace::Slow),
    ("floods its head", b"HTTP/1.1 200 OK\r\n", b"x: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n", Pace::Fast),
    ("floods its body", b"HTTP/1.1 200 OK\r\n\r\n", &[b' '; 4_096], Pace::Fast),
    ("announces too much", b"HTTP/1.1 200 OK\r\ncontent-length: 9223372036854775807\r\n\r\n{", b"", Pace::Fast),
    (
        "announces a huge chunk",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n7ffffffffffffff0\r\n{",
        b"",
        Pace::Fast,
    ),
    ("announces too little", b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n", &[b'{'; 4_096], Pace::Fast),
];

/// Servers of PostgreSQL's protocol.
const POSTGRESQL: [Behaviour; 4] = [
    ("silent", b"", b"", Pace::Fast),
    ("drips", b"N\0\x10\0\0", b"x", Pace::Slow),
    ("floods", b"", b"N\0\0\0\x0aMabcd\0", Pace::Fast),
    ("announces too much", b"R\x7f\xff\xff\xff", b"", Pace::Fast),
];

fn server((_, beginning, endless, pace): Behaviour) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let behave = move |mut stream: TcpStream| {
        let _ = stream.read(&mut [0; 4_096]);
        if stream.write_all(beginning).is_err() || endless.is_empty() {
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
            return;
        }
        while stream.write_all(endless).is_ok() {
            if pace == Pace::Slow {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || behave(stream));
        }
    });
    at
}

/// Runs a verb with bounded memory, for a minute at most.
fn bounded(place: &TestDir, verb: &str) -> Ended {
    let program = place.command(&[verb]);
    let mut command = Command::new("sh");
    let limits = format!("ulimit -v {}; exec timeout -s KILL 60 \"$0\" \"$@\"", 5 * MAX_MEMORY);
    command.args(["-c", &limits]).arg(program.get_program()).args(program.get_args()).env_clear();
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(place.path("")).stdin(Stdio::null()).output().unwrap().into()
}

fn peak(daemon: &Daemon) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn service_or_proxy_that_misbehaves_ends_a_run_with_a_sentence() {
    std::thread::scope(|scope| {
        for behaviour in HTTP {
            for is_proxy in [false, true] {
                scope.spawn(move || {
                    let address = format!("http://{}", server(behaviour));
                    let base_url = if is_proxy { "https://crm.test/v1".into() } else { format!("{address}/v1") };
                    let place = TestDir::empty()
                        .set("CRM_MIRROR_API__BASE_URL", &base_url)
                        .set("CRM_MIRROR_API__KEY", SECRET)
                        .set("CRM_MIRROR_API__TIMEOUT", "1s")
                        .set("CRM_MIRROR_SYNC__OBJECTS", "contacts")
                        .set("HTTPS_PROXY", &address);
                    let what = format!("{} {}", if is_proxy { "proxy" } else { "service" }, behaviour.0);
                    let ended = bounded(&place, "sync").code(69);
                    assert!(ended.err.contains("error: "), "{what}: {}", ended.err);
                    let status = place.run("status").out;
                    assert!(status.contains("could not"), "{what}: {status}");
                });
            }
        }
    });
}

#[test]
fn postgresql_that_misbehaves_is_named_and_mirroring_goes_on() {
    std::thread::scope(|scope| {
        for behaviour in POSTGRESQL {
            scope.spawn(move || {
                let url = format!("postgres://u:p@{}/d?connect_timeout=1", server(behaviour));
                let fixture = DaemonFixture::with(20, 2).set("CRM_MIRROR_PUBLISH__URL", &url);
                let daemon = fixture.start();
                daemon.sync();
                socket::until(behaviour.0, || daemon.status()["publish"]["last_error"].is_string().then_some(()));
                let status = fixture.place.run("status").out;
                let line = status.lines().find(|line| line.starts_with("publish ")).unwrap_or_default();
                assert!(line.contains("could not"), "{}: {status}", behaviour.0);
                daemon.sync();
                assert!(peak(&daemon) < MAX_MEMORY, "{}: {} KiB", behaviour.0, peak(&daemon));
                daemon.stop();
                fixture.assert_exact();
            });
        }
    });
}

/// What a client sends: the beginning, and what follows until the server has had enough, a gigabyte at the most.
const CLIENTS: [(&[u8], &[u8]); 5] = [
    (b"", b""),
    (b"GET /status HT", b""),
    (b"GET /status HTTP/1.1\r\nhost: localhost\r\n", b"x: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n"),
    (b"POST /sync HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9223372036854775807\r\n\r\n{", &[b' '; 4_096]),
    // Many questions, and no answer is read.
    (b"", b"GET /status HTTP/1.1\r\nhost: localhost\r\n\r\n"),
];

fn pester<S: Read + Write>(mut stream: S, (beginning, endless): (&[u8], &[u8])) {
    if stream.write_all(beginning).is_err() || endless.is_empty() {
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
        return;
    }
    let mut left: usize = 1 << 30;
    while left > 0 && stream.write_all(endless).is_ok() {
        left = left.saturating_sub(endless.len());
    }
    assert!(left > 0, "the server reads without end");
}

#[test]
fn clients_that_misbehave_shut_nobody_out_and_mirroring_goes_on() {
    let fixture = DaemonFixture::with(20, 2).set("CRM_MIRROR_DAEMON__HTTP", "127.0.0.1:0");
    let daemon = fixture.start();
    let page = daemon.page();
    let mut clients = Vec::new();
    for client in CLIENTS {
        for _ in 0..20 {
            let (to_page, to_socket) = (TcpStream::connect(&page), UnixStream::connect(&daemon.socket));
            // The page may be full for the moment.
            clients.extend(to_page.ok().map(|stream| std::thread::spawn(move || pester(stream, client))));
            let stream = to_socket.unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
            clients.push(std::thread::spawn(move || pester(stream, client)));
        }
    }
    daemon.sync();
    for path in ["/healthz", "/metrics", "/status"] {
        socket::ask_page(&page, path).with(200);
    }
    assert!(peak(&daemon) < MAX_MEMORY, "{} KiB", peak(&daemon));
    daemon.stop();
    for client in clients {
        client.join().unwrap();
    }
    fixture.assert_exact();
}
