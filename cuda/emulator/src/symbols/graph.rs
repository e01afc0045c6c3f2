//! Capture of streams, and the graphs that come of it.

use super::arguments::Out;
use super::functions;
use crate::driver::capture::exchange_mode;
use crate::driver::{Handle, code::Code};

functions! {
    /// Starts to capture a stream.
    fn cuStreamBeginCapture_v2(stream: Handle, mode: i32) |driver| {
        let stream = driver.stream(stream)?;
        driver.begin_capture(stream, mode)
    }

    /// Ends the capture; a broken one has no graph.
    fn cuStreamEndCapture(stream: Handle, graph: Out<Handle>) |driver| {
        let stream = driver.stream(stream)?;
        let handle = driver.end_capture(stream)?;
        graph.set(handle)
    }

    /// Whether a stream is being captured.
    fn cuStreamIsCapturing(stream: Handle, status: Out<i32>) |driver| {
        let stream = driver.stream(stream)?;
        status.set(driver.capture_status(stream))
    }

    /// Gives the thread another mode of capture, and the caller the one before.
    fn cuThreadExchangeStreamCaptureMode(mode: Out<i32>) |_driver| { mode.exchange(exchange_mode) }

    /// Makes a graph that can be launched.
    fn cuGraphInstantiateWithFlags(executable: Out<Handle>, graph: Handle, _flags: u64) |driver| {
        let handle = driver.instantiate(graph)?;
        executable.set(handle)
    }

    /// Launches a graph.
    fn cuGraphLaunch(executable: Handle, stream: Handle) |driver| {
        let stream = driver.stream(stream)?;
        driver.launch_graph(executable, stream)
    }

    /// Ends a graph.
    fn cuGraphDestroy(graph: Handle) |driver| {
        driver.graphs.remove(&graph).map(|_| ()).ok_or(Code::INVALID_VALUE)
    }

    /// Ends a graph that could be launched.
    fn cuGraphExecDestroy(executable: Handle) |driver| {
        driver.graphs.remove(&executable).map(|_| ()).ok_or(Code::INVALID_VALUE)
    }
}
