//! The program on a real network: TLS with its own and with wrong certificates, HTTP/2, proxies, IPv6, slow and broken
//! links, answers that unpack without end, and an update whose answer is lost.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::atomic::Ordering;

use crm_mirror::model::Object;
use crm_mirror::sandbox::World;
use serde_json::json;

use crate::binary::{Ended, SECRET, Service, TestDir};
use crate::tls::{Authority, Listening, Validity};

/// The address behind a base URL.
fn host(service: &Service) -> String {
    let address = service.base_url.strip_prefix("http://").unwrap();
    address.strip_suffix("/v1").unwrap().to_string()
}

/// A mirror of the service behind a base URL, with the authority's certificate as the only one that is trusted.
fn place(base_url: &str, authority: &Authority) -> TestDir {
    let place = TestDir::empty().set("CRM_MIRROR_API__BASE_URL", base_url).set("CRM_MIRROR_API__KEY", SECRET);
    let file = place.path("ca.pem");
    std::fs::write(&file, &authority.pem).unwrap();
    let file = file.display().to_string();
    place.set("SSL_CERT_FILE", &file)
}

#[track_caller]
fn assert_copied(place: &TestDir, service: &Service) {
    for object in Object::ALL {
        let rows = place.ask(&format!("SELECT count(*) FROM {}", object.table()));
        assert_eq!(rows, service.sandbox.world().count(object.resource()).to_string());
    }
}

#[test]
fn a_private_authority_is_trusted_where_the_environment_names_it() {
    let (service, authority) = (Service::with(30, 5), Authority::new());
    let server = Listening::tls(&authority, "127.0.0.1", "localhost", Validity::Current, &host(&service)).unwrap();
    let place = place(&server.base_url("localhost"), &authority);
    place.run("sync").done();
    assert_copied(&place, &service);
    // In the file that the environment names, and nowhere else.
    let other = place.path("other.pem");
    std::fs::write(&other, Authority::new().pem).unwrap();
    let place = place.set("SSL_CERT_FILE", &other.display().to_string());
    let seen = server.seen.connections();
    assert_refused(&place.run("sync"), &server, seen, &["certificate"]);
}

/// Whether a run failed for a certificate, said so, and did not ask again and again.
#[track_caller]
fn assert_refused(ended: &Ended, server: &Listening, seen: u32, words: &[&str]) {
    let text = ended.err.to_lowercase();
    assert!(words.iter().all(|word| text.contains(word)), "{}", ended.err);
    assert!(text.contains("ca certificates"), "{}", ended.err);
    assert_eq!(ended.code, Some(69), "{}", ended.err);
    assert_eq!(server.seen.connections() - seen, 1, "one attempt");
}

#[test]
fn certificates_that_are_not_valid_are_named_and_not_asked_for_again() {
    let (service, authority) = (Service::with(1, 1), Authority::new());
    for (name, validity, words) in [
        ("localhost", Validity::Expired, ["certificate", "expired"]),
        ("example.com", Validity::Current, ["not valid for", "localhost"]),
    ] {
        let server = Listening::tls(&authority, "127.0.0.1", name, validity, &host(&service)).unwrap();
        let place = place(&server.base_url("localhost"), &authority);
        assert_refused(&place.run("sync"), &server, 0, &words);
        assert!(service.sandbox.log().is_empty());
    }
}

#[test]
fn port_without_tls_is_named() {
    let service = Service::with(1, 1);
    let place = place(&format!("https://{}/v1", host(&service)), &Authority::new());
    let ended = place.run("sync");
    assert_eq!(ended.code, Some(69), "{}", ended.err);
    assert!(ended.err.contains("this port does not speak TLS"), "{}", ended.err);
    assert!(service.sandbox.log().is_empty());
}

#[test]
fn http2_is_spoken_where_the_server_does() {
    let (service, authority) = (Service::with(250, 5), Authority::new());
    let server = Listening::http2(&authority, "localhost", &host(&service));
    let place = place(&server.base_url("localhost"), &authority);
    place.run("sync").done();
    assert_copied(&place, &service);
    assert_eq!(server.seen.multiplexed.load(Ordering::SeqCst) as usize, service.sandbox.log().len());
}

/// A server that is busy refuses streams; the guarantee of HTTP/2 is that it has not processed them.
#[test]
fn requests_that_http2_refuses_unprocessed_are_sent_again_and_charged_once() {
    let (service, authority) = (Service::with(250, 5), Authority::new());
    let server = Listening::http2(&authority, "localhost", &host(&service));
    server.seen.refuses.store(4, Ordering::SeqCst);
    // One at a time, so that one of them is refused four times in a row.
    let place = place(&server.base_url("localhost"), &authority).set("CRM_MIRROR_API__CONCURRENCY", "1");
    let summary = place.run("sync --json").done().json();
    assert_copied(&place, &service);
    let (processed, sent) = (service.sandbox.log().len(), server.seen.multiplexed.load(Ordering::SeqCst) as usize);
    assert_eq!((summary["ru"]["spent"].as_u64().unwrap() as usize, sent), (processed, processed + 4));
}

