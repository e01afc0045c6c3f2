//! `cuGetProcAddress`: functions by name.

use super::arguments::{Out, Text};
use super::{context, copy, device, error, event, functions, graph, launch, memory, module, stream, unsupported};
use crate::driver::code::Code;

/// A function by its plain name: the newest version of it, as the driver answers.
fn find(name: &str) -> Option<*const ()> {
    let tables = [
        context::TABLE,
        copy::TABLE,
        device::TABLE,
        error::TABLE,
        event::TABLE,
        graph::TABLE,
        launch::TABLE,
        memory::TABLE,
        module::TABLE,
        stream::TABLE,
        unsupported::TABLE,
        TABLE,
    ];
    let all = || tables.iter().flat_map(|table| table.iter());
    let versions = [format!("{name}_v2"), name.to_string()];
    versions.iter().find_map(|wanted| all().find(|(known, _)| known == wanted).map(|&(_, function)| function))
}

functions! {
    /// The address of a function.
    fn cuGetProcAddress(name: Text, function: Out<*const ()>, _version: i32, _flags: u64) |_driver| {
        match find(&name.read()?) {
            Some(found) => function.set(found),
            None => {
                function.set(std::ptr::null())?;
                Err(Code::NOT_FOUND)
            }
        }
    }

    /// The address of a function, and whether it was found.
    fn cuGetProcAddress_v2(
        name: Text, function: Out<*const ()>, _version: i32, _flags: u64, status: Out<i32>,
    ) |_driver| {
        let found = find(&name.read()?);
        status.set_if_wanted(if found.is_some() { 0 } else { 1 });
        function.set(found.unwrap_or(std::ptr::null()))?;
        if found.is_some() { Ok(()) } else { Err(Code::NOT_FOUND) }
    }
}
