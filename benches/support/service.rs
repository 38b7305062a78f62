//! The service that both sides ask: every record is rendered once, and a page is its records' texts put together, so
//! that what is measured is whoever asks.
//!
//! It knows as much of the API as a mirror needs: both orders, ranges of both timestamps, lists of ids, counts,
//! definitions, details with the fields of lists, and no more. A cursor is a place in an order, which is right as long as nothing changes during a walk.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crm_mirror::model::{Instant, Resource};
use crm_mirror::sandbox::generate;
use serde_json::Value;

use super::Outcome;

/// When the generated workspace last changed.
const BASE: &str = "2026-03-04T12:00:00Z";
/// What the `Date` header says: long after every change, so that walks are settled.
const DATE: &str = "Sat, 04 Apr 2026 12:00:00 GMT";

/// One rendered contact.
struct Row {
    text: String,
    id: String,
    created: Option<Instant>,
    updated: Option<Instant>,
}

impl Row {
    fn new(id: String, text: String) -> Outcome<Row> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Dates {
            created_at: Option<Instant>,
            updated_at: Option<Instant>,
        }
        let dates: Dates = serde_json::from_str(&text)?;
        Ok(Row { text, id, created: dates.created_at, updated: dates.updated_at })
    }
}

/// Rows in the order of a timestamp; those without one come last.
#[derive(Default)]
struct Order {
    places: Vec<u32>,
    dated: usize,
}

impl Order {
    fn by(rows: &[Row], key: impl Fn(&Row) -> Option<Instant>) -> Order {
        let mut places: Vec<u32> = (0..rows.len() as u32).collect();
        places.sort_by_cached_key(|place| {
            let row = &rows[*place as usize];
            (key(row).is_none(), key(row), row.id.clone())
        });
        let dated = places.partition_point(|place| key(&rows[*place as usize]).is_some());
        Order { places, dated }
    }
}

/// The workspace, rendered.
struct Data {
    rows: Vec<Row>,
    by_id: HashMap<String, u32>,
    created: Order,
    updated: Order,
    definitions: HashMap<(String, String), String>,
    touched: u64,
}

impl Data {
    fn generate(contacts: usize) -> Outcome<Data> {
        let world = generate(11, contacts, contacts / 20, BASE.parse()?);
        let mut rows = Vec::with_capacity(contacts);
        for id in world.ids(Resource::Contacts) {
            let text = world.list_text(Resource::Contacts, &id).ok_or("a record is gone")?;
            rows.push(Row::new(id, text)?);
        }
        let mut definitions: HashMap<(String, String), Vec<String>> = HashMap::new();
        for id in world.ids(Resource::CustomFields) {
            let text = world.list_text(Resource::CustomFields, &id).ok_or("a definition is gone")?;
            let value: Value = serde_json::from_str(&text)?;
            let word = |name: &str| value[name].as_str().unwrap_or_default().to_string();
            definitions.entry((word("objectType"), word("status"))).or_default().push(text);
        }
        let mut data = Data {
            by_id: rows.iter().zip(0..).map(|(row, place)| (row.id.clone(), place)).collect(),
            rows,
            created: Order::default(),
            updated: Order::default(),
            definitions: definitions.into_iter().map(|(key, items)| (key, items.join(","))).collect(),
            touched: 0,
        };
        data.arrange();
        Ok(data)
    }

    fn arrange(&mut self) {
        self.created = Order::by(&self.rows, |row| row.created);
        self.updated = Order::by(&self.rows, |row| row.updated);
    }

    /// Changes so many contacts, spread over the workspace. Gives the newest `updatedAt` before that.
    fn touch(&mut self, count: usize) -> Outcome<String> {
        let newest = self.rows.iter().filter_map(|row| row.updated).max();
        let newest = newest.ok_or("nothing has a date")?;
        self.touched += 1;
        let step = (self.rows.len() / count.max(1)).max(1);
        for n in 0..count.min(self.rows.len()) {
            let row = &mut self.rows[n * step];
            let at = newest.plus(Duration::from_millis(1000 + n as u64));
            let mut value: Value = serde_json::from_str(&row.text)?;
            value["position"] = format!("Changed {} times", self.touched).into();
            value["updatedAt"] = at.to_wire().into();
            value["etag"] = format!("\"changed-{}-{n}\"", self.touched).into();
            *row = Row::new(row.id.clone(), value.to_string())?;
        }
        self.arrange();
        Ok(newest.to_wire())
    }

    fn answer(&self, path: &str, query: &HashMap<String, String>) -> Option<String> {
        match path {
            "/v1/contacts" => Some(self.contacts(query)),
            "/v1/companies" | "/v1/team-members" => Some(list("", None, None)),
            "/v1/custom-field-definitions" => {
                let word = |name: &str| query.get(name).cloned();
                let key = (word("objectType")?, word("status").unwrap_or("ACTIVE".into()));
                Some(list(self.definitions.get(&key).map_or("", String::as_str), None, None))
            }
            other => {
                let place = self.by_id.get(other.strip_prefix("/v1/contacts/")?)?;
                Some(format!("{{\"data\":{}}}", self.rows[*place as usize].text))
            }
        }
    }