#[test]
fn proxies_of_the_environment_are_used_and_see_no_key() {
    let (service, authority) = (Service::with(30, 5), Authority::new());
    let server = Listening::tls(&authority, "127.0.0.1", "crm.test", Validity::Current, &host(&service)).unwrap();
    let proxy = Listening::proxy(server.address);
    let address = format!("http://{}", proxy.address);
    let place = place("https://crm.test/v1", &authority).set("HTTPS_PROXY", &address);
    place.run("sync").done();
    assert_copied(&place, &service);
    let asked = proxy.seen.asked.lock().unwrap().clone();
    assert!(!asked.is_empty() && asked.iter().all(|line| line == "CONNECT crm.test:443 HTTP/1.1"), "{asked:?}");
    // Longer than any name may be: nobody answers for it, with or without a network.
    let nowhere = format!("https://{}.test/v1", "a".repeat(70));
    let place = place.set("CRM_MIRROR_API__BASE_URL", &nowhere).set("NO_PROXY", "example.com,.test");
    let ended = place.run("sync").code(69);
    assert!(ended.err.contains("api.base_url"), "{}", ended.err);
    assert_eq!(proxy.seen.connections() as usize, asked.len(), "what NO_PROXY names is asked for directly");
    // A proxy is never asked for what is on this machine.
    let place = place.set("CRM_MIRROR_API__BASE_URL", &service.base_url).unset("NO_PROXY").set("HTTP_PROXY", &address);
    place.run("sync").done();
    assert_eq!(proxy.seen.connections() as usize, asked.len());
}

#[test]
fn proxy_that_wants_a_login_is_named_and_not_asked_again_and_again() {
    let authority = Authority::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = asked.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::Relaxed);
            let _ = stream.read(&mut [0; 4_096]);
            let head = "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n";
            let _ = stream.write_all(head.as_bytes());
        }
    });
    let place = place("https://crm.test/v1", &authority).set("HTTPS_PROXY", &address);
    let ended = place.run("sync").code(78);
    assert!(ended.err.contains("the proxy refuses: set its user and password"), "{}", ended.err);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[test]
fn ipv6_addresses_are_addresses() {
    let (service, authority) = (Service::with(5, 1), Authority::new());
    let server = Listening::tls(&authority, "::1", "::1", Validity::Current, &host(&service));
    let Some(server) = server else { return eprintln!("this machine has no IPv6 loopback: skipped") };
    let place = place(&server.base_url("[::1]"), &authority);
    place.run("sync").done();
    assert_copied(&place, &service);
}

#[test]
fn slow_links_that_break_are_survived() {
    let (service, authority) = (Service::with(60, 5), Authority::new());
    let server = Listening::tls(&authority, "127.0.0.1", "localhost", Validity::Current, &host(&service)).unwrap();
    let link = Listening::slow_link(server.address, 2);
    let place = place(&link.base_url("localhost"), &authority);
    place.run("sync").done();
    assert_copied(&place, &service);
    assert!(link.seen.connections() > 2, "what was cut is connected again");
}

#[test]
fn an_update_whose_answer_is_lost_is_sent_once() {
    let (service, authority) = (Service::with(3, 1), Authority::new());
    let server = Listening::tls(&authority, "127.0.0.1", "localhost", Validity::Current, &host(&service)).unwrap();
    let place = place(&server.base_url("localhost"), &authority).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    place.run("sync").done();
    let id = place.ask("SELECT id FROM contacts ORDER BY id LIMIT 1");
    place.run(&format!("edit contact {id} position=CTO")).done();
    server.seen.reset_patch.store(true, Ordering::SeqCst);
    place.run("push");
    assert!(!server.seen.reset_patch.load(Ordering::SeqCst), "the update was sent");
    assert_eq!(place.ask("SELECT state FROM outbox"), "sending", "nobody knows yet whether it was carried out");
    // As if its delay had passed.
    let conn = rusqlite::Connection::open(place.path("mirror.db")).unwrap();
    conn.execute("DELETE FROM outbox_delays", []).unwrap();
    place.run("push");
    assert_eq!(place.ask("SELECT state FROM outbox"), "applied");
    assert_eq!(service.sandbox.log().carried_out().count(), 1);
    assert_eq!(service.sandbox.world().detail_json(Object::Contact, &id).unwrap()["position"], "CTO");
}

#[test]
fn notes_of_ten_megabytes_are_copied() {
    let mut world = World::new(crm_mirror::model::Instant::system_now());
    let notes = "Ünïcode \u{1F980} ".repeat(700_000);
    let id = world.create(Object::Contact, &json!({ "name": "Long", "notes": notes }));
    let service = Service::of(world);
    let place = TestDir::of(&service);
    place.run("sync").done();
    let conn = rusqlite::Connection::open(place.path("mirror.db")).unwrap();
    let sql = "SELECT notes FROM contact_details WHERE contact_id = ?1";
    let copied: String = conn.query_row(sql, [id.as_str()], |row| row.get(0)).unwrap();
    assert!(copied.len() > 10_000_000 && copied == notes);
}

/// Two gigabytes of spaces in two megabytes: the program gives up long before it has unpacked them.
#[test]
fn an_answer_that_unpacks_without_end_does_not_fill_the_memory() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    // A megabyte, flushed: it ends at a byte and refers to nothing before it, so that it may follow itself.
    let mut packer = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(&vec![b' '; 1 << 20]).unwrap();
    packer.flush().unwrap();
    let block = packer.get_ref().clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(b"\x1f\x8b\x08\0\0\0\0\0\0\xff");
            // Until the client has had enough.
            for _ in 0..2048 {
                if stream.write_all(&block).is_err() {
                    break;
                }
            }
        }
    });
    let place = TestDir::empty().set("CRM_MIRROR_API__BASE_URL", &base_url).set("CRM_MIRROR_API__KEY", SECRET);
    let program = place.command(&["sync"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -v 1000000; exec \"$0\" sync"]).arg(program.get_program()).env_clear();
    limited.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended: Ended = limited.current_dir(place.path("")).output().unwrap().into();
    assert!(ended.err.contains("larger than"), "{:?} {}", ended.code, ended.err);
    assert_eq!(ended.code, Some(69), "{}", ended.err);
}
