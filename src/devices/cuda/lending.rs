//! Memory lent by others or to others, and when it is given back.
//!
//! DLPack's deleter names no stream. What firelu has borrowed is kept until the work that may use it is done; what firelu has
//! lent to a stream of its consumer's is taken back after all that the device had to do when the consumer let it go.

use std::any::Any;
use std::sync::{Mutex, PoisonError};

use crate::core::device::Stream;
use crate::devices::cuda::available;
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

static BORROWED: Mutex<Vec<Borrowed>> = Mutex::new(Vec::new());

/// Events that wait for nothing, with their devices: they are recorded again, never destroyed.
static SPARE: Mutex<Vec<(u32, Event)>> = Mutex::new(Vec::new());

impl Borrowed {
    /// Whether the device has come past the event. Of a device that fails nothing uses the memory any more.
    fn is_done(&mut self) -> bool {
        let Some(event) = &self.event else { return true };
        let asked = self.context.with_current("asking for an event", || {
            // SAFETY: the event was made in this context and is never destroyed.
            relaxed(|| match unsafe { calls::cuEventQuery(event.0) } {
                Err(Failed { code: calls::NOT_READY, .. }) => Ok(false),
                answer => answer.map(|()| true),
            })
        });
        asked.unwrap_or_else(|not_done| {
            self.context.leave_behind(None, not_done.error);
            true
        })
    }
}

/// An event recorded on firelu's stream, or none where the driver fails, which the next call to the device tells.
fn record(context: &'static Context) -> Option<Event> {
    let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = spare.iter().position(|(ordinal, _)| *ordinal == context.ordinal);
    let mut event = place.map(|place| spare.swap_remove(place).1);
    let recorded = context.with_current("recording an event", || {
        let event = made(&mut event)?;
        // SAFETY: the event was made in this context; the default stream is always there.
        unsafe { calls::cuEventRecord(event, handle(Stream::default())) }
    });
    let Err(not_done) = recorded else { return event };
    spare.extend(event.map(|event| (context.ordinal, event)));
    drop(spare);
    context.leave_behind(None, not_done.error);
    None
}

/// Keeps the owner of memory until the device has done all that firelu has put on its stream so far.
pub fn give_back(ordinal: u32, owner: Box<dyn Any + Send + Sync>) {
    // A device that cannot be reached does nothing with the memory.
    let Ok(context) = context(ordinal) else { return };
    let borrowed = Borrowed { context, event: record(context), owner };
    BORROWED.lock().unwrap_or_else(PoisonError::into_inner).push(borrowed);
    SETTLE.get_or_init(|| settle);
    settle();
}

/// Gives back what the device is done with. Owners may run code of others: no device may be entered by the caller.
pub fn settle() {
    // What was borrowed before a fork is the parent's to give back.
    if available::lost_by_fork() {
        return;
    }
    let done: Vec<Borrowed> = {
        let mut all = BORROWED.lock().unwrap_or_else(PoisonError::into_inner);
        if all.is_empty() {
            return;
        }
        all.extract_if(.., Borrowed::is_done).collect()
    };
    // Not while a list is locked: an owner may let go of more.
    for Borrowed { context, event, owner } in done {
        SPARE.lock().unwrap_or_else(PoisonError::into_inner).extend(event.map(|event| (context.ordinal, event)));
        drop(owner);
    }
}

/// Makes firelu's stream wait for all that the device has to do so far, on whatever stream: memory that was lent may be used
/// again, or freed, in the order of firelu's stream. The stream that it was lent to is not asked for: it may be gone. What
/// goes wrong, the next call to the device tells.
pub fn take_back(ordinal: u32) {
    // A device that cannot be reached does nothing with the memory.
    let Ok(context) = context(ordinal) else { return };
    let mut event = context.event.lock().unwrap_or_else(PoisonError::into_inner);
    let waits = context.with_current("taking memory back", || {
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
    });
    drop(event);
    if let Err(not_done) = waits {
        context.leave_behind(None, not_done.error);
    }
}
