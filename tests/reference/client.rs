//! The client against a service with scripted answers.

mod scripted;

use std::io::Write;
use std::time::Duration;

use self::scripted::{KEY, Say, Scene, answer, packed, page};
use crm_mirror::api::admission::{AdmissionError, AttemptOutcome};
use crm_mirror::api::decode::ListPage;
use crm_mirror::api::error_class::classify;
use crm_mirror::api::{ApiError, ErrorClass, ListQuery, ServiceAnswer};
use crm_mirror::exit::Exit;
use crm_mirror::model::{Cursor, Etag, Layout, Object, Purpose, RecordId, Resource};

const UNAVAILABLE: &str = r#"{"error":"Service Unavailable","message":"later","code":503}"#;

type Listed = (ServiceAnswer, ListPage);

async fn list(scene: &Scene) -> Result<Listed, ApiError> {
    let query = ListQuery::new(Resource::Contacts);
    scene.client.page(&query, Purpose::Changes, &Layout::default()).await
}

async fn detail(scene: &Scene, id: &str) -> Result<crm_mirror::api::ServiceAnswer, ApiError> {
    let id = RecordId::new(id);
    scene.client.detail(Object::Contact, &id, Purpose::Details).await
}

#[tokio::test]
async fn page_has_its_cursor_and_the_services_clock() {
    let body = r#"{"data":[{"id":"a"}],"nextCursor":"c2"}"#;
    let scene = Scene::of(vec![answer("200 OK", "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n", body)]).await;
    let (answer, page) = list(&scene).await.unwrap();
    assert_eq!(answer.body, body);
    assert_eq!(page.next, Some(Cursor::new("c2")));
    assert_eq!(answer.date, Some("1994-11-06T08:49:37Z".parse().unwrap()));
    assert_eq!(answer.asked.at.wall, "2026-01-02T03:04:05Z".parse().unwrap());
    let request = &scene.requests()[0];
    assert!(request.starts_with("GET /v1/contacts?limit=100 HTTP/1.1\r\n"), "{request}");
    assert!(request.to_lowercase().contains(&format!("authorization: bearer {KEY}")));
    assert!(request.contains("accept-encoding: gzip"), "{request}");
    assert_eq!(scene.outcomes(), [AttemptOutcome::Charged]);
}

