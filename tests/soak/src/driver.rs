//! `make soak MINUTES=n`: runs cases in child processes until the time is over, so that a crash is one
//! more failure with a reproducer, and prints what was tried.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use firelu::devices::cpu::features::Level;
use firelu_soak::cases;
use firelu_soak::choices::Choices;
use firelu_soak::memory::Memory;
use firelu_soak::outcome::Outcome;
use serde_json::{Map, Value, json};

/// How many cases one child runs.
const BATCH: u64 = 50_000;
/// A child that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(900);
/// More failures than this are counted but not described.
const DESCRIBED: usize = 20;

const USAGE: &str = "firelu-soak [--minutes N] [--cases N] [--seed N] [--workers N] [--json FILE]
firelu-soak --one SEED        run one case and say what it was
firelu-soak --batch SEED N    run N cases from a seed on in this process";

/// What was tried so far.
#[derive(Default)]
struct Tally {
    computed: BTreeMap<String, u64>,
    refused: BTreeMap<String, u64>,
    derivatives: BTreeMap<String, u64>,
    neighbourhoods: BTreeMap<String, u64>,
    failures: Vec<Value>,
    failed: u64,
}

impl Tally {
    fn cases(&self) -> u64 {
        let all = [&self.computed, &self.refused, &self.derivatives, &self.neighbourhoods];
        all.iter().flat_map(|counts| counts.values()).sum::<u64>() + self.failed
    }

    fn fail(&mut self, seed: u64, what: &str) {
        self.failed += 1;
        if self.failures.len() < DESCRIBED {
            eprintln!("FAILURE: {what}\n  reproduce: firelu-soak --one {seed}");
            self.failures.push(json!({ "reproducer": format!("firelu-soak --one {seed}"), "what": what }));
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "cases": self.cases(),
            "computed": self.computed,
            "refused": self.refused,
            "derivatives": self.derivatives,
            "neighbourhoods": self.neighbourhoods,
            "failed": self.failed,
            "failures": self.failures,
        })
    }

    fn add(&mut self, batch: &Value) {
        for (counts, name) in [
            (&mut self.computed, "computed"),
            (&mut self.refused, "refused"),
            (&mut self.derivatives, "derivatives"),
            (&mut self.neighbourhoods, "neighbourhoods"),
        ] {
            for (operator, count) in batch[name].as_object().into_iter().flatten() {
                *counts.entry(operator.clone()).or_default() += count.as_u64().unwrap_or(0);
            }
        }
        self.failed += batch["failed"].as_u64().unwrap_or(0);
        self.failures.extend(batch["failures"].as_array().into_iter().flatten().cloned());
        self.failures.truncate(DESCRIBED);
    }
}

/// Cases `first .. first + count` in this process.
fn batch(first: u64, count: u64) -> Tally {
    // Panics are failures with a text: the default hook would only repeat them.
    std::panic::set_hook(Box::new(|_| {}));
    let (mut memory, mut tally) = (Memory::new(), Tally::default());
    for seed in first..first.saturating_add(count) {
        match cases::run(&mut Choices::from_seed(seed), &mut memory) {
            Ok(Outcome::Computed(operator)) => *tally.computed.entry(operator.into()).or_default() += 1,
            Ok(Outcome::Refused(operator)) => *tally.refused.entry(operator.into()).or_default() += 1,
            Ok(Outcome::Derivative(operator)) => *tally.derivatives.entry(operator.into()).or_default() += 1,
            Ok(Outcome::Neighbour(name)) => *tally.neighbourhoods.entry(name.into()).or_default() += 1,
            Err(what) => tally.fail(seed, &what),
        }
    }
    tally
}

/// A batch in a child process; an error says how the child ended.
fn child(first: u64, count: u64) -> Result<Value, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .args(["--batch", &first.to_string(), &count.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let started = Instant::now();
    // A report is shorter than a pipe holds, so that a child never waits for its reader.
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if started.elapsed() > PATIENCE => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("hangs: no answer after {PATIENCE:?}"));
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("crashes: {status}"));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

