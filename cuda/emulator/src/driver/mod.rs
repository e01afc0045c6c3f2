//! The state behind the driver's symbols: devices, contexts, streams, memory, modules.

pub mod capture;
pub mod clock;
pub mod code;
mod execute;
mod host;
mod memory;
mod modules;
mod objects;
pub mod pools;
mod schedule;
pub mod settings;

pub use host::HostRange;
pub use modules::{Function, Module};
pub use objects::{Context, Event, Stream};
pub use schedule::{Source, Work};

use crate::memory::AddressSpace;
use crate::report::{Collector, Kind, Report};
use clock::{StreamId, VectorClock};
use code::Code;
use objects::Device;
use schedule::Executed;
use settings::{Settings, Sink};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::sync::atomic::AtomicU32;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// An opaque handle given to the program: a number, never an address.
pub type Handle = usize;

/// Outcome of a driver call.
pub type Result<T> = std::result::Result<T, Code>;

/// Calls in which a GPU's driver waits for the device, or compiles.
const WAITING: [&str; 9] = [
    "cuCtxSynchronize",
    "cuEventSynchronize",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyHtoD_v2",
    "cuModuleLoadData",
    "cuModuleLoadDataEx",
    "cuStreamSynchronize",
];

/// The whole driver.
pub struct Driver {
    /// What the emulator was told.
    pub settings: Settings,
    /// What the control interface said on top of the environment.
    overrides: HashMap<String, String>,
    /// Whether `cuInit` was called.
    pub initialised: bool,
    calls: HashMap<&'static str, u64>,
    total_calls: u64,
    held: u64,
    pub(crate) devices: Vec<Device>,
    pub(crate) contexts: BTreeMap<Handle, Context>,
    pub(crate) streams: BTreeMap<StreamId, Stream>,
    pub(crate) events: BTreeMap<Handle, Event>,
    pub(crate) modules: BTreeMap<Handle, Module>,
    pub(crate) functions: BTreeMap<Handle, Function>,
    pub(crate) pools: BTreeMap<Handle, usize>,
    pub(crate) keeping: BTreeMap<Handle, pools::Keeping>,
    pool_of: HashMap<u64, (Handle, u64)>,
    maps: u64,
    captures: BTreeMap<StreamId, capture::Capture>,
    pub(crate) graphs: BTreeMap<Handle, capture::Graph>,
    next_handle: Handle,
    space: AddressSpace,
    allocations: BTreeMap<u64, memory::Origin>,
    pinned: BTreeMap<usize, host::Pinned>,
    host: VectorClock,
    executed: Vec<Executed>,
    spans: AtomicU32,
    found: Collector,
    reports: Vec<Report>,
    launches: Vec<String>,
}

thread_local! {
    /// The stack of current contexts of each thread.
    static CURRENT: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

static DRIVER: LazyLock<Mutex<Driver>> = LazyLock::new(|| Mutex::new(Driver::from_environment()));

/// Locks the driver unless another thread is in it: at exit nobody waits.
pub fn try_lock() -> Option<MutexGuard<'static, Driver>> {
    DRIVER.try_lock().ok()
}

