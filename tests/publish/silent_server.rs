//! Servers that are no PostgreSQL, or a hostile one: publishing ends in bounded time with a sentence, and the mirror's
//! own status names it.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use crm_mirror::model::Instant;
use crm_mirror::publish::{self, PublishSettings, PublishUrl};

use crate::support::Mirror;

/// A server that does this with each connection, and its URL.
fn server(behave: fn(TcpStream)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || behave(stream));
        }
    });
    format!("postgres://u:p@{at}/d?connect_timeout=1")
}

/// Reads until the client is gone.
fn wait(mut stream: TcpStream) {
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
}

fn drip(mut stream: TcpStream) {
    let _ = stream.read(&mut [0; 1_000]);
    // The head of a notice of a megabyte, and then a byte now and then.
    let _ = stream.write_all(b"N\0\x10\0\0");
    while stream.write_all(b"x").is_ok() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn announce(mut stream: TcpStream) {
    let _ = stream.read(&mut [0; 1_000]);
    let _ = stream.write_all(b"R\x7f\xff\xff\xff");
    wait(stream);
}

fn refuse_rudely(mut stream: TcpStream) {
    let _ = stream.read(&mut [0; 1_000]);
    let text = format!("\u{1b}]0;owned\u{7}\u{1b}[2J{}", "x".repeat(100_000));
    let fields = [b"SFATAL\0VFATAL\0C57P03\0M".as_slice(), text.as_bytes(), b"\0\0"].concat();
    let length = u32::try_from(fields.len() + 4).unwrap();
    let _ = stream.write_all(&[b"E".as_slice(), &length.to_be_bytes(), &fields].concat());
}

#[tokio::test]
async fn server_that_does_not_speak_is_given_up_with_a_sentence() {
    let mirror = Mirror::empty();
    crm_mirror::store::Store::open(&mirror.path).unwrap().close().await;
    let settings = |mirror: &Mirror| PublishSettings {
        mirror: mirror.path.clone(),
        schema: "crm".into(),
        objects: None,
        exclude: Vec::new(),
        full: false,
        check: publish::Check::None,
    };
    for (behave, expected) in [
        (wait as fn(TcpStream), "no answer within 1 s"),
        (drip, "no answer within 1 s"),
        (announce, "no answer within 1 s"),
        (refuse_rudely, "]0;owned"),
    ] {
        let url = PublishUrl::new(&server(behave).into()).unwrap();
        let error = publish::publish(&url, &settings(&mirror), Instant::system_now()).await.unwrap_err();
        let shown = crm_mirror::error_chain::error_chain(&error);
        assert!(shown.contains(expected) && shown.contains(&url.place), "{shown}");
        assert!(!shown.contains(char::is_control) && shown.len() < 1_000, "{shown}");
        let conn = rusqlite::Connection::open(&mirror.path).unwrap();
        let noted: String = conn
            .query_row("SELECT group_concat(value) FROM state WHERE value LIKE '%last_error%'", [], |row| row.get(0))
            .unwrap();
        assert!(noted.contains(expected), "{noted}");
    }
}
