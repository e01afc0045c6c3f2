//! Memory between unmapped pages, and tensors placed in it in every way that strides allow.

use firelu::core::tensor::{Parts, Storage};
use firelu::{DType, Device, Element, Shape, Strides, TensorType, with_element};
use firelu_test_support::guarded::{Guarded, Side};

use crate::choices::Choices;

/// The bytes of a slot: enough for a tensor that is worth several threads.
pub const SLOT_BYTES: usize = 16 << 20;
/// Address space for huge strides; only touched pages cost memory.
const SPARSE_BYTES: usize = 1 << 38;

/// Slots for the tensors of a case.
pub struct Memory {
    slots: Vec<Guarded>,
    used: usize,
    sparse: Option<Guarded>,
    /// Whether this case has a tensor there already: only one fits without meeting another.
    sparse_used: bool,
    cases: usize,
}

/// A tensor in a slot: its layout, and the bytes from its lowest to its highest.
#[derive(Clone)]
pub struct Placed {
    /// Layout and address.
    pub parts: Parts,
    /// Offsets of the elements in row-major order.
    pub offsets: Vec<isize>,
    low: isize,
    high: isize,
    is_sparse: bool,
}

/// What a layout must allow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Elements may share memory.
    Read,
    /// Elements have memory of their own.
    Write,
    /// Elements lie one after the other.
    Dense,
}

impl Default for Memory {
    fn default() -> Self {
        Memory::new()
    }
}

impl Memory {
    /// No slots yet.
    pub fn new() -> Self {
        Memory { slots: Vec::new(), used: 0, sparse: Guarded::new(SPARSE_BYTES), sparse_used: false, cases: 0 }
    }

    /// Lets the next case use every slot again.
    pub fn reset(&mut self) {
        (self.used, self.sparse_used) = (0, false);
        self.cases += 1;
        if let (Some(sparse), true) = (&self.sparse, self.cases.is_multiple_of(4096)) {
            sparse.forget();
        }
    }

    /// A slot that holds so many bytes.
    fn next_slot(&mut self, bytes: usize) -> &Guarded {
        let new = || Guarded::new(bytes.max(SLOT_BYTES)).expect("the system has the space");
        match self.slots.get_mut(self.used) {
            None => self.slots.push(new()),
            Some(slot) if slot.bytes() < bytes => *slot = new(),
            Some(_) => {}
        }
        self.used += 1;
        &self.slots[self.used - 1]
    }

    /// Places a row-major tensor directly against an unmapped page.
    pub fn place_against(&mut self, shape: &[usize], dtype: DType, side: Side) -> Placed {
        let kind = TensorType::new(shape, dtype);
        let (strides, bytes) = (kind.shape.row_major_strides(dtype), kind.bytes());
        let slot = self.next_slot(bytes);
        let start = slot.offset(bytes, side);
        let parts = Parts { pointer: slot.pointer().wrapping_add(start), strides, kind, device: Device::Cpu };
        let offsets = offsets(shape, &parts.strides, parts.shape().elements());
        Placed { parts, offsets, low: 0, high: bytes as isize, is_sparse: false }
    }

    /// Places a tensor somewhere; its memory holds whatever was there.
    pub fn place(&mut self, shape: &[usize], dtype: DType, purpose: Use, choices: &mut Choices<'_>) -> Placed {
        let elements: usize = if shape.contains(&0) { 0 } else { shape.iter().product() };
        let kind = TensorType::new(shape, dtype);
        let row_major = kind.shape.row_major_strides(dtype);
        let may_be_huge = self.sparse.is_some() && !self.sparse_used && purpose != Use::Dense;
        let huge = may_be_huge && elements > 0 && elements <= 64 && choices.one_in(48);
        self.sparse_used |= huge;
        let strides = match purpose {
            Use::Dense => row_major.clone(),
            _ => strides(shape, dtype, purpose, huge, choices),
        };
        let limit = if huge { SPARSE_BYTES } else { SLOT_BYTES };
        let reach = extent(shape, &strides, dtype).filter(|(low, high)| high - low <= limit as i128);
        let (strides, low, high) = match reach {
            Some((low, high)) => (strides, low as isize, high as isize),
            None => (row_major, 0, (elements * dtype.size()) as isize),
        };
        let bytes = (high - low) as usize;
        let slot = if huge { self.sparse.as_ref().expect("looked for above") } else { self.next_slot(bytes) };
        let room = slot.bytes() - bytes;
        let start = match choices.below(4) {
            0 => 0,
            1 => room,
            2 => room.min(choices.below(64)),
            _ => room - room.min(choices.below(64)),
        };
        let pointer = slot.pointer().wrapping_add(start).wrapping_offset(-low);
        let parts = Parts { pointer, strides, kind, device: Device::Cpu };
        let offsets = offsets(shape, &parts.strides, elements);
        Placed { parts, offsets, low, high, is_sparse: huge }
    }
}