/// The first case of a batch that ends its process.
fn find_crash(first: u64, count: u64) -> u64 {
    let (mut low, mut high) = (first, first + count);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if child(low, middle - low).is_err() { high = middle } else { low = middle }
    }
    low
}

fn soak(minutes: f64, cases: u64, seed: u64, workers: usize) -> Value {
    let (started, length) = (Instant::now(), Duration::from_secs_f64(minutes * 60.0));
    let (next, tally) = (AtomicU64::new(seed), Mutex::new(Tally::default()));
    let levels: Vec<String> = Level::available().iter().map(ToString::to_string).collect();
    eprintln!("soak: {minutes} minutes from seed {seed}, {workers} processes, levels {}", levels.join(", "));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while started.elapsed() < length && next.load(Ordering::Relaxed) - seed < cases {
                    let first = next.fetch_add(BATCH, Ordering::Relaxed);
                    let result = child(first, BATCH);
                    let crash = result.as_ref().err().map(|ending| (find_crash(first, BATCH), ending.clone()));
                    let mut tally = tally.lock().expect("no worker panics");
                    match (result, crash) {
                        (Ok(report), _) => tally.add(&report),
                        (Err(_), Some((seed, ending))) => tally.fail(seed, &ending),
                        (Err(ending), None) => tally.fail(first, &ending),
                    }
                    eprintln!(
                        "  {:.0} s: {} cases, {} failures",
                        started.elapsed().as_secs_f64(),
                        tally.cases(),
                        tally.failed
                    );
                }
            });
        }
    });
    let tally = tally.into_inner().expect("no worker panics");
    let mut report = match tally.to_json() {
        Value::Object(report) => report,
        _ => Map::new(),
    };
    report.insert("seed".into(), json!(seed));
    report.insert("seconds".into(), json!(started.elapsed().as_secs_f64().round()));
    report.insert("levels".into(), json!(levels));
    report.insert("inputs_refused".into(), json!(tally.refused.values().sum::<u64>()));
    Value::Object(report)
}

/// Reads the command line and runs.
pub fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let (mut minutes, mut most, mut seed, mut json_file) = (1.0, u64::MAX, clock << 24, None);
    let mut workers = std::thread::available_parallelism().map_or(1, usize::from);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|text| text.parse::<f64>().ok());
        match (arg.as_str(), &mut seed) {
            ("--minutes", _) => minutes = number().unwrap_or(1.0),
            ("--cases", _) => most = number().map_or(u64::MAX, |cases| cases as u64),
            ("--workers", _) => workers = number().unwrap_or(1.0) as usize,
            ("--seed", seed) => *seed = args.next().and_then(|text| text.parse().ok()).unwrap_or(0),
            ("--json", _) => json_file = args.next(),
            ("--one", _) => {
                let seed = args.next().and_then(|text| text.parse().ok()).unwrap_or(0);
                let outcome = cases::run(&mut Choices::from_seed(seed), &mut Memory::new());
                println!("{outcome:?}");
                return if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
            }
            ("--batch", _) => {
                let mut whole = || args.next().and_then(|text| text.parse().ok()).unwrap_or(0);
                let (first, count) = (whole(), whole());
                println!("{}", batch(first, count).to_json());
                return ExitCode::SUCCESS;
            }
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    let report = soak(minutes, most, seed, workers);
    let number = |name: &str| report[name].as_u64().unwrap_or(0);
    println!(
        "{} cases tried, {} inputs refused, {} failures, {} s",
        number("cases"),
        number("inputs_refused"),
        number("failed"),
        report["seconds"]
    );
    if let Some(file) = json_file
        && let Err(error) = std::fs::write(&file, format!("{report:#}\n"))
    {
        eprintln!("{file}: {error}");
        return ExitCode::FAILURE;
    }
    if number("failed") == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