#[tokio::test]
async fn failures_are_retried_with_delays_of_the_given_clock() {
    let unavailable = || answer("503 Service Unavailable", "", UNAVAILABLE);
    let broken = |body: &str| answer("200 OK", "", body);
    let mut cut = b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{\"data\":[".to_vec();
    cut.extend_from_slice(br#"{"id":"a"}"#);
    let script = vec![unavailable(), Say::Close, Say::Bytes(cut), broken("<html>"), page()];
    let scene = Scene::of(script).await;
    list(&scene).await.unwrap();
    assert_eq!(
        scene.outcomes(),
        [
            AttemptOutcome::Failed,
            AttemptOutcome::Unknown,
            AttemptOutcome::Charged,
            AttemptOutcome::Charged,
            AttemptOutcome::Charged
        ],
        "what answered 200 was charged, whatever came of the body"
    );
    assert!(scene.waited() >= Duration::from_millis(250 + 500 + 1000 + 2000), "{:?}", scene.waited());
    let lines = scene.first_lines();
    assert!(lines.iter().all(|line| *line == lines[0]), "{lines:?}");
}

#[tokio::test]
async fn retries_end_with_the_last_error() {
    let script = (0..9).map(|_| answer("503 Service Unavailable", "", UNAVAILABLE)).collect();
    let scene = Scene::of(script).await;
    let error = list(&scene).await.unwrap_err();
    assert_eq!(error.to_string(), "the service answered 503 (Service Unavailable): later");
    assert_eq!(error.class(), ErrorClass::Retry);
    assert_eq!(scene.requests().len(), 5);

    let scene = Scene::of((0..9).map(|_| Say::Close).collect()).await;
    let error = list(&scene).await.unwrap_err();
    assert!(matches!(error, ApiError::NoAnswer { tries: 5, .. }), "{error:?}");

    let truncated = || answer("200 OK", "", r#"{"data":[{"id":"a"}"#);
    let scene = Scene::of((0..9).map(|_| truncated()).collect()).await;
    let error = list(&scene).await.unwrap_err();
    assert!(matches!(error, ApiError::Broken { tries: 5, .. }), "{error:?}");
    assert_eq!(scene.outcomes(), [AttemptOutcome::Charged; 5]);
}

#[tokio::test]
async fn silent_service_times_out() {
    let script = vec![Say::Silence, Say::Silence];
    let scene = Scene::with(script, |settings| {
        settings.timeout = Duration::from_millis(40);
        settings.tries = 2;
    })
    .await;
    let error = list(&scene).await.unwrap_err();
    assert_eq!(error.to_string(), "the service did not answer within 0.04s (2 attempts)");
    assert_eq!(scene.outcomes(), [AttemptOutcome::Unknown; 2]);
}

#[tokio::test]
async fn address_without_a_server_is_unreachable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let scene = Scene::with(Vec::new(), |settings| {
        settings.base_url = format!("http://{address}/v1").parse().unwrap();
    })
    .await;
    let error = list(&scene).await.unwrap_err().to_string();
    assert!(error.starts_with("could not reach the service: ") && error.contains("refused"), "{error}");
}

#[tokio::test]
async fn each_attempt_is_admitted_including_retries() {
    let scene = Scene::of(vec![answer("500 Oops", "", "{}"), answer("502 Oops", "", ""), page()]).await;
    let query = ListQuery::new(Resource::Contacts);
    scene.client.page(&query, Purpose::Sweep, &Layout::default()).await.unwrap();
    let admitted = scene.book.admitted.lock().unwrap().clone();
    assert_eq!(admitted.len(), 3);
    assert!(admitted.iter().all(|a| a.purpose == Purpose::Sweep && a.cost.get() == 1));
}

#[tokio::test]
async fn refusal_of_the_meter_sends_nothing() {
    let scene = Scene::of(vec![answer("500 Oops", "", "{}"), page()]).await;
    *scene.book.allowance.lock().unwrap() = Some(1);
    let error = list(&scene).await.unwrap_err();
    assert!(matches!(error, ApiError::NotAdmitted(AdmissionError::Budget { .. })));
    assert_eq!(error.class(), ErrorClass::Pause);
    assert_eq!(scene.requests().len(), 1);
}

#[tokio::test]
async fn status_429_sets_the_hold_of_the_meter() {
    let body = r#"{"error":"Too Many Requests","message":"slow down","code":429,"retryAfter":7}"#;
    let script = vec![
        answer("429 Too Many Requests", "Retry-After: 3\r\n", body),
        answer("429 Too Many Requests", "Retry-After: 9\r\n", "{}"),
        answer("429 Too Many Requests", "", "{}"),
        page(),
    ];
    let scene = Scene::of(script).await;
    list(&scene).await.unwrap();
    let seconds = |s| Some(Duration::from_secs(s));
    assert_eq!(scene.holds(), [seconds(7), seconds(9), None]);
    assert_eq!(scene.client.pace(), 2, "down to one, and one more for the good answer");
}

#[tokio::test]
async fn service_that_always_answers_429_is_given_up() {
    let script = (0..20).map(|_| answer("429 Too Many Requests", "Retry-After: 0\r\n", "{}")).collect();
    let scene = Scene::of(script).await;
    assert_eq!(list(&scene).await.unwrap_err().class(), ErrorClass::Hold);
    assert_eq!(scene.requests().len(), 8);
    assert!(scene.waited() > Duration::from_secs(5), "{:?}", scene.waited());
}

#[tokio::test]
async fn permanently_refused_request_is_sent_once() {
    for (status, class) in [
        ("400 Bad Request", ErrorClass::BadRequest),
        ("401 Unauthorized", ErrorClass::StopAll),
        ("403 Forbidden", ErrorClass::SkipObject),
        ("404 Not Found", ErrorClass::Gone),
    ] {
        let code = &status[..3];
        let details = r#"[{"field":"limit","message":"too large"}]"#;
        let body = format!(r#"{{"error":"E","message":"m","code":{code},"details":{details}}}"#);
        let scene = Scene::of(vec![answer(status, "", &body), page()]).await;
        let error = list(&scene).await.unwrap_err();
        assert_eq!(error.class(), class);
        assert!(error.to_string().ends_with("(E): m; limit: too large"), "{error}");
        assert_eq!(scene.outcomes(), [AttemptOutcome::Failed]);
        assert_eq!(scene.requests().len(), 1);
    }
}

#[tokio::test]
async fn redirect_is_not_followed_and_the_key_is_not_sent_elsewhere() {
    let elsewhere = Scene::of(vec![page()]).await;
    let location = format!("Location: {}/contacts\r\n", elsewhere.client.settings().base_url.as_str());
    for (status, class, sent) in [
        ("301 Moved", ErrorClass::Configuration, 1),
        ("302 Found", ErrorClass::Retry, 5),
        ("307 Temporary Redirect", ErrorClass::Retry, 5),
        ("308 Permanent Redirect", ErrorClass::Configuration, 1),
    ] {
        let scene = Scene::of((0..9).map(|_| answer(status, &location, "")).collect()).await;
        let error = list(&scene).await.unwrap_err();
        assert!(matches!(error, ApiError::Redirected { .. }), "{error:?}");
        assert_eq!((error.class(), scene.requests().len()), (class, sent), "{status}");
    }
    assert_eq!(elsewhere.requests().len(), 0);
}

#[tokio::test]
async fn gzip_body_is_measured_after_decompression() {
    let gzip = |bytes: &[u8]| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    };
    let headers = "content-encoding: gzip\r\n";
    let body = gzip(br#"{"data":[],"nextCursor":null}"#);
    let scene = Scene::of(vec![packed("200 OK", headers, &body[..12]), packed("200 OK", headers, &body)]).await;
    assert_eq!(list(&scene).await.unwrap().1.next, None);
    assert_eq!(scene.requests().len(), 2, "a request with a truncated answer is repeated");

    let bomb = gzip(&vec![b' '; 300_000]);
    assert!(bomb.len() < 2_000);
    let scene = Scene::with(vec![packed("200 OK", headers, &bomb)], |s| s.max_body = 100_000).await;
    let error = list(&scene).await.unwrap_err();
    assert_eq!(error.to_string(), "the service's answer is larger than 100000 bytes");
    assert_eq!(scene.requests().len(), 1);
}

#[tokio::test]
async fn body_beyond_the_limit_is_refused_with_and_without_a_length() {
    let big = vec![b' '; 5_000];
    let mut unmeasured = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_vec();
    unmeasured.extend_from_slice(&big);
    for say in [packed("200 OK", "", &big), Say::Bytes(unmeasured)] {
        let scene = Scene::with(vec![say], |s| s.max_body = 4_999).await;
        let error = list(&scene).await.unwrap_err();
        assert!(matches!(error, ApiError::TooLarge { limit: 4_999 }), "{error:?}");
        assert_eq!(scene.outcomes(), [AttemptOutcome::Charged]);
    }
}

#[tokio::test]
async fn identifier_is_one_path_segment_whatever_its_text() {
    for (id, path) in [
        ("c1", "c1"),
        ("a/b", "a%2Fb"),
        ("../companies", "..%2Fcompanies"),
        ("a?b#c", "a%3Fb%23c"),
        ("100%", "100%25"),
        ("%2e%2e", "%252e%252e"),
        ("a\\b", "a%5Cb"),
        ("ñ 🦀", "%C3%B1%20%F0%9F%A6%80"),
        ("a\r\nX: y", "a%0D%0AX%3A%20y"),
        ("...", "..."),
    ] {
        let etag = "ETag: \"2026-01-01T00:00:00Z\"\r\n";
        let scene = Scene::of(vec![answer("200 OK", etag, r#"{"data":{"id":"c1"}}"#)]).await;
        let answer = detail(&scene, id).await.unwrap();
        assert_eq!(answer.etag, Some(Etag::new("\"2026-01-01T00:00:00Z\"")));
        assert_eq!(scene.first_lines(), [format!("GET /v1/contacts/{path} HTTP/1.1")]);
    }
    for id in ["", ".", ".."] {
        let scene = Scene::of(vec![page()]).await;
        let error = detail(&scene, id).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::SkipRecord, "{error}");
        assert!(scene.requests().is_empty() && scene.book.admitted.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn patch_is_repeated_byte_for_byte() {
    let done = answer("200 OK", "ETag: \"v2\"\r\nIdempotent-Replayed: true\r\n", r#"{"data":{"id":"c1"}}"#);
    let scene = Scene::of(vec![Say::Close, answer("503 Oops", "", "{}"), done]).await;
    let body = r#"{ "position":"CTO",  "customFields":{"fee":"1.10"} }"#;
    let (id, etag) = (RecordId::new("c1"), Etag::new("\"v1\""));
    let patch = || scene.client.patch(Object::Contact, &id, body, &etag, "k-1");
    // Updates have their own delays, which the caller stores: the client sends each once.
    for sent in 1..=2 {
        let error = patch().await.unwrap_err();
        assert!(error.unanswered, "it may have been carried out: {error:?}");
        assert_eq!(scene.requests().len(), sent);
    }
    let answer = patch().await.unwrap();
    assert_eq!(answer.replayed, Some(true));
    assert_eq!(answer.etag, Some(Etag::new("\"v2\"")));
    let requests = scene.requests();
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|request| *request == requests[0]));
    let head = requests[0].to_lowercase();
    assert!(requests[0].starts_with("PATCH /v1/contacts/c1 HTTP/1.1") && requests[0].ends_with(body));
    for line in ["if-match: \"v1\"", "idempotency-key: k-1", "content-type: application/json"] {
        assert!(head.contains(&format!("{line}\r\n")), "{line} in {head}");
    }
    let admitted = scene.book.admitted.lock().unwrap().clone();
    assert!(admitted.iter().all(|a| a.purpose == Purpose::Outbox && a.cost.get() == 2));
}

#[tokio::test]
async fn stale_write_is_recognised_and_not_repeated() {
    let scene = Scene::of(vec![answer(
        "412 Precondition Failed",
        "",
        r#"{"error":"Precondition Failed","message":"stale","code":412}"#,
    )])
    .await;
    let (id, etag) = (RecordId::new("c1"), Etag::new("\"v1\""));
    let error = scene.client.patch(Object::Company, &id, "{}", &etag, "k").await.unwrap_err();
    assert_eq!((error.why.class(), error.why.status()), (ErrorClass::Failed, Some(412)));
    assert!(!error.unanswered, "a refusal is an answer");
    assert!(scene.first_lines()[0].starts_with("PATCH /v1/companies/c1 "));
}

#[tokio::test]
async fn key_is_never_shown() {
    let body = format!(r#"{{"error":"{KEY}","message":"no such key {KEY}","code":401,"details":"{KEY}"}}"#);
    let scene = Scene::of(vec![answer("401 Unauthorized", "", &body)]).await;
    let error = list(&scene).await.unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("secret"), "{shown}");
    assert!(shown.contains("[key]"));
}

#[tokio::test]
async fn dropped_call_stays_charged_and_frees_its_permit() {
    let scene = Scene::with(vec![Say::Silence, page()], |s| s.concurrency = 1).await;
    tokio::select! {
        _ = list(&scene) => unreachable!("the service keeps silent"),
        () = until_asked(&scene) => {}
    }
    assert_eq!(scene.outcomes(), [AttemptOutcome::Unknown], "it is no longer under way, and nothing is refunded");
    assert_eq!(scene.book.admitted.lock().unwrap().len(), 1);
    list(&scene).await.unwrap();
    assert_eq!(scene.outcomes(), [AttemptOutcome::Unknown, AttemptOutcome::Charged]);
}

/// Every status, with the service's error body, a gateway's page and no body, with and without a wait.
#[tokio::test]
async fn every_status_is_charged_held_and_classified() {
    let statuses: Vec<u16> = (200..=599).filter(|status| !matches!(status, 204 | 205 | 429)).collect();
    for (body, header) in [("envelope", ""), ("<html>", ""), ("", ""), ("envelope", "7"), ("<html>", "7"), ("", "7")] {
        let script = |status: &u16| {
            let body = body.replace("envelope", &format!(r#"{{"error":"E","message":"m","code":{status}}}"#));
            let body = if *status == 304 { String::new() } else { body };
            let header = if header.is_empty() { String::new() } else { format!("Retry-After: {header}\r\n") };
            answer(&format!("{status} Status"), &header, &body)
        };
        let scene = Scene::with(statuses.iter().map(script).collect(), |settings| settings.tries = 1).await;
        for status in &statuses {
            let (settled, held) = (scene.outcomes().len(), scene.holds().len());
            let error = list(&scene).await.unwrap_err();
            let case = format!("{status} {body} {header}: {error:?}");
            let success = (200..300).contains(status);
            let redirect = matches!(status, 301..=303 | 307 | 308);
            let outcome = match status {
                200..300 => AttemptOutcome::Charged,
                408 | 502 | 504 => AttemptOutcome::Unknown,
                _ if redirect || body == "envelope" && *status != 304 => AttemptOutcome::Failed,
                _ => AttemptOutcome::Unknown,
            };
            assert_eq!(scene.outcomes()[settled..], [outcome], "{case}");
            let seven = Some(Duration::from_secs(7));
            assert_eq!(scene.holds()[held..], if header.is_empty() { vec![] } else { vec![seven] }, "{case}");
            let class = if success { ErrorClass::Retry } else { classify(*status, body == "envelope") };
            assert_eq!(error.class(), class, "{case}");
            let code = Exit::of_api(&error).code();
            let word_of_the_service = matches!(status, 401 | 403) && body == "envelope";
            let expected = match status {
                301 | 308 | 407 => 78,
                _ if word_of_the_service => 77,
                _ => 69,
            };
            assert_eq!(code, expected, "{case}");
        }
        assert_eq!(scene.requests().len(), statuses.len());
    }
}

#[tokio::test]
async fn unknown_host_is_tried_once() {
    // Longer than any valid name, so that every resolver refuses it without a network.
    let host = "a".repeat(70);
    let scene =
        Scene::with(Vec::new(), |settings| settings.base_url = format!("https://{host}.example/v1").parse().unwrap())
            .await;
    let error = list(&scene).await.unwrap_err();
    let hint = Some("check `api.base_url` and the network");
    let unknown =
        matches!(error, ApiError::NotConnectable { class: ErrorClass::Unavailable, .. }) && error.hint() == hint;
    assert!(unknown, "{error:?}");
    assert_eq!((scene.outcomes(), scene.waited()), (vec![AttemptOutcome::NotSent], Duration::ZERO));
}

async fn until_asked(scene: &Scene) {
    while scene.requests().is_empty() {
        tokio::task::yield_now().await;
    }
}

/// Whatever a service answers, it is no defect of this program: 70 is not among the ends.
#[tokio::test]
async fn every_status_has_a_documented_end() {
    let envelope = |status: u16| format!(r#"{{"error":"E","message":"m","code":{status}}}"#);
    let odd = [
        "",
        "null",
        "[]",
        "{}",
        "<html>",
        "\u{0}",
        r#"{"data":7,"nextCursor":[]}"#,
        r#"{"error":{},"retryAfter":"x"}"#,
    ];
    let bodies =
        |status: u16| [envelope(status), odd[usize::from(status) % 8].into(), odd[usize::from(status / 8) % 8].into()];
    let cases: Vec<(u16, String)> = (100..=599).flat_map(|status| bodies(status).map(|body| (status, body))).collect();
    // A 429 is asked again seven times.
    let times = |status: u16| if status == 429 { 8 } else { 1 };
    let all = cases.iter().flat_map(|case| std::iter::repeat_n(case, times(case.0)));
    let script = all.map(|(status, body)| answer(&format!("{status} Said"), "", body)).collect();
    let scene = Scene::with(script, |settings| settings.tries = 1).await;
    for (status, body) in &cases {
        let answered = list(&scene).await;
        let is_envelope = *body == envelope(*status);
        let exit = answered.as_ref().err().map(Exit::of_api);
        let expected = match status {
            301 | 308 | 407 => Exit::Config,
            401 | 403 if is_envelope => Exit::KeyRefused,
            429 => Exit::Paused,
            _ => Exit::Unavailable,
        };
        assert_eq!(exit, Some(expected), "{status} {body:?}: {:?}", answered.err());
    }
    assert_eq!(scene.requests().len(), cases.len() + 3 * 7);
}
