//! A case of the soak whose choices the fuzzer makes.
#![no_main]

use std::cell::RefCell;

use firelu_soak::choices::Choices;
use firelu_soak::{cases, memory::Memory};
use libfuzzer_sys::fuzz_target;

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::new(Memory::new());
}

fuzz_target!(|bytes: &[u8]| {
    MEMORY.with(|memory| {
        if let Err(what) = cases::run(&mut Choices::from_bytes(bytes), &mut memory.borrow_mut()) {
            panic!("{what}");
        }
    });
});
