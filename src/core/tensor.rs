//! Tensors: a type and shape, byte strides, and memory that is borrowed (views) or owned.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::device::Device;
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::shape::{Shape, Strides, extent, is_row_major};
use crate::with_element;

/// What shape inference speaks of: a shape and an element type, no memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorType {
    /// The length of each dimension.
    pub shape: Shape,
    /// The type of the elements.
    pub dtype: DType,
}

impl TensorType {
    /// A type of this shape.
    pub fn new(shape: impl Into<Shape>, dtype: DType) -> Self {
        TensorType { shape: shape.into(), dtype }
    }

    /// The size of a dense tensor of this type.
    pub fn bytes(&self) -> usize {
        self.shape.elements() * self.dtype.size()
    }
}

impl std::fmt::Display for TensorType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

/// The layout and address of a tensor: what both views share.
#[derive(Debug)]
pub struct Parts {
    /// The address of the element with index zero; on a CUDA device, its address there.
    pub pointer: *mut u8,
    /// Shape and element type.
    pub kind: TensorType,
    /// Bytes between neighbours along each dimension.
    pub strides: Strides,
    /// Where the memory is.
    pub device: Device,
}

impl Clone for Parts {
    /// Copies the strides at once, where the derived clone would go element by element.
    #[inline]
    fn clone(&self) -> Self {
        let Parts { pointer, kind, strides, device } = self;
        Parts { pointer: *pointer, kind: kind.clone(), strides: Strides::from_slice(strides), device: *device }
    }
}

impl Parts {
    /// The lengths of the dimensions.
    pub fn shape(&self) -> &Shape {
        &self.kind.shape
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.kind.dtype
    }

    /// Whether the elements lie one after the other in row-major order.
    pub fn is_row_major(&self) -> bool {
        is_row_major(&self.kind.shape, &self.strides, self.dtype().size())
    }

    /// The addresses from the lowest to one past the highest byte of any element.
    pub fn address_range(&self) -> (usize, usize) {
        let (low, high) = extent(&self.kind.shape, &self.strides, self.dtype().size()).unwrap_or((0, 0));
        let base = self.pointer as usize;
        (base.wrapping_add_signed(low), base.wrapping_add_signed(high))
    }

    /// Whether the two may share a byte. Judged by their address ranges, so interleaved views that
    /// never meet count as sharing.
    pub fn may_overlap(&self, other: &Parts) -> bool {
        let ((a, b), (c, d)) = (self.address_range(), other.address_range());
        self.device == other.device && a < d && c < b
    }

    /// Whether both name the same elements at the same places.
    pub fn is_same_memory(&self, other: &Parts) -> bool {
        self.device == other.device
            && self.kind == other.kind
            && self.pointer == other.pointer
            && self.kind.shape.iter().zip(self.strides.iter().zip(&other.strides)).all(|(&n, (a, b))| n < 2 || a == b)
    }
}

/// A tensor that is read.
#[derive(Debug, Clone)]
pub struct TensorView<'a> {
    parts: Parts,
    lifetime: PhantomData<&'a [u8]>,
}

/// A tensor that is written.
#[derive(Debug)]
pub struct TensorViewMut<'a> {
    parts: Parts,
    lifetime: PhantomData<&'a mut [u8]>,
}

// SAFETY: a view is an address and a layout; whoever made it promised (`from_parts`) that the memory
// may be used from any thread while the view lives, and kernels split writes into disjoint parts.
unsafe impl Send for TensorView<'_> {}
// SAFETY: as above; a shared view is only read through.
unsafe impl Sync for TensorView<'_> {}
// SAFETY: as above.
unsafe impl Send for TensorViewMut<'_> {}
// SAFETY: as above; kernels write disjoint parts from different threads.
unsafe impl Sync for TensorViewMut<'_> {}

impl TensorView<'_> {
    /// # Safety
    /// Every element that `parts` describes must be readable memory of its device for the view's whole
    /// life. Other threads may write to it meanwhile: kernels read through raw pointers, so values are
    /// then unspecified, and nothing else.
    pub unsafe fn from_parts(parts: Parts) -> Self {
        TensorView { parts, lifetime: PhantomData }
    }
}

impl TensorViewMut<'_> {
    /// # Safety
    /// Every element that `parts` describes must be writable memory of its device for the view's whole
    /// life, and no two elements may share a byte.
    pub unsafe fn from_parts(parts: Parts) -> Self {
        TensorViewMut { parts, lifetime: PhantomData }
    }

    /// The same tensor, to be read.
    pub fn as_view(&self) -> TensorView<'_> {
        TensorView { parts: self.parts.clone(), lifetime: PhantomData }
    }
}

impl std::ops::Deref for TensorView<'_> {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl std::ops::Deref for TensorViewMut<'_> {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.parts
    }
}

/// Memory that tensors own together.
pub trait Storage: Send + Sync {
    /// The first byte's address on the device.
    fn pointer(&self) -> *mut u8;
    /// How many bytes there are.
    fn bytes(&self) -> usize;
    /// Where they are.
    fn device(&self) -> Device;
}

