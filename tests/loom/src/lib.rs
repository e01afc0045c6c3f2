//! The very files of the crate's task counter and free list, over loom's atomics and locks.

#[cfg(test)]
mod sync {
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    pub use loom::sync::{Mutex, MutexGuard};
    pub use std::sync::TryLockError;

    /// Few, so that the model stays small; a lock that is not to be had is one of the cases.
    pub const ATTEMPTS: usize = 2;
}

#[cfg(test)]
#[path = "../../../src/devices/cpu/tasks.rs"]
mod tasks;

#[cfg(test)]
#[path = "../../../src/devices/cpu/memory/free_list.rs"]
mod free_list;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use loom::cell::UnsafeCell;
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::free_list::{Blocks, FreeList};
    use super::tasks::Tasks;

    /// Memory that tasks write without a lock: loom fails where two threads meet in one cell.
    struct Output(Vec<UnsafeCell<u32>>);
    // SAFETY: tasks write to cells of their own, which is what the model checks.
    unsafe impl Sync for Output {}

    fn run(tasks: &Tasks, output: &Output) {
        while let Some(index) = tasks.claim() {
            output.0[index].with_mut(|cell| {
                // SAFETY: the counter gave this index to nobody else; loom checks it.
                unsafe { *cell += 1 }
            });
        }
    }

    #[test]
    fn every_task_runs_once_and_the_caller_sees_it() {
        loom::model(|| {
            let tasks = Arc::new(Tasks::new(3));
            let output = Arc::new(Output((0..3).map(|_| UnsafeCell::new(0)).collect()));
            let helpers: Vec<_> = (0..2)
                .map(|_| {
                    let (tasks, output) = (tasks.clone(), output.clone());
                    thread::spawn(move || run(&tasks, &output))
                })
                .collect();
            run(&tasks, &output);
            helpers.into_iter().for_each(|helper| helper.join().unwrap());
            for cell in &output.0 {
                // SAFETY: every helper has ended.
                assert_eq!(cell.with(|cell| unsafe { *cell }), 1);
            }
        });
    }

    #[test]
    fn no_task_runs_twice_where_the_work_is_stopped() {
        loom::model(|| {
            let tasks = Arc::new(Tasks::new(4));
            let output = Arc::new(Output((0..4).map(|_| UnsafeCell::new(0)).collect()));
            let helper = {
                let (tasks, output) = (tasks.clone(), output.clone());
                thread::spawn(move || run(&tasks, &output))
            };
            if let Some(index) = tasks.claim() {
                // SAFETY: as in `run`.
                output.0[index].with_mut(|cell| unsafe { *cell += 1 });
            }
            tasks.stop();
            assert_eq!(tasks.claim(), None);
            helper.join().unwrap();
            for cell in &output.0 {
                // SAFETY: the helper has ended.
                assert!(cell.with(|cell| unsafe { *cell }) <= 1);
            }
        });
    }

    /// Blocks are numbers: who made one and who released it.
    #[derive(Default)]
    struct System {
        made: Mutex<usize>,
        released: Mutex<HashSet<usize>>,
    }

    impl System {
        fn make(&self) -> usize {
            let mut made = self.made.lock().unwrap();
            *made += 1;
            *made
        }

        fn release(&self, block: usize) {
            assert!(self.released.lock().unwrap().insert(block), "block {block} was released twice");
        }
    }

    #[test]
    fn a_block_has_one_owner_and_none_is_lost() {
        const SIZE: usize = 2;
        const LIMIT: usize = 3;
        loom::model(|| {
            let list = Arc::new(FreeList::new(Mutex::new(Blocks::new())));
            let system = Arc::new(System::default());
            let owners: Arc<Vec<AtomicUsize>> = Arc::new((0..4).map(|_| AtomicUsize::new(0)).collect());
            let work = {
                let (list, system, owners) = (list.clone(), system.clone(), owners.clone());
                move || {
                    let block = list.take(SIZE).unwrap_or_else(|| system.make());
                    assert_eq!(owners[block].fetch_add(1, Ordering::Relaxed), 0, "block {block} has two owners");
                    owners[block].fetch_sub(1, Ordering::Relaxed);
                    list.put(block, SIZE, LIMIT, |block, _| system.release(block));
                }
            };
            let helper = thread::spawn(work.clone());
            work();
            helper.join().unwrap();
            assert!(list.bytes() <= LIMIT);
            list.shrink(0, |block, _| system.release(block));
            assert_eq!(list.bytes(), 0);
            assert_eq!(system.released.lock().unwrap().len(), *system.made.lock().unwrap());
        });
    }

    #[test]
    fn shrinking_beside_a_call_releases_each_block_once() {
        loom::model(|| {
            let list = Arc::new(FreeList::new(Mutex::new(Blocks::new())));
            let system = Arc::new(System::default());
            let block = system.make();
            list.put(block, 2, 4, |block, _| system.release(block));
            let helper = {
                let (list, system) = (list.clone(), system.clone());
                thread::spawn(move || list.shrink(0, |block, _| system.release(block)))
            };
            if let Some(block) = list.take(2) {
                list.put(block, 2, 1, |block, _| system.release(block));
            }
            helper.join().unwrap();
            list.shrink(0, |block, _| system.release(block));
            assert_eq!(system.released.lock().unwrap().len(), 1);
        });
    }
}
