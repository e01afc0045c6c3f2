//! Elements and the registers that they are computed in: what each instruction set implements for the drivers.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::Row;
use firelu_core::dtype::Element;

/// The bytes of a cache line.
pub const LINE: usize = 64;
/// The most lanes of sums there are.
pub const MOST_LANES: usize = 16;
/// How many lanes of sums a compute type has: a cache line of numbers, two registers.
pub const fn lanes_of<C>() -> usize {
    LINE / size_of::<C>()
}
/// How many bytes ahead of the loads lines are asked for.
pub const AHEAD: usize = 1024;

/// An element that loads into a register of its compute type and is rounded once when stored.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub trait SimdElement: Element {
    /// The register of the compute type.
    type Register: Row<Self::Compute>;
    /// The register of AVX-512.
    #[cfg(target_arch = "x86_64")]
    type Wide: Row<Self::Compute>;
    /// How many elements it holds.
    const LANES: usize;

    /// Loads and widens; any alignment.
    ///
    /// # Safety
    /// A level with registers was detected, and `LANES` elements are readable.
    unsafe fn load(source: *const Self) -> Self::Register;

    /// Rounds and stores; any alignment.
    ///
    /// # Safety
    /// As `load`, and `LANES` elements are writable.
    unsafe fn store(target: *mut Self, value: Self::Register);

    /// Rounds and stores past the caches; the address is aligned to the bytes stored.
    ///
    /// # Safety
    /// As `store`, and aligned.
    unsafe fn stream(target: *mut Self, value: Self::Register);

    /// As `stream`, in stores of 16 bytes, to which the address is aligned.
    ///
    /// # Safety
    /// As `store`, and aligned.
    unsafe fn stream_halves(target: *mut Self, value: Self::Register);

    /// Loads numbers that are of the compute type already; any alignment.
    ///
    /// # Safety
    /// As `load`.
    unsafe fn load_wide(source: *const Self::Compute) -> Self::Register;

    /// Stores numbers of the compute type; any alignment.
    ///
    /// # Safety
    /// As `store`.
    unsafe fn store_wide(target: *mut Self::Compute, value: Self::Register);

    /// The same number in every place.
    ///
    /// # Safety
    /// A level with registers was detected.
    unsafe fn splat(value: Self::Compute) -> Self::Register;

    /// As `load`, twice as many elements, in an order which those below share: element-wise work does not see it.
    ///
    /// # Safety
    /// As `load`, with twice as many elements.
    #[inline(always)]
    unsafe fn load_pair(source: *const Self) -> [Self::Register; 2] {
        // SAFETY: the caller's promise.
        unsafe { [Self::load(source), Self::load(source.add(Self::LANES))] }
    }

    /// As `load_wide`, in the order of `load_pair`.
    ///
    /// # Safety
    /// As `load_pair`.
    #[inline(always)]
    unsafe fn load_wide_pair(source: *const Self::Compute) -> [Self::Register; 2] {
        // SAFETY: the caller's promise.
        unsafe { [Self::load_wide(source), Self::load_wide(source.add(Self::LANES))] }
    }

    /// As `store`, from the order of `load_pair`.
    ///
    /// # Safety
    /// As `store`, with twice as many elements.
    #[inline(always)]
    unsafe fn store_pair(target: *mut Self, [first, second]: [Self::Register; 2]) {
        // SAFETY: the caller's promise.
        unsafe {
            Self::store(target, first);
            Self::store(target.add(Self::LANES), second);
        }
    }

    /// As `stream`, from the order of `load_pair`.
    ///
    /// # Safety
    /// As `stream`, with twice as many elements.
    #[inline(always)]
    unsafe fn stream_pair(target: *mut Self, [first, second]: [Self::Register; 2]) {
        // SAFETY: the caller's promise.
        unsafe {
            Self::stream(target, first);
            Self::stream(target.add(Self::LANES), second);
        }
    }
}

/// Everything a kernel needs of an element type, where it is computed one at a time.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub trait SimdElement: Element {}
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl<T: Element> SimdElement for T {}