/// An owned tensor; clones share their memory.
#[derive(Clone)]
pub struct Tensor {
    storage: Arc<dyn Storage>,
    offset: usize,
    kind: TensorType,
    strides: Strides,
}

impl Tensor {
    /// A tensor over storage, whose first element stands at byte `offset`. Refused where an element
    /// would lie outside the storage.
    pub fn from_storage(storage: Arc<dyn Storage>, offset: usize, kind: TensorType, strides: Strides) -> Result<Self> {
        let inside = strides.len() == kind.shape.len()
            && extent(&kind.shape, &strides, kind.dtype.size()).is_some_and(|(low, high)| {
                let first = (offset as isize).checked_add(low);
                let last = (offset as isize).checked_add(high);
                matches!((first, last), (Some(f), Some(l)) if f >= 0 && l as usize <= storage.bytes())
            });
        if !inside {
            return Err(Error::shape(
                "Tensor",
                "shape",
                format!("{kind} at byte {offset} with strides {strides:?}"),
                format!("elements inside {} bytes", storage.bytes()),
            ));
        }
        Ok(Tensor { storage, offset, kind, strides })
    }

    /// A row-major tensor that owns these values.
    pub fn from_vec<T: Element>(shape: impl Into<Shape>, values: Vec<T>) -> Result<Self> {
        let kind = TensorType::new(shape, T::DTYPE);
        if kind.shape.checked_elements(T::DTYPE) != Some(values.len()) {
            return Err(Error::shape("Tensor", "values", format!("{} values", values.len()), &kind.shape));
        }
        let strides = kind.shape.row_major_strides(T::DTYPE);
        Tensor::from_storage(Arc::new(VecStorage(values)), 0, kind, strides)
    }

    /// Shape and element type.
    pub fn kind(&self) -> &TensorType {
        &self.kind
    }

    /// The lengths of the dimensions.
    pub fn shape(&self) -> &Shape {
        &self.kind.shape
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.kind.dtype
    }

    /// Where the memory is.
    pub fn device(&self) -> Device {
        self.storage.device()
    }

    /// Bytes between neighbours along each dimension.
    pub fn strides(&self) -> &Strides {
        &self.strides
    }

    /// The memory, shared with every clone.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    fn parts(&self) -> Parts {
        Parts {
            // SAFETY: `from_storage` checked that the offset lies inside the storage.
            pointer: unsafe { self.storage.pointer().add(self.offset) },
            kind: self.kind.clone(),
            strides: self.strides.clone(),
            device: self.device(),
        }
    }

    /// The tensor, to be read.
    pub fn view(&self) -> TensorView<'_> {
        // SAFETY: the storage outlives the borrow, and `from_storage` checked that every element lies inside.
        unsafe { TensorView::from_parts(self.parts()) }
    }

    /// The tensor, to be written: only while no clone shares its memory.
    pub fn view_mut(&mut self) -> Option<TensorViewMut<'_>> {
        Arc::get_mut(&mut self.storage)?;
        // SAFETY: as in `view`; no one else owns the storage, and the exclusive borrow lasts as long as
        // the view.
        Some(unsafe { TensorViewMut::from_parts(self.parts()) })
    }

    /// The values in row-major order, widened to float64. CPU memory only.
    pub fn to_f64_vec(&self) -> Result<Vec<f64>> {
        with_element!(self.dtype(), T => {
            use crate::dtype::Compute;
            Ok(self.to_vec::<T>()?.into_iter().map(|v| v.to_compute().to_f64()).collect())
        })
    }

    /// The values in row-major order. CPU memory of this very element type only.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        if self.device() != Device::Cpu {
            return Err(Error::Device {
                device: self.device().to_string(),
                reason: "values are read on the cpu: copy the tensor there first".into(),
            });
        }
        if self.dtype() != T::DTYPE {
            return Err(Error::dtype("Tensor", "to_vec", T::DTYPE, self.dtype()));
        }
        let shape = self.shape();
        let base = self.view().pointer as *const u8;
        let mut values = Vec::with_capacity(shape.elements());
        let mut index: Vec<usize> = vec![0; shape.len()];
        for _ in 0..shape.elements() {
            let offset: isize = index.iter().zip(&self.strides).map(|(&i, &s)| i as isize * s).sum();
            // SAFETY: the index is inside the shape, whose every element `from_storage` placed inside
            // the storage; elements may be unaligned.
            values.push(unsafe { base.offset(offset).cast::<T>().read_unaligned() });
            for (i, &n) in index.iter_mut().zip(shape.iter()).rev() {
                *i += 1;
                if *i < n {
                    break;
                }
                *i = 0;
            }
        }
        Ok(values)
    }
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tensor({}, {})", self.kind, self.device())
    }
}

struct VecStorage<T>(Vec<T>);

impl<T: Element> Storage for VecStorage<T> {
    fn pointer(&self) -> *mut u8 {
        self.0.as_ptr() as *mut u8
    }
    fn bytes(&self) -> usize {
        size_of_val(self.0.as_slice())
    }
    fn device(&self) -> Device {
        Device::Cpu
    }
}
