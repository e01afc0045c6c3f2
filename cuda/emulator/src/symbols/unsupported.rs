//! Functions that exist so that a program gets an answer instead of a missing symbol.

use crate::driver::code::Code;

/// Declares functions that answer "not supported" whatever their arguments.
macro_rules! unsupported {
    ($($name:ident)*) => {
        $(
            /// Not supported by the emulator.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() -> i32 {
                super::enter(stringify!($name), |_| Err(Code::NOT_SUPPORTED))
            }
        )*

        /// The functions of this file by name.
        pub(super) const TABLE: &[(&str, *const ())] = &[$((stringify!($name), $name as *const ()),)*];
    };
}

unsupported! {
    cuDestroyExternalMemory
    cuExternalMemoryGetMappedBuffer
    cuImportExternalMemory
    cuGraphUpload
    cuMemAllocManaged
    cuMemAdvise_v2
    cuMemPrefetchAsync_v2
    cuMemHostGetDevicePointer_v2
    cuStreamAttachMemAsync
    cuLaunchKernelEx
    cuModuleLoadFatBinary
    cuOccupancyAvailableDynamicSMemPerBlock
    cuOccupancyMaxActiveClusters
    cuOccupancyMaxPotentialBlockSize
    cuOccupancyMaxPotentialBlockSizeWithFlags
    cuOccupancyMaxPotentialClusterSize
    cuProfilerStart
    cuProfilerStop
}
