//! Calls from inside a user's own thread pool, of rayon as firelu's and of plain threads: every call ends,
//! with the bits of a call from outside, and firelu adds no more threads than it was told.
#![cfg(unix)]

use std::sync::mpsc;
use std::time::Duration;

use firelu::devices::cpu::parallel::{set_threads, with_threads};
use firelu::{Tensor, registry};
use rayon::prelude::*;

/// A machine that is busy elsewhere may need as long; a deadlock would never end.
const PATIENCE: Duration = Duration::from_secs(300);

fn work(x: &Tensor, k: &Tensor) -> Vec<f64> {
    let pads = [("pad_x0", 1i64), ("pad_y0", 1)].map(|(name, n)| (name, firelu::ArgValue::Int(n)));
    let y = registry::run("UpFirDn2d", &[Some(x), Some(k)], pads).unwrap().remove(0);
    let none: [(&str, firelu::ArgValue); 0] = [];
    let y = registry::run("LeakyRelu", &[Some(&y)], none.clone()).unwrap().remove(0);
    let sum = registry::run("ReduceSum", &[Some(&y)], none).unwrap().remove(0);
    sum.to_f64_vec().unwrap()
}

#[cfg(target_os = "linux")]
fn operating_system_threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn a_users_own_pool_neither_deadlocks_nor_multiplies() {
    let values: Vec<f32> = (0..4 * 512 * 512).map(|i| (i % 97) as f32 - 48.0).collect();
    let x = Tensor::from_vec([4, 512, 512], values).unwrap();
    let k = Tensor::from_vec([2, 2], vec![1f32, 2.0, 3.0, 5.0]).unwrap();
    let expected = with_threads(1, || work(&x, &k));
    set_threads(3).unwrap();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
        // Calls inside tasks inside tasks, in a pool that is smaller than their number.
        let nested: Vec<Vec<f64>> = pool
            .install(|| (0..8).into_par_iter().flat_map(|_| (0..4).into_par_iter().map(|_| work(&x, &k))).collect());
        // The pool that everybody shares, and plain threads.
        let (global, other) = rayon::join(|| work(&x, &k), || work(&x, &k));
        let plain: Vec<Vec<f64>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..64).map(|_| scope.spawn(|| work(&x, &k))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        #[cfg(target_os = "linux")]
        let threads = {
            let before = operating_system_threads();
            work(&x, &k);
            operating_system_threads() - before
        };
        #[cfg(not(target_os = "linux"))]
        let threads = 0;
        sender.send((nested, vec![global, other], plain, threads)).unwrap();
    });
    let (nested, global, plain, threads) = receiver.recv_timeout(PATIENCE).expect("calls in a user's pool end");
    for result in nested.iter().chain(&global).chain(&plain) {
        assert_eq!(*result, expected);
    }
    assert_eq!(threads, 0, "a later call started threads of its own");
}
