//! How fast the mirror is, as ratios to a straight-line program that does the same work: fetch, parse, write, and build the
//! same indexes.
//!
//! `cargo bench --bench first_copy` shows everything in one run; after `--` come `--rows N` (100,000), `--rounds N` (5),
//! `--slice-rows N` (20,000) and `--only copy|memory|resync|changes|slices|details|growth`. Rounds are interleaved, and a
//! ratio is the median of the rounds' ratios, so that what else the machine does falls on all sides alike; beside each
//! ratio of times is the one of processor times, which hold also where the machine is shared. Each run is a process of its
//! own, and so is the service that they ask. Where cargo only tries whether benches run, everything is small.

mod support;

use std::path::{Path, PathBuf};

use support::child::{self, Service};
use support::engine::BenchRun;
use support::report::{at_least, at_most, is_at_most, mib, paired, show};
use support::straight_line::Extent;
use support::{Measured, Outcome, engine, idle, median, service, straight_line};

/// The first copy may take so many times the straight-line program's time.
const MAX_FIRST_COPY: f64 = 1.15;
/// A first copy of any size may take so much memory.
const MAX_MIB: f64 = 24.0;
/// A daemon at rest may take so much.
const MAX_IDLE_MIB: f64 = 18.0;
/// An unchanged resync may take this part of a first copy's time.
const MAX_RESYNC: f64 = 1.0 / 3.0;
/// A run of changes may take so many times the straight-line program's time.
const MAX_CHANGES: f64 = 2.0;
/// A run of 1,000 changes of 100,000 contacts may take so many seconds of processor time.
const MAX_CHANGES_SECONDS: f64 = 0.2;
/// And write so many MiB.
const MAX_CHANGES_MIB: f64 = 25.0;
/// The file of 100,000 contacts may have so many MiB, with every index that a query of the documentation uses.
const MAX_FILE_MIB: f64 = 105.0;
/// Requests at once where answers take their time.
const WALKERS: [&str; 3] = ["1", "4", "8"];
/// The default number of walkers must be so many times as fast as one where answers take their time.
const MIN_SLICES: f64 = 3.8;
/// And may cost this part more.
const MAX_SLICES_RU: f64 = 0.02;
/// Four requests at once must read details so many times as fast as one.
const MIN_DETAILS: f64 = 3.5;
/// Details that are read where answers take their time.
const DETAILS: usize = 400;
/// How long every answer takes where slices and details are measured.
const LATENCY_MS: u64 = 50;
/// Records of a run of changes.
const CHANGED: usize = 1000;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve", rows] => service::serve(rows.parse()?),
        ["run", role, base_url, path, extra @ ..] => {
            let measured = run(role, base_url, Path::new(path), extra)?;
            println!("{}", serde_json::to_string(&measured)?);
            Ok(())
        }
        _ => measure(&Wanted::read(&words)?),
    }
}

/// One run of one side, in this process.
fn run(role: &str, base_url: &str, path: &Path, extra: &[&str]) -> Outcome<Measured> {
    let is_straight = ["rows-only", "same-work"].contains(&role);
    let mut builder = if is_straight {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime = builder.enable_all().build()?;
    let walkers = || -> Outcome<u32> { Ok(extra.first().copied().unwrap_or("1").parse()?) };
    let engine = |kind| -> Outcome<Measured> { runtime.block_on(engine::run(base_url, path, kind, walkers()?)) };
    let straight = |extent| runtime.block_on(straight_line::run(base_url, path, extent, extra.first().copied()));
    match role {
        "rows-only" => straight(Extent::RowsOnly),
        "same-work" => straight(Extent::SameWork),
        "sync" => engine(BenchRun::Sync),
        "resync" => engine(BenchRun::Resync),
        "details" => engine(BenchRun::Details),
        _ => Err(format!("`{role}` is no run").into()),
    }
}

/// What is to be measured.
struct Wanted {
    rows: usize,
    rounds: usize,
    memory_rows: [usize; 2],
    slice_rows: usize,
    only: Option<String>,
}

impl Wanted {
    fn read(words: &[&str]) -> Outcome<Wanted> {
        let mut wanted = if words.contains(&"--bench") {
            Wanted { rows: 100_000, rounds: 5, memory_rows: [10_000, 100_000], slice_rows: 20_000, only: None }
        } else {
            Wanted { rows: 2_000, rounds: 1, memory_rows: [200, 2_000], slice_rows: 2_000, only: None }
        };
        let mut words = words.iter().filter(|word| **word != "--bench");
        while let Some(word) = words.next() {
            let value = words.next().ok_or("every option has a value")?;
            match *word {
                "--rows" => wanted.rows = value.parse()?,
                "--rounds" => wanted.rounds = value.parse()?,
                "--slice-rows" => wanted.slice_rows = value.parse()?,
                "--only" => wanted.only = Some((*value).to_string()),
                other => return Err(format!("`{other}` is no option").into()),
            }
        }
        Ok(wanted)
    }

    fn wants(&self, part: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == part)
    }
}