    fn contacts(&self, query: &HashMap<String, String>) -> String {
        let limit: usize = query.get("limit").and_then(|l| l.parse().ok()).unwrap_or(50);
        if let Some(ids) = query.get("filter[id][in]") {
            let found: Vec<&str> = ids
                .split(',')
                .filter_map(|id| self.by_id.get(id))
                .map(|place| self.rows[*place as usize].text.as_str())
                .collect();
            return list(&found.join(","), None, query.get("count").map(|_| found.len()));
        }
        let by_update = query
            .keys()
            .find(|name| name.starts_with("filter["))
            .or(query.get("sort"))
            .is_some_and(|name| name.contains("updatedAt"));
        let (order, field) = if by_update { (&self.updated, "updatedAt") } else { (&self.created, "createdAt") };
        let (mut low, mut high) = (0, order.places.len());
        for (name, text) in query {
            let Some(op) = name.strip_prefix(&format!("filter[{field}][")).and_then(|rest| rest.strip_suffix(']'))
            else {
                continue;
            };
            if op == "isNull" {
                (low, high) = if text == "true" { (order.dated, order.places.len()) } else { (0, order.dated) };
                continue;
            }
            let Ok(bound) = text.parse::<Instant>() else { continue };
            let key = |place: &u32| {
                let row = &self.rows[*place as usize];
                if by_update { row.updated } else { row.created }
            };
            let dated = &order.places[..order.dated];
            let before = dated.partition_point(|place| key(place) < Some(bound));
            let up_to = dated.partition_point(|place| key(place) <= Some(bound));
            high = high.min(order.dated);
            match op {
                "gte" => low = low.max(before),
                "gt" => low = low.max(up_to),
                "lt" => high = high.min(before),
                "lte" => high = high.min(up_to),
                _ => (low, high) = (low.max(before), high.min(up_to)),
            }
        }
        let high = high.max(low);
        if query.get("sort").is_some_and(|sort| sort.starts_with('-')) {
            // Only the first page of the newest is ever asked for.
            let newest = order.places[low..high].iter().rev().take(limit);
            let items: Vec<&str> = newest.map(|place| self.rows[*place as usize].text.as_str()).collect();
            return list(&items.join(","), None, query.contains_key("count").then_some(high - low));
        }
        let total = query.contains_key("count").then_some(high - low);
        let from = query.get("cursor").and_then(|c| c.parse().ok()).unwrap_or(low).clamp(low, high);
        let to = (from + limit).min(high);
        let mut page = String::with_capacity((to - from) * 1024);
        for place in &order.places[from..to] {
            if !page.is_empty() {
                page.push(',');
            }
            page.push_str(&self.rows[*place as usize].text);
        }
        list(&page, (to < high).then_some(to), total)
    }
}

fn list(items: &str, next: Option<usize>, total: Option<usize>) -> String {
    let next = next.map_or("null".to_string(), |next| format!("\"{next}\""));
    let total = total.map_or(String::new(), |total| format!(",\"total\":{total}"));
    format!("{{\"data\":[{items}],\"nextCursor\":{next}{total}}}")
}

/// What a measurement asks of the service.
#[derive(Default)]
struct Controls {
    /// How long every answer takes.
    latency_ms: AtomicU64,
    /// Requests until one is refused, that one included; 0 for none.
    until_refusal: AtomicU64,
}

impl Controls {
    /// Whether this request is the one to refuse.
    fn refuses(&self) -> bool {
        let left = self.until_refusal.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left == Ok(1)
    }
}

/// Serves so many contacts until this process's input ends: nobody is there any more who wants them.
pub fn serve(contacts: usize) -> Outcome<()> {
    let data = Arc::new(RwLock::new(Data::generate(contacts)?));
    let controls = Arc::new(Controls::default());
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    println!("{}", listener.local_addr()?);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (data, controls) = (data.clone(), controls.clone());
            // A client that breaks its connection off is done.
            std::thread::spawn(move || drop(converse(&stream, &data, &controls)));
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Answers the requests of one connection.
fn converse(stream: &TcpStream, data: &RwLock<Data>, controls: &Controls) -> Outcome<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let target = line.split(' ').nth(1).unwrap_or("/").to_string();
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
                break;
            }
        }
        let url = reqwest::Url::parse(&format!("http://localhost{target}"))?;
        let query: HashMap<String, String> = url.query_pairs().into_owned().collect();
        let number = |name: &str| query.get(name).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        let (mut status, mut more) = ("200 OK", "");
        let body = match url.path() {
            "/control/latency" => {
                controls.latency_ms.store(number("ms"), Ordering::Relaxed);
                more = "connection: close\r\n";
                Some(String::new())
            }
            "/control/refuse" => {
                controls.until_refusal.store(number("after") + 1, Ordering::Relaxed);
                more = "connection: close\r\n";
                Some(String::new())
            }
            "/control/touch" => {
                let mut data = data.write().unwrap_or_else(PoisonError::into_inner);
                more = "connection: close\r\n";
                Some(data.touch(number("rows") as usize)?)
            }
            _ if controls.refuses() => {
                (status, more) = ("429 Too Many Requests", "retry-after: 1\r\n");
                let body = r#"{"error":"TOO_MANY_REQUESTS","message":"Slow down","code":429,"retryAfter":1}"#;
                Some(body.to_string())
            }
            path => {
                std::thread::sleep(Duration::from_millis(controls.latency_ms.load(Ordering::Relaxed)));
                let data = data.read().unwrap_or_else(PoisonError::into_inner);
                data.answer(path, &query)
            }
        };
        let body = body.unwrap_or_else(|| {
            status = "404 Not Found";
            r#"{"error":"NOT_FOUND","message":"There is nothing here","code":404}"#.to_string()
        });
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ndate: {DATE}\r\n{more}content-length: {}\r\n\r\n",
            body.len()
        );
        let mut answer = head.into_bytes();
        answer.extend_from_slice(body.as_bytes());
        writer.write_all(&answer)?;
        if more.starts_with("connection") {
            return Ok(());
        }
    }
}