/// Locks the driver. A panic inside a call becomes a report, so a poisoned lock is still usable.
pub fn lock() -> MutexGuard<'static, Driver> {
    DRIVER.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver {
    fn from_environment() -> Self {
        let (settings, errors) = Settings::from_environment(&HashMap::new());
        let driver = Self::new(settings);
        for error in errors {
            driver.found.add(Kind::InvalidSetting, None, || error);
        }
        driver
    }

    /// Changes one setting; the number of devices and their architecture take effect at the next reset.
    /// Failures and the loss of the device count calls from now.
    pub fn set(&mut self, name: &str, value: &str) -> std::result::Result<(), String> {
        if !settings::NAMES.contains(&name) {
            return Err(format!("there is no setting `{name}`"));
        }
        let mut overrides = self.overrides.clone();
        overrides.insert(name.to_string(), value.to_string());
        let (settings, errors) = Settings::from_environment(&overrides);
        if let Some(error) = errors.into_iter().find(|error| error.contains(name)) {
            return Err(error);
        }
        (self.settings, self.overrides) = (settings, overrides);
        if matches!(name, "FAIL" | "LOST_AT") {
            (self.total_calls, self.held) = (0, 0);
            self.calls.clear();
        }
        Ok(())
    }

    /// A driver that nobody has used.
    pub fn new(settings: Settings) -> Self {
        let devices = settings.architectures.iter().map(|&architecture| Device::new(architecture)).collect();
        Self {
            settings,
            overrides: HashMap::new(),
            initialised: false,
            calls: HashMap::new(),
            total_calls: 0,
            held: 0,
            devices,
            contexts: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            pools: BTreeMap::new(),
            keeping: BTreeMap::new(),
            pool_of: HashMap::new(),
            maps: 0,
            captures: BTreeMap::new(),
            graphs: BTreeMap::new(),
            next_handle: 0x1000,
            space: AddressSpace::default(),
            allocations: BTreeMap::new(),
            pinned: BTreeMap::new(),
            host: VectorClock::default(),
            executed: Vec::new(),
            spans: AtomicU32::new(1),
            found: Collector::default(),
            reports: Vec::new(),
            launches: Vec::new(),
        }
    }

    /// Forgets everything but the settings; handles of before become invalid.
    pub fn reset(&mut self) {
        let fresh = Self::new(self.settings.clone());
        let before = std::mem::replace(self, fresh);
        self.overrides = before.overrides;
        // Handles and addresses of before must not come to mean something else.
        self.next_handle = before.next_handle;
        self.space = before.space.successor();
        self.spans = before.spans;
    }

    /// Lets contexts that failed work again, as no GPU would.
    pub fn recover(&mut self) {
        for context in self.contexts.values_mut() {
            context.error = None;
        }
    }

    /// Counts a call and decides whether it fails before it starts.
    pub fn begin_call(&mut self, name: &'static str) -> Result<()> {
        self.total_calls += 1;
        if WAITING.contains(&name) && host::holds_interpreter() {
            self.held += 1;
        }
        let count = self.calls.entry(name).or_default();
        *count += 1;
        let count = *count;
        if let Some((call, code)) = self.settings.lost
            && self.total_calls >= call
        {
            return Err(code);
        }
        let plain = |text: &str| text.trim_end_matches("_v2").trim_end_matches("_ptsz").to_string();
        let wanted = plain(name);
        match self.settings.failures.iter().find(|failure| plain(&failure.function) == wanted && failure.call == count)
        {
            Some(failure) => Err(failure.code),
            None => self.check_capture(name),
        }
    }

    /// Each function with its calls so far, a line each; `held` counts those that wait for the device or compile
    /// while the caller keeps Python's other threads from running,
    /// and `maps` the allocations for which a pool had to ask the system.
    pub fn call_counts(&self) -> String {
        let mut lines: Vec<String> = self.calls.iter().map(|(name, count)| format!("{name} {count}\n")).collect();
        lines.sort_unstable();
        lines.push(format!("held {}\nmaps {}\n", self.held, self.maps));
        lines.concat()
    }

    /// Calls of all functions so far.
    pub fn total_calls(&self) -> u64 {
        self.total_calls
    }

    /// A handle never given before.
    pub(crate) fn new_handle(&mut self) -> Handle {
        self.next_handle += 16;
        self.next_handle
    }

    /// Adds a finding of the host side.
    pub fn report(&mut self, kind: Kind, detail: impl FnOnce() -> String) {
        self.found.add(kind, None, detail);
    }

    /// Moves new findings to the list the control interface reads, and prints them. Returns how many there were.
    pub fn publish(&mut self) -> usize {
        let new = self.found.take();
        for report in &new {
            match &self.settings.report {
                Sink::Nowhere => {}
                Sink::Stderr => eprintln!("firelu emulator: {report}"),
                Sink::File(path) => {
                    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
                    if file.and_then(|mut file| writeln!(file, "{report}")).is_err() {
                        eprintln!("firelu emulator: {report}");
                    }
                }
            }
        }
        let count = new.len();
        self.reports.extend(new);
        count
    }

    /// The reports since the last time they were taken.
    pub fn reports(&self) -> &[Report] {
        &self.reports
    }

    /// All reports since the last time they were taken.
    pub fn take_reports(&mut self) -> Vec<Report> {
        self.publish();
        std::mem::take(&mut self.reports)
    }

    /// The counters of every launch so far, as a JSON list.
    pub fn counters(&self) -> String {
        format!("[{}]", self.launches.join(", "))
    }

    /// Forgets the counters.
    pub fn clear_counters(&mut self) {
        self.launches.clear();
    }

    /// What is still held, one line each.
    pub fn leaks(&self) -> Vec<String> {
        let mut leaks = Vec::new();
        for allocation in self.space.live() {
            match self.allocations.get(&allocation.base) {
                Some(memory::Origin::Module) | None => {}
                Some(origin) => leaks.push(format!(
                    "{} bytes at {:#x} on device {}, {}",
                    allocation.size,
                    allocation.base,
                    allocation.device,
                    origin.describe()
                )),
            }
        }
        leaks.extend(self.pinned.iter().map(|(at, pinned)| format!("{} pinned bytes at {at:#x}", pinned.bytes())));
        let streams = self.streams.values().filter(|stream| stream.is_owned()).count();
        for (count, what) in [(streams, "streams"), (self.events.len(), "events"), (self.modules.len(), "modules")] {
            if count > 0 {
                leaks.push(format!("{count} {what}"));
            }
        }
        leaks.extend(self.contexts.values().map(|context| format!("a context of device {}", context.device)));
        leaks
    }

    /// Reports work that was queued and never waited for, in one context or in all.
    pub fn report_abandoned(&mut self, context: Option<Handle>) {
        let streams = self.streams.values().filter(|stream| context.is_none_or(|context| stream.context == context));
        for label in streams.flat_map(Stream::pending_labels) {
            self.found.add(Kind::AbandonedWork, None, || format!("{label} was queued and never waited for"));
        }
    }
}

/// The context on top of this thread's stack.
pub fn current_context() -> Option<Handle> {
    CURRENT.with_borrow(|stack| stack.last().copied())
}

/// Changes this thread's stack of contexts.
pub fn with_context_stack<T>(action: impl FnOnce(&mut Vec<Handle>) -> T) -> T {
    CURRENT.with_borrow_mut(action)
}
