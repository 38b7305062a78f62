//! Child processes of this very program: the service on one core, and one run of one side on another, so that no side
//! gains from threads that the other does not have.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{Measured, Outcome};

/// A service in a process of its own. It ends when this is dropped, or when this process ends.
#[derive(Debug)]
pub struct Service {
    child: Child,
    address: String,
}

impl Service {
    /// Renders so many contacts and serves them on a free port.
    pub fn start(rows: usize) -> Outcome<Service> {
        let mut child =
            pinned("0")?.args(["serve", &rows.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut address = String::new();
        let told = child.stdout.take().ok_or("the service says nothing")?;
        BufReader::new(told).read_line(&mut address)?;
        if address.trim().is_empty() {
            return Err("the service did not start".into());
        }
        Ok(Service { child, address: address.trim().to_string() })
    }

    /// The base URL.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Lets every answer take so long.
    pub fn set_latency(&self, ms: u64) -> Outcome<()> {
        self.control(&format!("latency?ms={ms}")).map(drop)
    }

    /// Changes so many contacts. Gives the newest `updatedAt` before that: what came after it is what changed.
    pub fn touch(&self, rows: usize) -> Outcome<String> {
        self.control(&format!("touch?rows={rows}"))
    }

    /// Refuses one request with a 429, after so many others.
    pub fn refuse_after(&self, requests: u64) -> Outcome<()> {
        self.control(&format!("refuse?after={requests}")).map(drop)
    }

    fn control(&self, what: &str) -> Outcome<String> {
        let mut stream = TcpStream::connect(&self.address)?;
        write!(stream, "GET /control/{what} HTTP/1.1\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (_, body) = answer.split_once("\r\n\r\n").ok_or("no answer to a control request")?;
        Ok(body.to_string())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Ending what has ended already is no failure.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This program on one core, where the machine has two.
fn pinned(core: &str) -> Outcome<Command> {
    let this = std::env::current_exe()?;
    if std::thread::available_parallelism()?.get() < 2 {
        return Ok(Command::new(this));
    }
    let mut command = Command::new("taskset");
    command.args(["-c", core]).arg(this);
    Ok(command)
}

/// Carries out one run in a process of its own and gives what it measured of itself.
pub fn run(role: &str, service: &Service, path: &Path, extra: &[&str]) -> Outcome<Measured> {
    let output = pinned("1")?
        .args(["run", role, &service.base_url()])
        .arg(path)
        .args(extra)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("the run `{role}` failed").into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
