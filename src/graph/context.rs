//! What holds for the calls of one thread: whether the tape records, and which gradients are used
//! instead of the registered ones. Languages with tasks of their own set it for each call.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use crate::core::gradient::Gradient;

/// Gradients to use instead of the registered ones, by operator name.
pub type Overrides = HashMap<String, Gradient>;

/// The state that calls of this thread see.
#[derive(Clone)]
pub struct Context {
    /// Whether operators on variables are recorded.
    pub recording: bool,
    /// Gradients used instead of the registered ones.
    pub overrides: Arc<Overrides>,
}

impl Default for Context {
    fn default() -> Self {
        Context { recording: true, overrides: Arc::default() }
    }
}

thread_local! {
    static CURRENT: RefCell<Context> = RefCell::new(Context::default());
}

/// The state of this thread.
pub fn current() -> Context {
    CURRENT.with_borrow(Context::clone)
}

/// The gradient that stands in for an operator's registered one, if any.
pub fn overridden(operator: &str) -> Option<Gradient> {
    CURRENT.with_borrow(|context| context.overrides.get(operator).cloned())
}

/// Runs `body` in another state.
pub fn with_context<R>(context: Context, body: impl FnOnce() -> R) -> R {
    struct Restore(Context);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.with_borrow_mut(|current| std::mem::swap(current, &mut self.0));
        }
    }
    let _restore = Restore(CURRENT.replace(context));
    body()
}

/// Runs `body` without recording.
pub fn no_grad<R>(body: impl FnOnce() -> R) -> R {
    with_context(Context { recording: false, ..current() }, body)
}

/// Runs `body` with other gradients than the registered ones, on top of those in force.
pub fn gradient_override<R>(overrides: Overrides, body: impl FnOnce() -> R) -> R {
    let mut context = current();
    Arc::make_mut(&mut context.overrides).extend(overrides);
    with_context(context, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_nest_and_are_restored() {
        let forbidden = |name: &str| Overrides::from([(name.to_string(), Gradient::NotNeeded)]);
        gradient_override(forbidden("A"), || {
            no_grad(|| {
                gradient_override(forbidden("B"), || {
                    assert!(overridden("A").is_some() && overridden("B").is_some());
                    assert!(!current().recording);
                })
            });
            assert!(overridden("B").is_none() && current().recording);
        });
        let panicked = std::panic::catch_unwind(|| no_grad(|| panic!("as a test")));
        assert!(panicked.is_err() && current().recording && overridden("A").is_none());
    }
}
