//! Memory lent by others or to others, and when it is given back.
//!
//! DLPack's deleter names no stream. What firelu has borrowed is kept until the work that may use it is done; what firelu has
//! lent to a stream of its consumer's is taken back after all that the device had to do when the consumer let it go.

use std::any::Any;
use std::sync::{Mutex, PoisonError};

use crate::core::device::Stream;
use crate::core::error::Result;
use crate::devices::cuda::calls::{self, Failed};
use crate::devices::cuda::context::{Context, Event, SETTLE, context, handle};
use crate::devices::cuda::external::made;
use crate::devices::cuda::loading::relaxed;

/// What firelu has borrowed, let go of, and may still be using on the device.
struct Borrowed {
    context: &'static Context,
    /// Made where the driver made one; recorded after the last use on firelu's stream.
    event: Option<Event>,
    owner: Box<dyn Any + Send + Sync>,
}

// SAFETY: an event's handle may be used from any thread; the owner is one that may be sent.
unsafe impl Send for Borrowed {}

static BORROWED: Mutex<Vec<Borrowed>> = Mutex::new(Vec::new());

impl Borrowed {
    /// Whether the device has come past the event. Of a device that fails nothing uses the memory any more.
    fn is_done(&mut self) -> bool {
        let Some(event) = &self.event else { return true };
        let asked = self.context.with_current("asking for an event", || {
            // SAFETY: the event was made in this context, and is destroyed below alone.
            relaxed(|| match unsafe { calls::cuEventQuery(event.0) } {
                Err(Failed { code: calls::NOT_READY, .. }) => Ok(false),
                answer => answer.map(|()| true),
            })
        });
        let done = asked.unwrap_or(true);
        if done && let Some(Event(event)) = self.event.take() {
            // SAFETY: made for this, and forgotten here.
            let destroyed = self.context.with_current("ending an event", || unsafe { calls::cuEventDestroy_v2(event) });
            if let Err(not_done) = destroyed {
                self.context.leave_behind(None, not_done.error);
            }
        }
        done
    }
}

/// Keeps the owner of memory until the device has done all that firelu has put on its stream so far.
pub fn give_back(ordinal: u32, owner: Box<dyn Any + Send + Sync>) {
    // A device that cannot be reached does nothing with the memory.
    let Ok(context) = context(ordinal) else { return };
    let recorded = context.with_current("recording an event", || {
        let mut event = std::ptr::null_mut();
        // SAFETY: the driver writes one handle; the default stream is always there.
        unsafe {
            calls::cuEventCreate(&mut event, calls::WITHOUT_TIMING)?;
            match calls::cuEventRecord(event, handle(Stream::default())) {
                Ok(()) => Ok(event),
                Err(failed) => calls::cuEventDestroy_v2(event).and(Err(failed)),
            }
        }
    });
    let event = recorded.map(Event).map_err(|not_done| context.leave_behind(None, not_done.error)).ok();
    let borrowed = Borrowed { context, event, owner };
    BORROWED.lock().unwrap_or_else(PoisonError::into_inner).push(borrowed);
    SETTLE.get_or_init(|| settle);
    settle();
}

/// Gives back what the device is done with. Owners may run code of others: no device may be entered by the caller.
pub fn settle() {
    let done: Vec<Borrowed> = {
        let mut all = BORROWED.lock().unwrap_or_else(PoisonError::into_inner);
        if all.is_empty() {
            return;
        }
        all.extract_if(.., Borrowed::is_done).collect()
    };
    // Not while the list is locked: an owner may let go of more.
    done.into_iter().for_each(|borrowed| drop(borrowed.owner));
}

/// Makes firelu's stream wait for all that the device has to do so far, on whatever stream: memory that was lent may be used
/// again, or freed, in the order of firelu's stream. The stream that it was lent to is not asked for: it may be gone.
pub fn take_back(ordinal: u32) -> Result<()> {
    let context = context(ordinal)?;
    let mut event = context.event.lock().unwrap_or_else(PoisonError::into_inner);
    context
        .with_current("taking memory back", || {
            let event = made(&mut event)?;
            // SAFETY: the event was made in this context and is never destroyed; the default stream is always there.
            unsafe {
                match calls::cuCtxRecordEvent(context.raw(), event) {
                    Ok(()) => calls::cuStreamWaitEvent(handle(Stream::default()), event, 0),
                    // A driver from before CUDA 12.5.
                    Err(Failed { code: calls::NOT_FOUND, .. }) => calls::cuCtxSynchronize(),
                    Err(failed) => Err(failed),
                }
            }
        })
        .map_err(|not_done| not_done.error)
}
