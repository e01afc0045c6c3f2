//! What the emulator is told through environment variables, all prefixed `FIRELU_EMULATOR_`.

use super::code::Code;
use std::collections::HashMap;

/// The failure of one call of one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Name of the function, with or without its version suffix.
    pub function: String,
    /// Which call fails, counted from 1.
    pub call: u64,
    /// What it answers.
    pub code: Code,
}

/// Where reports go as they are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sink {
    /// Standard error.
    Stderr,
    /// Appended to a file.
    File(String),
    /// Only the control interface.
    Nowhere,
}

/// The names of all settings, without the prefix.
pub const NAMES: [&str; 14] = [
    "ARCH",
    "COUNTERS",
    "DEVICES",
    "DRIVER_VERSION",
    "FAIL",
    "LEAKS",
    "LOST_AT",
    "MEMORY",
    "PAGEABLE",
    "POOLS",
    "REPORT",
    "STRICT",
    "WATCHDOG",
    "WORKERS",
];

/// All settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `ARCH`: compute capability of each device times ten; the number of entries is `DEVICES`.
    pub architectures: Vec<u32>,
    /// `DRIVER_VERSION`, as `cuDriverGetVersion` answers it.
    pub driver_version: i32,
    /// `MEMORY`: bytes of each device.
    pub memory: u64,
    /// `POOLS`: whether stream-ordered allocation is supported.
    pub pools: bool,
    /// `FAIL`: calls that fail.
    pub failures: Vec<Failure>,
    /// `LOST_AT`: the call, counted over all functions, from which on every call fails, and the code.
    pub lost: Option<(u64, Code)>,
    /// `LEAKS`: whether leaks are reported at exit.
    pub leaks: bool,
    /// `COUNTERS`: file that takes the counters of every launch at exit.
    pub counters: Option<String>,
    /// `REPORT`: where reports go.
    pub report: Sink,
    /// `STRICT`: whether findings a GPU would not notice fail the launch all the same.
    pub strict: bool,
    /// `PAGEABLE`: whether asynchronous copies into pageable memory complete before they return.
    pub pageable_blocks: bool,
    /// `WORKERS`: threads that run blocks.
    pub workers: usize,
    /// `WATCHDOG`: instructions a warp may issue between two barriers.
    pub watchdog: u64,
}