/// The bytes that elements touch, from the lowest to one past the highest, in numbers that cannot wrap.
fn extent(shape: &[usize], strides: &[isize], dtype: DType) -> Option<(i128, i128)> {
    if shape.contains(&0) {
        return Some((0, 0));
    }
    let (mut low, mut high) = (0i128, dtype.size() as i128);
    for (&n, &stride) in shape.iter().zip(strides) {
        let reach = (n as i128 - 1) * stride as i128;
        if reach < 0 { low += reach } else { high += reach }
    }
    (high - low < 1 << 62).then_some((low, high))
}

/// Strides of any order, sign and gap; to be read also of zero and with overlaps. Where a dimension
/// never moves (length one, or no elements at all) any number.
fn strides(shape: &[usize], dtype: DType, purpose: Use, huge: bool, choices: &mut Choices<'_>) -> Strides {
    let kind = TensorType::new(shape, dtype);
    let mut strides = kind.shape.row_major_strides(dtype);
    let manner = choices.below(if huge { 3 } else { 6 });
    // Two of six tensors are plain and one has its channels last: the fast paths are for them.
    if let (5, rank @ 3..) = (manner, shape.len()) {
        let (size, channels, width) = (dtype.size(), shape[rank - 3].max(1), shape[rank - 1].max(1));
        let row = size.saturating_mul(channels);
        strides[rank - 3] = size as isize;
        strides[rank - 1] = row as isize;
        strides[rank - 2] = row.saturating_mul(width) as isize;
    } else if manner < 3 {
        let mut order: Vec<usize> = (0..shape.len()).collect();
        if manner != 0 {
            for i in (1..order.len()).rev() {
                order.swap(i, choices.below(i + 1));
            }
        }
        let mut step = dtype.size() as isize;
        for &d in order.iter().rev() {
            if manner == 2 {
                // Gaps, also ones that leave every element unaligned.
                step += choices.pick(&[0, 0, 1, dtype.size() as isize, 3 * dtype.size() as isize, 64]);
            }
            if huge {
                step += choices.pick(&[0, 4096, 1 << 20, (1 << 31) + 4, 1 << 33]);
            }
            strides[d] = if choices.one_in(4) { -step } else { step };
            if purpose == Use::Read && choices.one_in(6) {
                strides[d] = choices.pick(&[0, 0, 0, dtype.size() as isize, 1, -1]);
                continue;
            }
            step = step.saturating_mul(shape[d].max(1) as isize);
        }
    }
    let nothing = shape.contains(&0);
    for (stride, &n) in strides.iter_mut().zip(shape) {
        if (n == 1 || nothing) && choices.one_in(4) {
            *stride = choices.pick(&[0, -1, 3, isize::MAX, isize::MIN, 1 << 40]);
        }
    }
    strides
}

fn offsets(shape: &[usize], strides: &[isize], elements: usize) -> Vec<isize> {
    let mut offsets = Vec::with_capacity(elements);
    if elements == 0 {
        return offsets;
    }
    let mut index = Shape::from(shape).iter().map(|_| 0usize).collect::<Vec<_>>();
    let mut at = 0isize;
    loop {
        offsets.push(at);
        let mut d = shape.len();
        loop {
            if d == 0 {
                return offsets;
            }
            d -= 1;
            index[d] += 1;
            if index[d] < shape[d] {
                at += strides[d];
                break;
            }
            at -= (shape[d] as isize - 1).wrapping_mul(strides[d]);
            index[d] = 0;
        }
    }
}

