//! The client: one method per kind of request, and one loop that sends them all.
//!
//! The loop: wait for a permit ([`super::pace`]), reserve the cost with the meter, send, report the outcome, and decide
//! whether to retry. Dropping the future is safe at any point: an admitted attempt stays in the ledger as charged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use percent_encoding::utf8_percent_encode;
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue, IF_MATCH};
use reqwest::{Method, RequestBuilder};
use serde_json::value::RawValue;

use super::admission::{Attempt, AttemptOutcome, Meter, UnderWay};
use super::attempts::Retries;
use super::decode::{self, ListPage};
use super::error::ApiError;
use super::error_class::ErrorClass;
use super::key::ApiKey;
use super::pace::Gate;
use super::query::{ENCODED, ListQuery};
use super::settings::ClientSettings;
use super::transport::{HttpAttempt, HttpTransport, ServiceAnswer};
use crate::model::{Clock, ClockReading, Etag, Instant, Layout, Object, Purpose, RecordId, RequestStamp, Ru};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A request without a good answer.
#[derive(Clone, Debug)]
pub struct PatchError {
    pub why: ApiError,
    /// Whether an update may have been applied: one of the attempts had no answer, or an inconclusive one.
    pub unanswered: bool,
}

impl From<PatchError> for ApiError {
    fn from(failed: PatchError) -> ApiError {
        failed.why
    }
}

/// A client of the service. Clones share connections, pace and meter.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    transport: HttpTransport,
    fingerprint: String,
    clock: Arc<dyn Clock>,
    meter: Arc<dyn Meter>,
    gate: Gate,
    /// The last `Date` of the service, and both clocks then.
    last_date: Mutex<Option<(Instant, ClockReading)>>,
    answered: AtomicU64,
}

impl Client {
    /// Sets up a client; sends nothing.
    ///
    /// # Errors
    /// [`ApiError::Setup`] if this machine cannot make TLS connections because it has no CA certificates.
    pub fn new(
        settings: ClientSettings,
        key: ApiKey,
        clock: Arc<dyn Clock>,
        meter: Arc<dyn Meter>,
    ) -> Result<Client, ApiError> {
        let fingerprint = key.fingerprint();
        Ok(Client(Arc::new(Inner {
            gate: Gate::new(settings.concurrency),
            transport: HttpTransport::new(settings, key)?,
            fingerprint,
            clock,
            meter,
            last_date: Mutex::default(),
            answered: AtomicU64::new(0),
        })))
    }

    pub fn settings(&self) -> &ClientSettings {
        &self.0.transport.settings
    }

    pub fn key_fingerprint(&self) -> &str {
        &self.0.fingerprint
    }

    /// The number of requests that may be in flight now.
    pub fn pace(&self) -> u32 {
        self.0.gate.limit()
    }

    /// The cost of all requests so far that had a good answer. What else was spent bought nothing.
    pub fn answered(&self) -> Ru {
        Ru::new(self.0.answered.load(Ordering::Relaxed))
    }

    /// The service's time now, by its last `Date`, right or wrong, and the time since; `None` without any answer.
    pub fn service_date(&self) -> Option<Instant> {
        let (date, seen) = self.last_date()?;
        Some(date.plus(self.0.clock.reading().since(&seen)))
    }

