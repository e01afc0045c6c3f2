//! Where memory comes from: a pool of firelu's own, the device's default pool, or the driver itself.
//!
//! The default pool gives everything back to the system whenever something is waited for, so that the next call has it
//! mapped anew. Its setting belongs to the whole process; so firelu has a pool of its own, which keeps what it has.

use crate::core::device::Stream;
use crate::devices::cuda::calls::{self, Answer, Failed, PoolProperties};
use crate::devices::cuda::context::{Context, Pool, handle};

/// The address of new memory, in the order of the stream where the device has pools. The context is current.
pub(super) fn allocate(context: &Context, bytes: usize, stream: Stream) -> Answer<u64> {
    let mut address = 0;
    let pool = match context.pools {
        true => own(context)?,
        false => None,
    };
    // SAFETY: the driver writes one address; the pool is never destroyed, and the stream is the default one or kept by
    // its owner for the call.
    unsafe {
        match (context.pools, pool) {
            (true, Some(Pool(pool))) => calls::cuMemAllocFromPoolAsync(&mut address, bytes, *pool, handle(stream))?,
            (true, None) => calls::cuMemAllocAsync(&mut address, bytes, handle(stream))?,
            (false, _) => {
                refuse_capture(stream)?;
                calls::cuMemAlloc_v2(&mut address, bytes)?;
            }
        }
    }
    Ok(address)
}

/// firelu's pool of a device, made on first use; `None` where the driver has no such pools.
fn own(context: &Context) -> Answer<Option<&Pool>> {
    if let Some(pool) = context.pool.get() {
        return Ok(pool.as_ref());
    }
    let made = match make(context.ordinal) {
        Ok(pool) => Some(pool),
        Err(Failed { code: calls::NOT_FOUND | calls::NOT_SUPPORTED, .. }) => None,
        Err(failed) => return Err(failed),
    };
    Ok(context.pool.get_or_init(|| made).as_ref())
}

fn make(ordinal: u32) -> Answer<Pool> {
    let properties = PoolProperties {
        kind: 1,
        handles: 0,
        place: 1,
        ordinal: ordinal as i32,
        security: std::ptr::null_mut(),
        most: 0,
        usage: 0,
        reserved: [0; 54],
    };
    let (mut pool, mut everything) = (std::ptr::null_mut(), u64::MAX);
    // SAFETY: the driver reads the properties and writes one handle; then it reads one number.
    unsafe {
        calls::cuMemPoolCreate(&mut pool, &properties)?;
        calls::cuMemPoolSetAttribute(pool, calls::RELEASE_THRESHOLD, (&raw mut everything).cast())?;
    }
    Ok(Pool(pool))
}

/// Without pools an allocation is no part of a graph, and asking for one breaks the capture: so nobody asks.
fn refuse_capture(stream: Stream) -> Answer<()> {
    let mut status = 0;
    // SAFETY: the driver writes one number; the stream is the default one or kept by its owner for the call.
    match unsafe { calls::cuStreamIsCapturing(handle(stream), &mut status) } {
        Ok(()) if status != 0 => Err(Failed { call: "a device without memory pools", code: calls::CAPTURED }),
        // A driver from before graphs.
        Err(Failed { code: calls::NOT_FOUND, .. }) => Ok(()),
        answer => answer,
    }
}
