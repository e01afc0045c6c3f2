//! Threads: the only user of rayon. Work is a counted list of tasks; how many there are and what each
//! does depends on the data alone, so that results have the same bits for any number of threads.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, RwLock};
use std::time::{Duration, Instant};

use crate::environment::{MOST_THREADS, default_threads};
use crate::float_mode::FloatMode;
use crate::fork;
use crate::tasks::Tasks;
use firelu_core::error::{Error, Result};

/// Below this many bytes of reads and writes, starting threads costs more than it saves.
pub const SEQUENTIAL_BYTES: usize = 1 << 20;

/// How much memory one task should touch: large enough to hide the counter, small enough to balance
/// and to answer an interrupt.
pub const TASK_BYTES: usize = 1 << 20;
/// How long the caller waits awake for the others.
const AWAKE: Duration = Duration::from_micros(50);

/// How often the calling thread asks whether the user wants to stop.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(50);

/// Asks whether the user wants to stop; set once by the Python layer.
pub static INTERRUPT_CHECK: OnceLock<fn() -> bool> = OnceLock::new();

struct Pool {
    threads: rayon::ThreadPool,
    /// Helpers beside the calling thread.
    helpers: usize,
    /// Threads do not survive `fork`: a pool belongs to the process that made it.
    process: u32,
}

static POOL: RwLock<Option<Arc<Pool>>> = RwLock::new(None);
/// Zero means: not set, use the default.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Set inside tasks, which never split again, and by `with_threads`. Zero means: the process's value.
    static LOCAL_THREADS: Cell<usize> = const { Cell::new(0) };
}

/// How many threads a call from this thread uses: `with_threads`, else `set_threads`, else
/// `FIRELU_NUM_THREADS`, else `OMP_NUM_THREADS`, else what affinity and cgroup limits leave.
pub fn threads() -> usize {
    match LOCAL_THREADS.get() {
        0 => match THREADS.load(Ordering::Relaxed) {
            0 => default_threads().0,
            threads => threads,
        },
        threads => threads,
    }
}

/// What the number of threads of the process comes from.
pub fn threads_source() -> &'static str {
    if THREADS.load(Ordering::Relaxed) == 0 { default_threads().1 } else { "set_num_threads" }
}

/// Sets the number of threads for the whole process.
pub fn set_threads(threads: usize) -> Result<()> {
    if !(1..=MOST_THREADS).contains(&threads) {
        return Err(Error::argument("set_num_threads", "threads", threads, format!("1 to {MOST_THREADS}")));
    }
    THREADS.store(threads, Ordering::Relaxed);
    Ok(())
}

/// Runs `body` with another number of threads for calls from this thread.
pub fn with_threads<R>(threads: usize, body: impl FnOnce() -> R) -> R {
    struct Restore(usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            LOCAL_THREADS.set(self.0);
        }
    }
    let _restore = Restore(LOCAL_THREADS.replace(threads));
    body()
}

/// Runs `task(0)` … `task(count - 1)`, on several threads where `bytes` of work are worth it. The
/// calling thread takes part, so a call from inside anyone's thread pool cannot deadlock.
pub fn for_each(count: usize, bytes: usize, task: impl Fn(usize) + Sync) -> Result<()> {
    try_for_each(count, bytes, |index| {
        task(index);
        Ok(())
    })
}

/// As [`for_each`], with tasks that can fail: none is started after a failure, which is the result.
pub fn try_for_each(count: usize, bytes: usize, task: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    let (threads, tasks) = (if bytes < SEQUENTIAL_BYTES { 1 } else { threads().min(count) }, Tasks::new(count));
    let helpers = if threads <= 1 { None } else { pool(threads - 1) };
    let Some(pool) = helpers else { return run_tasks(&tasks, &task) };
    let (failure, mode) = (OnceLock::new(), FloatMode::current());
    let helping = AtomicUsize::new(threads - 1);
    pool.threads.in_place_scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|_| {
                let _leave = LeaveOnDrop(&helping);
                let help = || {
                    while let Some(index) = tasks.claim() {
                        if let Err(error) = task(index) {
                            tasks.stop();
                            // One reason is enough.
                            let _ = failure.set(error);
                        }
                    }
                };
                mode.during(|| with_threads(1, help));
            });
        }
        // The scope waits for the helpers even when this unwinds or stops early.
        let guard = StopOnDrop(&tasks);
        let result = with_threads(1, || run_tasks(&tasks, &task));
        if result.is_ok() {
            std::mem::forget(guard);
            wait_awake(&helping);
        }
        result
    })?;
    failure.into_inner().map_or(Ok(()), Err)
}