    pub fn last_date(&self) -> Option<(Instant, ClockReading)> {
        *self.0.last_date.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches a page of a list, for 1 RU, and decodes it as it is validated: reading its body twice would slow a walk.
    ///
    /// # Errors
    /// [`ApiError`]; [`ApiError::NotUnderstood`] if the body is a list that cannot be decoded.
    pub async fn page(
        &self,
        query: &ListQuery,
        purpose: Purpose,
        layout: &Layout,
    ) -> Result<(ServiceAnswer, ListPage), ApiError> {
        query.check().map_err(ApiError::Query)?;
        let request = self.request(Method::GET, &query.to_address())?;
        let resource = query.resource;
        let check = |body: &[u8]| match decode::page(resource, body, layout) {
            Ok(page) => Ok(Ok(page)),
            Err(error) => decode::next_cursor(body).map(|_| Err(error)).map_err(|e| e.to_string()),
        };
        let (answer, page) = self.call(&request, query.once, (Ru::GET, purpose), check).await?;
        Ok((answer, page?))
    }

    /// Fetches a detail, for 1 RU (*GET /contacts/{id}*, *GET /companies/{id}*).
    ///
    /// # Errors
    /// [`ApiError`], after the retries that the kind of error allows; [`ApiError::Unsendable`] for an identifier that
    /// cannot be part of an address (`..`).
    pub async fn detail(&self, object: Object, id: &RecordId, purpose: Purpose) -> Result<ServiceAnswer, ApiError> {
        let request = self.request(Method::GET, &record_path(object, id)?)?;
        Ok(self.call(&request, false, (Ru::GET, purpose), is_json).await?.0)
    }

    /// Updates a record, for 2 RU (*PATCH /contacts/{id}*, *PATCH /companies/{id}*). The body, `If-Match` and the
    /// idempotency key are sent unchanged, once: the caller decides and stores when to send an update again.
    ///
    /// # Errors
    /// [`PatchError`]. If the update may have been applied, repeating it with the same key within 24 hours finds out.
    pub async fn patch(
        &self,
        object: Object,
        id: &RecordId,
        body: &str,
        if_match: &Etag,
        idempotency_key: &str,
    ) -> Result<ServiceAnswer, PatchError> {
        let unsent = |why| PatchError { why, unanswered: false };
        let (if_match, key) = (header(if_match.as_str(), "etag"), header(idempotency_key, "idempotency key"));
        let path = record_path(object, id).map_err(unsent)?;
        let request = self.request(Method::PATCH, &path).map_err(unsent)?;
        let request = request.header(IF_MATCH, if_match.map_err(unsent)?).header(IDEMPOTENCY_KEY, key.map_err(unsent)?);
        let request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        Ok(self.call(&request, false, (Ru::PATCH, Purpose::Outbox), is_json).await?.0)
    }

    /// Whether a request can name a record and its version: both texts are the service's.
    ///
    /// # Errors
    /// [`ApiError::Unsendable`] for an identifier that cannot be part of an address, or an etag that no header can hold.
    pub fn check_update(object: Object, id: &RecordId, if_match: Option<&Etag>) -> Result<(), ApiError> {
        record_path(object, id)?;
        if_match.map_or(Ok(()), |etag| header(etag.as_str(), "etag").map(drop))
    }

    fn request(&self, method: Method, address: &str) -> Result<RequestBuilder, ApiError> {
        let url = self.settings().base_url.address(address);
        Ok(self.0.transport.request(method, url.ok_or(ApiError::Unsendable { what: "identifier" })?))
    }

    /// Sends a request until it is answered, permanently refused, or its retries are used up. `check` validates the
    /// body of a success; an invalid body counts as a broken answer and is retried, unless the request is sent `once`.
    async fn call<T>(
        &self,
        request: &RequestBuilder,
        once: bool,
        (cost, purpose): (Ru, Purpose),
        check: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<(ServiceAnswer, T), PatchError> {
        let (Inner { clock, meter, gate, transport, .. }, settings) = (&*self.0, self.settings());
        let mut retries = Retries::new(settings.tries, settings.patience, settings.jitter.clone());
        let attempt = Attempt { cost, purpose };
        let mut unanswered = false;
        loop {
            let unsendable = PatchError { why: ApiError::Unsendable { what: "body" }, unanswered };
            let sent = request.try_clone().ok_or(unsendable)?;
            let permit = gate.permit().await;
            let admitted = meter.admit(attempt).await;
            let refused = |refused| PatchError { why: ApiError::from(refused).after_tries(retries.made()), unanswered };
            let admission = admitted.map_err(refused)?;
            let asked = RequestStamp { at: clock.reading(), order: admission.order.clone() };
            let under_way = UnderWay::new(&**meter, admission);
            let HttpAttempt { outcome, hold, result } = transport.attempt(sent, &asked).await;
            under_way.settle(outcome).await;
            if let Some(hold) = hold {
                meter.hold(hold).await;
            }
            let error = match result {
                Ok(answer) => match check(&answer.body) {
                    Ok(found) => {
                        permit.ok();
                        let mut last_date = self.0.last_date.lock().unwrap_or_else(PoisonError::into_inner);
                        *last_date = answer.date.map(|date| (date, clock.reading())).or(*last_date);
                        self.0.answered.fetch_add(cost.get(), Ordering::Relaxed);
                        return Ok((ServiceAnswer { failed: retries.failed(), ..answer }, found));
                    }
                    Err(why) => ApiError::Broken { tries: 1, why },
                },
                Err(error) => error,
            };
            unanswered |= matches!(outcome, AttemptOutcome::Unknown | AttemptOutcome::Charged) || error.leaves_doubt();
            if error.class() == ErrorClass::Hold || matches!(error, ApiError::Timeout { .. }) {
                permit.held();
            }
            drop(permit);
            let now = clock.now();
            let delay = retries.after(&error, now.since(asked.at.wall));
            let may_be_of_a_record = matches!(error, ApiError::Broken { .. } | ApiError::Timeout { .. })
                || error.status().is_some_and(|status| status >= 500);
            let is_final = once && may_be_of_a_record;
            // Edits have delays of their own, which are stored and bound what a failure costs.
            let Some(delay) = delay.filter(|_| purpose != Purpose::Outbox && !is_final) else {
                return Err(PatchError { why: error.after_tries(retries.made()), unanswered });
            };
            tracing::debug!(
                wait_ms = delay.as_millis() as u64,
                tries = retries.made(),
                "Retrying in {} ms: {error}",
                delay.as_millis()
            );
            clock.sleep_until(now.plus(delay)).await;
        }
    }
}

fn header(text: &str, what: &'static str) -> Result<HeaderValue, ApiError> {
    HeaderValue::from_bytes(text.as_bytes()).map_err(|_| ApiError::Unsendable { what })
}

/// The path of a record; the identifier is one segment, whatever it contains.
fn record_path(object: Object, id: &RecordId) -> Result<String, ApiError> {
    // An empty identifier would address the list; "." and ".." would address its parents, even if encoded.
    if matches!(id.as_str(), "" | "." | "..") {
        return Err(ApiError::Unsendable { what: "identifier" });
    }
    let segment = utf8_percent_encode(id.as_str(), ENCODED);
    Ok(format!("{}/{segment}", object.resource().path()))
}

fn is_json(body: &[u8]) -> Result<(), String> {
    let parsed: Result<&RawValue, _> = serde_json::from_slice(body);
    // Only the position and class: the error's own text may quote the body.
    parsed.map(drop).map_err(|e| format!("not JSON: {:?} error at byte {}", e.classify(), e.column()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::BaseUrl;
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_identifier_is_one_segment_that_decodes_to_itself(id in ".*") {
            let base: BaseUrl = "https://api.example.com/crm/v1".parse().unwrap();
            let path = record_path(Object::Company, &RecordId::new(id.as_str()));
            prop_assume!(!matches!(id.as_str(), "" | "." | ".."));
            let url = base.address(&path.unwrap()).unwrap();
            let segments: Vec<&str> = url.path_segments().unwrap().collect();
            prop_assert_eq!(&segments[..3], ["crm", "v1", "companies"]);
            prop_assert_eq!(segments.len(), 4);
            prop_assert_eq!(percent_decode_str(segments[3]).decode_utf8().unwrap(), id.as_str());
            prop_assert!(url.query().is_none() && url.fragment().is_none());
        }
    }
}