fn measure(wanted: &Wanted) -> Outcome<()> {
    let dir = tempfile::tempdir()?;
    if ["copy", "resync", "changes"].iter().any(|part| wanted.wants(part)) {
        let service = Service::start(wanted.rows)?;
        let copies = first_copies(wanted, &service, dir.path())?;
        if wanted.wants("changes") {
            changes(wanted, &service, &copies)?;
        }
    }
    if wanted.wants("memory") {
        memory(wanted, dir.path())?;
    }
    if wanted.wants("slices") {
        slices(wanted, dir.path())?;
    }
    if wanted.wants("details") {
        details(dir.path())?;
    }
    if wanted.wants("growth") {
        growth(wanted, dir.path())?;
    }
    Ok(())
}

/// The files of one round.
struct Copies {
    rows_only: PathBuf,
    same_work: PathBuf,
    mirror: PathBuf,
}

/// First copies of all sides, and a resync of each mirror right after its copy. Gives the files of the last round.
fn first_copies(wanted: &Wanted, service: &Service, dir: &Path) -> Outcome<Copies> {
    let (mut rows_only, mut same_work, mut mirror, mut again) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut copies: Option<Copies> = None;
    for round in 0..wanted.rounds.max(1) {
        if let Some(Copies { rows_only, same_work, mirror }) = copies.take() {
            [rows_only, same_work, mirror].iter().try_for_each(std::fs::remove_file)?;
        }
        let file = |side: &str| dir.join(format!("{side}{round}.db"));
        let files = Copies { rows_only: file("rows-only"), same_work: file("same-work"), mirror: file("mirror") };
        // Each side is first in some round.
        for side in (0..3).map(|side| (side + round) % 3) {
            match side {
                0 => rows_only.push(child::run("rows-only", service, &files.rows_only, &[])?),
                1 => same_work.push(child::run("same-work", service, &files.same_work, &[])?),
                _ => {
                    mirror.push(child::run("sync", service, &files.mirror, &[])?);
                    if wanted.wants("resync") {
                        again.push(child::run("resync", service, &files.mirror, &[])?);
                    }
                }
            }
        }
        copies = Some(files);
    }
    let copies = copies.ok_or("no round was run")?;
    println!("First copy of {} contacts' lists, {} rounds", wanted.rows, mirror.len());
    show("typed columns only", &rows_only);
    show("straight line, same work", &same_work);
    show("crm-mirror", &mirror);
    at_most("first copy / straight line", paired(&mirror, &same_work), MAX_FIRST_COPY);
    let lists = median(mirror.iter().zip(&same_work).map(|(this, that)| this.lists_seconds / that.lists_seconds));
    println!("  its lists, before anything is built from them / the same: {lists:.2}");
    let (straight, here) = (mib(&copies.same_work), mib(&copies.mirror));
    println!("  files: {straight:.1} MiB straight line, {here:.1} MiB crm-mirror ({:.2} of it)", here / straight);
    if wanted.rows == 100_000 {
        is_at_most("file, MiB", here, MAX_FILE_MIB);
    }
    if wanted.wants("resync") {
        println!("\nResync of an unchanged mirror, one walk");
        show("crm-mirror", &again);
        at_most("resync / first copy", paired(&again, &mirror), MAX_RESYNC);
    }
    Ok(copies)
}

fn changes(wanted: &Wanted, service: &Service, copies: &Copies) -> Outcome<()> {
    let (mut rows_only, mut same_work, mut mirror) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..wanted.rounds.max(1) {
        let after = service.touch(CHANGED)?;
        rows_only.push(child::run("rows-only", service, &copies.rows_only, &[&after])?);
        same_work.push(child::run("same-work", service, &copies.same_work, &[&after])?);
        mirror.push(child::run("sync", service, &copies.mirror, &[])?);
    }
    println!("\nRun of {CHANGED} changed records");
    show("typed columns only", &rows_only);
    show("straight line, same work", &same_work);
    show("crm-mirror", &mirror);
    at_most("changes / straight line", paired(&mirror, &same_work), MAX_CHANGES);
    let (times, processor) = paired(&mirror, &rows_only);
    println!("  changes / typed columns only: {times:.2}, of processor time {processor:.2}");
    if wanted.rows == 100_000 {
        let seconds = median(mirror.iter().map(|run| run.processor_seconds));
        is_at_most("changes, seconds of processor", seconds, MAX_CHANGES_SECONDS);
        is_at_most("changes, MiB written", median(mirror.iter().map(Measured::written_mib)), MAX_CHANGES_MIB);
    }
    Ok(())
}

