//! The soak's cases as property tests: few in every run, each with its seed where it fails.
#![cfg(unix)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use firelu::{DType, TensorType};
use firelu_soak::choices::Choices;
use firelu_soak::{cases, examples, memory::Memory};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// The instruction-set level is the process's: tests that set it take turns.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

proptest! {
    // The same cases in every run: `make soak` is what looks for new ones.
    #![proptest_config(ProptestConfig {
        cases: 4000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(12768571469182585005),
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_calls_give_what_the_definitions_give(seed in any::<u64>()) {
        let _turn = turn();
        let outcome = cases::run(&mut Choices::from_seed(seed), &mut Memory::new());
        prop_assert!(outcome.is_ok(), "firelu-soak --one {seed}: {}", outcome.unwrap_err());
    }

    #[test]
    fn a_fuzzers_bytes_give_what_the_definitions_give(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _turn = turn();
        let outcome = cases::run(&mut Choices::from_bytes(&bytes), &mut Memory::new());
        prop_assert!(outcome.is_ok(), "{bytes:?}: {}", outcome.unwrap_err());
    }
}

/// Shapes that no memory holds were once multiplied past 64 bits.
#[test]
fn sizes_that_no_memory_holds_are_refused() {
    let huge = TensorType::new([1 << 40, 1 << 40], DType::Float32);
    for operator in ["LeakyRelu", "ReduceSum", "Sum"] {
        let schema = &firelu::registry::find(operator).unwrap().schema;
        let args = schema.resolve_args([] as [(&str, firelu::ArgValue); 0]).unwrap();
        let refused = schema.cost(&[Some(&huge)], &args).unwrap_err().to_string();
        assert!(refused.contains("X: got (1099511627776, 1099511627776)"), "{refused}");
        let empty = TensorType::new([1 << 40, 1 << 40, 0], DType::Float32);
        // A sum over nothing still gives its one number.
        assert!(schema.cost(&[Some(&empty)], &args).unwrap().flops <= 1);
    }
}

#[test]
fn every_registered_operator_is_called() {
    for name in firelu::registry::names() {
        assert!(examples::calls_operator(&name), "{name} is registered, but no random call names it");
    }
}