impl Settings {
    /// Reads the environment, where the control interface has not said otherwise; what cannot be understood is
    /// described in the errors and left at its default.
    pub fn from_environment(overrides: &HashMap<String, String>) -> (Self, Vec<String>) {
        Self::read(|name| {
            overrides.get(name).cloned().or_else(|| std::env::var(format!("FIRELU_EMULATOR_{name}")).ok())
        })
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> (Self, Vec<String>) {
        let mut errors = Vec::new();
        let mut number = |name: &str, default: u64| match variable(name).map(|text| (size(&text), text)) {
            None => default,
            Some((Some(value), _)) => value,
            Some((None, text)) => {
                errors.push(format!("FIRELU_EMULATOR_{name}: `{text}` is not a number"));
                default
            }
        };
        let devices = number("DEVICES", 1) as usize;
        let driver_version = number("DRIVER_VERSION", 12090) as i32;
        let memory = number("MEMORY", 8 << 30);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = number("WORKERS", cores as u64).max(1) as usize;
        let watchdog = number("WATCHDOG", 100_000_000).max(1);
        let flag = |name: &str, default: bool| variable(name).map_or(default, |text| text != "0");
        let (pools, leaks, strict) = (flag("POOLS", true), flag("LEAKS", false), flag("STRICT", true));
        let mut architectures: Vec<u32> = Vec::new();
        for text in variable("ARCH").unwrap_or_default().split(',').filter(|text| !text.is_empty()) {
            match text.trim().parse() {
                Ok(value) => architectures.push(value),
                Err(_) => errors.push(format!("FIRELU_EMULATOR_ARCH: `{text}` is not an architecture such as 75")),
            }
        }
        let last = architectures.last().copied().unwrap_or(75);
        architectures.resize(devices, last);
        let mut failures = Vec::new();
        for text in variable("FAIL").unwrap_or_default().split(',').filter(|text| !text.is_empty()) {
            match Failure::parse(text) {
                Some(failure) => failures.push(failure),
                None => errors.push(format!("FIRELU_EMULATOR_FAIL: `{text}` is not `function:call[:code]`")),
            }
        }
        let lost = variable("LOST_AT").filter(|text| !text.is_empty()).and_then(|text| {
            let (call, code) = text.split_once(':').unwrap_or((&text, "999"));
            let parsed = call.parse().ok().zip(code.parse().ok().map(Code));
            if parsed.is_none() {
                errors.push(format!("FIRELU_EMULATOR_LOST_AT: `{text}` is not `call[:code]`"));
            }
            parsed
        });
        let report = match variable("REPORT").as_deref() {
            None | Some("stderr") => Sink::Stderr,
            Some("none" | "") => Sink::Nowhere,
            Some(path) => Sink::File(path.to_string()),
        };
        let pageable_blocks = match variable("PAGEABLE").as_deref() {
            None | Some("deferred") => false,
            Some("blocking") => true,
            Some(text) => {
                errors.push(format!("FIRELU_EMULATOR_PAGEABLE: `{text}` is neither `deferred` nor `blocking`"));
                false
            }
        };
        let settings = Self {
            architectures,
            driver_version,
            memory,
            pools,
            failures,
            lost,
            leaks,
            counters: variable("COUNTERS"),
            report,
            strict,
            pageable_blocks,
            workers,
            watchdog,
        };
        (settings, errors)
    }

    /// The newest PTX version the driver's compiler reads.
    pub fn newest_ptx(&self) -> (u32, u32) {
        const VERSIONS: [(i32, (u32, u32)); 25] = [
            (9000, (6, 0)),
            (9010, (6, 1)),
            (9020, (6, 2)),
            (10000, (6, 3)),
            (10010, (6, 4)),
            (10020, (6, 5)),
            (11000, (7, 0)),
            (11010, (7, 1)),
            (11020, (7, 2)),
            (11030, (7, 3)),
            (11040, (7, 4)),
            (11050, (7, 5)),
            (11060, (7, 6)),
            (11070, (7, 7)),
            (11080, (7, 8)),
            (12000, (8, 0)),
            (12010, (8, 1)),
            (12020, (8, 2)),
            (12030, (8, 3)),
            (12040, (8, 4)),
            (12050, (8, 5)),
            (12070, (8, 6)),
            (12080, (8, 7)),
            (12090, (8, 8)),
            (13000, (9, 0)),
        ];
        let known = VERSIONS.iter().rev().find(|(driver, _)| *driver <= self.driver_version);
        match known {
            // From 13.0 on the two versions move together.
            Some(_) if self.driver_version >= 13010 => (9, (self.driver_version % 1000 / 10) as u32),
            Some(&(_, version)) => version,
            None => (5, 0),
        }
    }
}

impl Failure {
    /// Reads `function:call[:code]`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split(':');
        let function = parts.next().filter(|name| name.starts_with("cu"))?.to_string();
        let call = parts.next()?.parse().ok()?;
        let default = if function.contains("Alloc") { Code::OUT_OF_MEMORY } else { Code::UNKNOWN };
        let code = match parts.next() {
            Some(code) => Code(code.parse().ok()?),
            None => default,
        };
        parts.next().is_none().then_some(Self { function, call, code })
    }
}

/// A number with an optional K, M or G for powers of 1024.
fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, shift) = match text.chars().last()? {
        'k' | 'K' => (&text[..text.len() - 1], 10),
        'm' | 'M' => (&text[..text.len() - 1], 20),
        'g' | 'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::{Code, Failure, HashMap, Settings};

    fn with(values: &[(&str, &str)]) -> (Settings, Vec<String>) {
        let values: HashMap<String, String> =
            values.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Settings::read(|name| values.get(name).cloned())
    }

    #[test]
    fn settings_are_read_and_nonsense_is_named() {
        let (settings, errors) = with(&[
            ("DEVICES", "3"),
            ("ARCH", "50,86"),
            ("MEMORY", "2M"),
            ("FAIL", "cuMemAlloc_v2:3,cuLaunchKernel:1:700"),
            ("LOST_AT", "12:46"),
            ("WORKERS", "many"),
            ("PAGEABLE", "maybe"),
        ]);
        assert_eq!(settings.architectures, [50, 86, 86]);
        assert_eq!(settings.memory, 2 << 20);
        assert_eq!(settings.failures[0], Failure { function: "cuMemAlloc_v2".into(), call: 3, code: Code(2) });
        assert_eq!(settings.failures[1], Failure { function: "cuLaunchKernel".into(), call: 1, code: Code(700) });
        assert_eq!(settings.lost, Some((12, Code(46))));
        assert_eq!(errors.len(), 2, "{errors:?}");
    }

    #[test]
    fn each_driver_reads_ptx_up_to_its_own_version() {
        for (driver, version) in
            [("11080", (7, 8)), ("12060", (8, 5)), ("12090", (8, 8)), ("13000", (9, 0)), ("13040", (9, 4))]
        {
            assert_eq!(with(&[("DRIVER_VERSION", driver)]).0.newest_ptx(), version);
        }
    }
}