impl Placed {
    /// Whether two elements share a byte, or may: judged element by element where there are few.
    pub fn shares_memory(&self) -> bool {
        let mut sorted = self.offsets.clone();
        sorted.sort_unstable();
        sorted.windows(2).any(|pair| pair[1] - pair[0] < self.parts.dtype().size() as isize)
    }

    /// Writes bits to the element number `index` in row-major order.
    #[inline]
    pub fn write_bits(&self, index: usize, bits: u64) {
        let pointer = self.parts.pointer.wrapping_offset(self.offsets[index]);
        // SAFETY: `place` chose an address at which every offset lies inside the slot.
        unsafe {
            match self.parts.dtype().size() {
                2 => pointer.cast::<u16>().write_unaligned(bits as u16),
                4 => pointer.cast::<u32>().write_unaligned(bits as u32),
                _ => pointer.cast::<u64>().write_unaligned(bits),
            }
        }
    }

    /// The bits of the element number `index`.
    #[inline]
    pub fn read_bits(&self, index: usize) -> u64 {
        let pointer = self.parts.pointer.wrapping_offset(self.offsets[index]);
        // SAFETY: as in `write_bits`.
        unsafe {
            match self.parts.dtype().size() {
                2 => u64::from(pointer.cast::<u16>().read_unaligned()),
                4 => u64::from(pointer.cast::<u32>().read_unaligned()),
                _ => pointer.cast::<u64>().read_unaligned(),
            }
        }
    }

    /// Writes a number, rounded to the type.
    #[inline]
    pub fn write(&self, index: usize, value: f64) {
        let bits = with_element!(self.parts.dtype(), T => {
            use firelu::core::dtype::Compute;
            let value = T::from_compute(<T as Element>::Compute::from_f64(value));
            let mut bits = [0u8; 8];
            // SAFETY: an element is at most eight bytes of plain memory.
            unsafe { bits.as_mut_ptr().cast::<T>().write_unaligned(value) };
            u64::from_le_bytes(bits)
        });
        self.write_bits(index, bits);
    }

    /// The elements' values in row-major order.
    pub fn values(&self) -> Vec<f64> {
        let base = self.parts.pointer;
        with_element!(self.parts.dtype(), T => {
            use firelu::core::dtype::Compute;
            // SAFETY: as in `write_bits`.
            let read = |&at: &isize| unsafe { base.wrapping_offset(at).cast::<T>().read_unaligned() };
            self.offsets.iter().map(|at| read(at).to_compute().to_f64()).collect()
        })
    }

    /// A copy of every byte from the lowest element to the highest, for [`Placed::differs_from`]. A
    /// huge stride's gaps are left out.
    pub fn snapshot(&self) -> Vec<u8> {
        if self.is_sparse {
            return (0..self.offsets.len()).flat_map(|i| self.read_bits(i).to_le_bytes()).collect();
        }
        // SAFETY: `place` put the whole range inside the slot.
        unsafe { std::slice::from_raw_parts(self.parts.pointer.wrapping_offset(self.low), self.span()) }.to_vec()
    }

    fn span(&self) -> usize {
        (self.high - self.low) as usize
    }

    /// Whether any byte has changed.
    pub fn differs_from(&self, snapshot: &[u8]) -> bool {
        if self.is_sparse {
            return self.snapshot() != snapshot;
        }
        // SAFETY: as in `snapshot`.
        unsafe { std::slice::from_raw_parts(self.parts.pointer.wrapping_offset(self.low), self.span()) != snapshot }
    }

    /// Puts the elements' old bits back, so that [`Placed::differs_from`] then looks at the gaps alone.
    pub fn restore_elements(&self, old: &[u64]) {
        for (index, &bits) in old.iter().enumerate() {
            self.write_bits(index, bits);
        }
    }
}
