//! Encrypted connections: a server that takes no others, with a certificate of an authority that only the test knows.

use std::process::Command;

use crm_mirror::model::Instant;
use crm_mirror::publish::{PublishError, PublishReport, PublishUrl, publish};
use crm_mirror::sandbox::generate;
use secrecy::SecretString;

use crate::server::{Postgres, Server};
use crate::support::{Crm, Mirror, noon};

/// Makes an authority and a certificate for `localhost` in a folder. `None` where there is no `openssl`.
fn certificates(dir: &std::path::Path, authority: &str) -> Option<()> {
    let openssl = |args: &str| {
        let done = Command::new("openssl").args(args.split(' ')).current_dir(dir).output().ok()?;
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Some(())
    };
    let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    openssl(&format!("{new} -subj /CN=Authority -keyout {authority}.key -out {authority}.pem"))?;
    openssl(
        "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -keyout server.key -out server.csr",
    )?;
    std::fs::write(dir.join("names"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n").unwrap();
    openssl(&format!(
        "x509 -req -in server.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial -days 1 -extfile names -out server.crt"
    ))
}

#[tokio::test]
async fn an_encrypted_connection_needs_a_certificate_of_the_named_authority() {
    let other = tempfile::tempdir().unwrap();
    if certificates(other.path(), "other").is_none() {
        eprintln!("SKIPPED: there is no openssl");
        return;
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let Some(server) = Server::start_encrypted(port, |dir| certificates(dir, "own")) else { return };
    server.connect("postgres").await;
    let crm = Crm::serve(generate(3, 12, 2, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let try_with = async |options: &str| -> Result<PublishReport, PublishError> {
        let url = format!("postgres://mirror:s3cret@localhost:{port}/postgres?{options}");
        let url = PublishUrl::new(&SecretString::from(url)).unwrap();
        publish(&url, &Postgres::settings(&mirror), Instant::system_now()).await
    };
    let own = server.dir.path().join("own.pem").display().to_string();
    let unknown = other.path().join("other.pem").display().to_string();
    for refused in [
        "sslmode=disable".to_string(),
        "sslmode=verify-full".to_string(),
        format!("sslmode=verify-full&sslrootcert={unknown}"),
    ] {
        let error = try_with(&refused).await.unwrap_err();
        let text = format!("{error:?} {error}");
        assert!(!text.contains("s3cret"), "{text}");
    }
    let report = try_with(&format!("sslmode=verify-full&sslrootcert={own}")).await.unwrap();
    assert_eq!(report.loaded["contacts"], 12);
}