fn memory(wanted: &Wanted, dir: &Path) -> Outcome<()> {
    println!("\nPeak memory of a first copy");
    let mut most: f64 = 0.0;
    for rows in wanted.memory_rows {
        let service = Service::start(rows)?;
        for walkers in ["1", "4"] {
            let run = child::run("sync", &service, &dir.join(format!("memory{rows}-{walkers}.db")), &[walkers])?;
            println!("  {rows:>9} contacts, {walkers} at once  {:>6.1} MiB", run.peak_mib());
            most = most.max(run.peak_mib());
        }
    }
    is_at_most("most memory, MiB", most, MAX_MIB);
    is_at_most("daemon at rest, MiB", idle::daemon_mib(wanted.rows, dir)?, MAX_IDLE_MIB);
    Ok(())
}

fn slices(wanted: &Wanted, dir: &Path) -> Outcome<()> {
    let service = Service::start(wanted.slice_rows)?;
    service.set_latency(LATENCY_MS)?;
    let (mut copies, mut resyncs) = (Vec::new(), Vec::new());
    for walkers in WALKERS {
        let file = dir.join(format!("slices{walkers}.db"));
        copies.push(child::run("sync", &service, &file, &[walkers])?);
        resyncs.push(child::run("resync", &service, &file, &[walkers])?);
    }
    for (what, runs) in [("First copy", copies), ("Resync", resyncs)] {
        println!("\n{what} of {} contacts where every answer takes {LATENCY_MS} ms", wanted.slice_rows);
        for (walkers, run) in WALKERS.iter().zip(&runs) {
            show(&format!("{walkers} at once"), std::slice::from_ref(run));
        }
        let (one, default) = (&runs[0], &runs[2]);
        println!("  one walker / four: {:.2}", one.seconds / runs[1].seconds);
        at_least("one walker / eight, the default", one.seconds / default.seconds, MIN_SLICES);
        let more = default.ru as f64 / one.ru as f64 - 1.0;
        is_at_most("more RU, %", more * 100.0, MAX_SLICES_RU * 100.0);
    }
    service.refuse_after(wanted.slice_rows as u64 / 200)?;
    let run = child::run("sync", &service, &dir.join("refused.db"), &["4"])?;
    println!("\nThe same first copy with a 429 in its middle, which asks for a second of patience");
    show("4 at once", std::slice::from_ref(&run));
    println!("  {} of {} rows were read", run.rows, wanted.slice_rows);
    Ok(())
}

/// Details of a mirror whose lists are here, where every answer takes its time.
fn details(dir: &Path) -> Outcome<()> {
    let service = Service::start(DETAILS)?;
    println!("\nDetails of {DETAILS} contacts where every answer takes {LATENCY_MS} ms");
    let mut runs = Vec::new();
    for walkers in WALKERS {
        let file = dir.join(format!("details{walkers}.db"));
        service.set_latency(0)?;
        child::run("sync", &service, &file, &["1"])?;
        service.set_latency(LATENCY_MS)?;
        let run = child::run("details", &service, &file, &[walkers])?;
        show(&format!("{walkers} at once"), &[run]);
        runs.push(run);
    }
    at_least("one request at once / four", runs[0].seconds / runs[1].seconds, MIN_DETAILS);
    Ok(())
}

/// What each step costs per record, and an idle run as a whole, at a tenth of the records and at all of them: nothing may
/// grow faster than the records do.
fn growth(wanted: &Wanted, dir: &Path) -> Outcome<()> {
    println!("\nProcessor time by size, details included");
    for rows in [wanted.rows / 10, wanted.rows] {
        let service = Service::start(rows)?;
        let file = dir.join(format!("growth{rows}.db"));
        let run = |role| child::run(role, &service, &file, &["4"]);
        let (lists, details) = (run("sync")?, run("details")?);
        let idle = [run("details")?, run("details")?, run("details")?];
        let size = mib(&file);
        service.touch(CHANGED)?;
        let changes = run("details")?;
        let resync = run("resync")?;
        let each = |run: &Measured, rows: usize| run.processor_seconds * 1e6 / rows as f64;
        println!(
            "  {rows:>9} contacts: {:.1} µs a row for lists, {:.1} for details, {:.1} for a resync, {:.0} for a change; an idle run takes {:.0} ms ({} RU); {size:.0} MiB; {:.1} MiB of memory at most",
            each(&lists, rows),
            each(&details, rows),
            each(&resync, rows),
            each(&changes, CHANGED.min(rows)),
            median(idle.iter().map(|run| run.processor_seconds * 1e3)),
            idle[0].ru,
            [lists, details, resync, changes].iter().map(Measured::peak_mib).fold(0.0, f64::max),
        );
        std::fs::remove_file(&file)?;
    }
    Ok(())
}
