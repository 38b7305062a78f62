//! How fast the mirror is, as ratios to a straight-line program that does nothing but fetch, parse and write.
//!
//! `cargo bench --bench first_copy` shows everything in one run; after `--` come `--rows N` (100,000), `--rounds N` (5),
//! and `--only copy|memory|resync|changes|slices|indexes`. Rounds are interleaved and medians are shown, so that what else the
//! machine does falls on all sides alike: only the ratios mean something. Each run is a process of its own, and so is
//! the service that they ask. Where cargo only tries whether benches run, everything is small.

mod support;

use std::path::{Path, PathBuf};

use crm_mirror::store::MOST_INDEXED;
use support::child::{self, Service};
use support::{Measured, Outcome, engine, median, service, straight_line};

/// The first copy may take so many times the straight-line program's time.
const MOST_FIRST_COPY: f64 = 1.6;
/// A first copy of any size may take so much memory.
const MOST_MIB: f64 = 40.0;
/// An unchanged resync may take this part of a first copy's time.
const MOST_RESYNC: f64 = 1.0 / 3.0;
/// A run of changes may take so many times the straight-line program's time.
const MOST_CHANGES: f64 = 2.0;
/// Four walkers must be so many times as fast as one where answers take their time.
const LEAST_SLICES: f64 = 3.5;
/// And may cost this part more.
const MOST_SLICES_RU: f64 = 0.02;
/// How long every answer takes where slices are measured.
const LATENCY_MS: u64 = 50;
/// How many custom indexes are kept where their cost is measured; the last is more than there are fields.
const INDEXED: [&str; 4] = ["0", "4", "8", "30"];
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
    let mut builder = match role {
        "straight" => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build()?;
    let walkers = || -> Outcome<u32> { Ok(extra.first().copied().unwrap_or("1").parse()?) };
    let indexed = extra.get(1).map_or(Ok(MOST_INDEXED), |most| most.parse())?;
    match role {
        "straight" => runtime.block_on(straight_line::run(base_url, path, extra.first().copied())),
        "sync" => runtime.block_on(engine::run(base_url, path, false, walkers()?, indexed)),
        "resync" => runtime.block_on(engine::run(base_url, path, true, walkers()?, indexed)),
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
            Wanted { rows: 100_000, rounds: 5, memory_rows: [10_000, 200_000], slice_rows: 40_000, only: None }
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
    if wanted.wants("indexes") {
        indexes(wanted, dir.path())?;
    }
    Ok(())
}

/// The files of the last round.
struct Copies {
    straight: PathBuf,
    mirror: PathBuf,
}

/// First copies of both sides, and a resync of each mirror right after its copy.
fn first_copies(wanted: &Wanted, service: &Service, dir: &Path) -> Outcome<Copies> {
    let (mut straight, mut mirror, mut again) = (Vec::new(), Vec::new(), Vec::new());
    let mut copies = Err("no round was run".into());
    for round in 0..wanted.rounds.max(1) {
        let dir = dir.join(format!("round{round}"));
        std::fs::create_dir(&dir)?;
        let files = Copies { straight: dir.join("straight.db"), mirror: dir.join("mirror.db") };
        // Each side is first in every other round.
        for side in [round % 2, (round + 1) % 2] {
            if side == 0 {
                straight.push(child::run("straight", service, &files.straight, &[])?);
                continue;
            }
            mirror.push(child::run("sync", service, &files.mirror, &[])?);
            if wanted.wants("resync") {
                again.push(child::run("resync", service, &files.mirror, &[])?);
            }
        }
        copies = Ok(files);
    }
    println!("First copy of {} contacts' lists, {} rounds", wanted.rows, straight.len());
    show("straight-line program", &straight);
    show("crm-mirror", &mirror);
    let lists = median(mirror.iter().zip(&straight).map(|(this, that)| this.lists_seconds / that.seconds));
    verdict("rows of the first copy / straight line", lists, lists <= MOST_FIRST_COPY, || {
        format!("at most {MOST_FIRST_COPY}, before the search index and the secondary indexes are built")
    });
    let ratio = paired(&mirror, &straight);
    verdict("whole first copy / straight line", ratio, ratio <= MOST_FIRST_COPY, || {
        format!("at most {MOST_FIRST_COPY}, with everything built")
    });
    if wanted.wants("resync") {
        println!("\nResync of an unchanged mirror, one walk");
        show("crm-mirror", &again);
        let ratio = paired(&again, &mirror);
        verdict("resync / first copy", ratio, ratio <= MOST_RESYNC, || "at most a third".into());
    }
    copies
}

/// The median of the rounds' ratios.
fn paired(these: &[Measured], those: &[Measured]) -> f64 {
    median(these.iter().zip(those).map(|(this, that)| this.seconds / that.seconds))
}

fn changes(wanted: &Wanted, service: &Service, copies: &Copies) -> Outcome<()> {
    let (mut straight, mut mirror) = (Vec::new(), Vec::new());
    for _ in 0..wanted.rounds.max(1) {
        let after = service.touch(CHANGED)?;
        straight.push(child::run("straight", service, &copies.straight, &[&after])?);
        mirror.push(child::run("sync", service, &copies.mirror, &[])?);
    }
    println!("\nRun of {CHANGED} changed records");
    show("straight-line program", &straight);
    show("crm-mirror", &mirror);
    let ratio = paired(&mirror, &straight);
    verdict("changes / straight line", ratio, ratio <= MOST_CHANGES, || format!("at most {MOST_CHANGES}"));
    Ok(())
}

fn memory(wanted: &Wanted, dir: &Path) -> Outcome<()> {
    println!("\nPeak memory of a first copy");
    let mut peaks = Vec::new();
    for rows in wanted.memory_rows {
        let service = Service::start(rows)?;
        let run = child::run("sync", &service, &dir.join(format!("memory{rows}.db")), &[])?;
        println!("  {rows:>9} contacts  {:>6.1} MiB", run.peak_mib());
        peaks.push(run.peak_mib());
    }
    let most = peaks.iter().copied().fold(0.0, f64::max);
    verdict("most memory, MiB", most, most < MOST_MIB, || format!("less than {MOST_MIB}"));
    Ok(())
}

fn slices(wanted: &Wanted, dir: &Path) -> Outcome<()> {
    let service = Service::start(wanted.slice_rows)?;
    let file = dir.join("slices.db");
    child::run("sync", &service, &file, &[])?;
    service.set_latency(LATENCY_MS)?;
    let one = child::run("resync", &service, &file, &["1"])?;
    let four = child::run("resync", &service, &file, &["4"])?;
    println!("\nResync of {} contacts where every answer takes {LATENCY_MS} ms", wanted.slice_rows);
    show("one walker", &[one]);
    show("four walkers", &[four]);
    let ratio = one.seconds / four.seconds;
    verdict("one walker / four", ratio, ratio >= LEAST_SLICES, || format!("at least {LEAST_SLICES}"));
    let more = four.ru as f64 / one.ru as f64 - 1.0;
    verdict("more RU, %", more * 100.0, more <= MOST_SLICES_RU, || format!("at most {}", MOST_SLICES_RU * 100.0));
    Ok(())
}

/// What custom indexes cost, in a first copy and in a run of changes: each round makes a mirror with each number.
fn indexes(wanted: &Wanted, dir: &Path) -> Outcome<()> {
    let service = Service::start(wanted.rows)?;
    let (mut copies, mut changes) = (vec![Vec::new(); INDEXED.len()], vec![Vec::new(); INDEXED.len()]);
    for round in 0..wanted.rounds.max(1) {
        let file = |most| dir.join(format!("indexed{round}-{most}.db"));
        for (most, runs) in INDEXED.iter().zip(&mut copies) {
            runs.push(child::run("sync", &service, &file(most), &["1", most])?);
        }
        service.touch(CHANGED)?;
        for (most, runs) in INDEXED.iter().zip(&mut changes) {
            runs.push(child::run("sync", &service, &file(most), &["1", most])?);
            std::fs::remove_file(file(most))?;
        }
    }
    println!("\nCustom indexes of {} contacts", wanted.rows);
    for (n, most) in INDEXED.iter().enumerate() {
        println!(
            "  {most:>2} at most  first copy {:>7.3} s ({:.2} of that without)  {CHANGED} changes {:>7.3} s ({:.2} of that without)",
            median(copies[n].iter().map(|run| run.seconds)),
            paired(&copies[n], &copies[0]),
            median(changes[n].iter().map(|run| run.seconds)),
            paired(&changes[n], &changes[0]),
        );
    }
    Ok(())
}

fn show(side: &str, runs: &[Measured]) {
    let Some(last) = runs.last() else { return };
    let seconds = median(runs.iter().map(|run| run.seconds));
    println!(
        "  {side:<22} {seconds:>8.3} s  {:>8.2} s of processor  {:>6.0} pages/s  {:>8.0} rows/s  {:>5} RU  {:>6.1} MiB",
        median(runs.iter().map(|run| run.processor_seconds)),
        last.ru as f64 / seconds,
        last.rows as f64 / seconds,
        last.ru,
        median(runs.iter().map(Measured::peak_mib)),
    );
}

fn verdict(what: &str, figure: f64, met: bool, aim: impl Fn() -> String) {
    let word = if met { "met" } else { "MISSED" };
    println!("  {what}: {figure:.2} (aim: {}; {word})", aim());
}