/// Waits for the helpers' last tasks for as long as it takes to fall asleep and be woken, which is what the end of the
/// scope would do: a call of a quarter of a millisecond would take a tenth longer.
fn wait_awake(helping: &AtomicUsize) {
    let start = Instant::now();
    while helping.load(Ordering::Relaxed) > 0 {
        if start.elapsed() > AWAKE {
            return;
        }
        std::hint::spin_loop();
    }
    // The scope hears of the last helper a moment later.
    for _ in 0..8 {
        std::hint::spin_loop();
    }
}

/// One helper less.
struct LeaveOnDrop<'a>(&'a AtomicUsize);

impl Drop for LeaveOnDrop<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Keeps helpers from starting further tasks once the caller has failed.
struct StopOnDrop<'a>(&'a Tasks);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The calling thread's part: the only one that asks whether the user wants to stop.
fn run_tasks(tasks: &Tasks, task: &(impl Fn(usize) -> Result<()> + Sync)) -> Result<()> {
    let check = INTERRUPT_CHECK.get();
    let mut asked: Option<Instant> = None;
    while let Some(index) = tasks.claim() {
        task(index)?;
        // A single task is over by now: only work that goes on is worth asking about.
        if let Some(check) = check
            && !tasks.is_last(index)
            && asked.get_or_insert_with(Instant::now).elapsed() > INTERRUPT_INTERVAL
        {
            asked = Some(Instant::now());
            if check() {
                return Err(Error::Interrupted);
            }
        }
    }
    Ok(())
}

/// A pool with at least so many helpers, or `None` where the system gives no threads.
fn pool(helpers: usize) -> Option<Arc<Pool>> {
    let fits = |pool: &Arc<Pool>| pool.process == std::process::id() && pool.helpers >= helpers;
    // Nobody holds the lock for longer than a copy takes; where it is taken all the same, a pool of one's own serves.
    let current = || Some(POOL.try_read().ok()?.as_ref().filter(|pool| fits(pool))?.clone());
    if let Some(pool) = fork::steady(current) {
        return Some(pool);
    }
    let threads = rayon::ThreadPoolBuilder::new()
        .num_threads(helpers)
        .thread_name(|index| format!("firelu-{index}"))
        .build()
        .ok()?;
    let pool = Arc::new(Pool { threads, helpers, process: std::process::id() });
    let old = fork::steady(|| POOL.try_write().ok()?.replace(pool.clone()));
    if let Some(old) = old
        && old.process != pool.process
    {
        // Its threads live in the parent process: joining them here would wait for ever.
        std::mem::forget(old);
    }
    Some(pool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn every_task_runs_once_for_any_number_of_threads() {
        for threads in [1, 2, 3, 8] {
            for count in [0, 1, 2, 7, 1000] {
                let seen: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                with_threads(threads, || {
                    for_each(count, usize::MAX, |index| {
                        seen[index].fetch_add(1, Ordering::Relaxed);
                    })
                })
                .unwrap();
                assert!(seen.iter().all(|n| n.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn tasks_do_not_split_again() {
        let inner = Mutex::new(Vec::new());
        with_threads(3, || for_each(4, usize::MAX, |_| inner.lock().unwrap().push(threads()))).unwrap();
        assert_eq!(*inner.lock().unwrap(), [1, 1, 1, 1]);
    }

    #[test]
    fn a_failure_in_a_task_is_the_result() {
        for threads in [1, 3] {
            let task = |index| if index == 50 { Err(Error::Interrupted) } else { Ok(()) };
            let result = with_threads(threads, || try_for_each(100, usize::MAX, task));
            assert_eq!(result, Err(Error::Interrupted));
        }
    }

    #[test]
    fn a_panic_in_a_task_reaches_the_caller_and_the_pool_goes_on() {
        let run = || with_threads(2, || for_each(100, usize::MAX, |index| assert_ne!(index, 50)));
        assert!(std::panic::catch_unwind(run).is_err());
        with_threads(2, || for_each(100, usize::MAX, |_| {})).unwrap();
    }
}
