//! numpy arrays in and out, without a copy.

use std::os::raw::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

use numpy::npyffi::{self, _PyArray_GET_ITEM_DATA, NPY_TYPES, PY_ARRAY_API, npy_intp};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple};
use smallvec::SmallVec;

use super::{entry, errors};
use crate::core::device::Device;
use crate::core::dtype::DType;
use crate::core::shape::{Shape, Strides, is_row_major};
use crate::core::tensor::{Parts, TensorType};
use crate::devices::cpu::memory::{Block, POOLED_BYTES};

/// An array with a dtype that firelu computes in; not an array yet, it goes through `numpy.asarray`.
pub fn as_float_array<'py>(
    operator: &str,
    argument: &str,
    object: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyUntypedArray>, DType)> {
    let py = object.py();
    let array = match object.cast::<PyUntypedArray>() {
        Ok(array) => array.clone(),
        Err(_) => to_array(operator, argument, object)?,
    };
    match dtype_of(&array) {
        Some((dtype, true)) => Ok((array, dtype)),
        // The bytes of each element are swapped: numpy turns them.
        Some((dtype, false)) => {
            let native = array.dtype().call_method1("newbyteorder", ("=",))?;
            let turned = array.call_method1("astype", (native,))?.cast_into::<PyUntypedArray>()?;
            Ok((turned, dtype))
        }
        None => Err(refuse_dtype(py, operator, argument, &array)),
    }
}

/// Refuses arrays of libraries that have functions of their own here, by naming those: turned into numpy's they would
/// lose their kind, and their gradient, without a word.
pub fn refuse_other_libraries(operator: &str, argument: &str, object: &Bound<'_, PyAny>) -> PyResult<()> {
    static REFUSE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if object.is_instance_of::<PyUntypedArray>() || object.is_exact_instance_of::<PyList>() {
        return Ok(());
    }
    let py = object.py();
    let refuse = REFUSE.import(py, "firelu.libraries", "refuse")?;
    let arguments = (operator, argument, object).into_pyobject(py)?;
    entry::call(refuse, &arguments, None).map(drop)
}

fn to_array<'py>(operator: &str, argument: &str, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    static ASARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    let asarray = ASARRAY.import(py, "numpy", "asarray")?;
    let converted = entry::call(asarray, &PyTuple::new(py, [object])?, None).map_err(|failure| {
        if !(failure.is_instance_of::<PyValueError>(py) || failure.is_instance_of::<PyTypeError>(py)) {
            return failure;
        }
        let got = object.get_type().name().map_or_else(|_| "an object".into(), |name| name.to_string());
        let message =
            format!("{operator}: {argument}: got {got}, takes what numpy.asarray can turn into an array ({failure})");
        let error = errors::new(py, "ArgumentError", message);
        error.set_cause(py, Some(failure));
        error
    })?;
    Ok(converted.cast_into::<PyUntypedArray>()?)
}

#[cold]
fn refuse_dtype(py: Python<'_>, operator: &str, argument: &str, array: &Bound<'_, PyUntypedArray>) -> PyErr {
    let takes = "float16, bfloat16, float32 or float64";
    errors::new(py, "DTypeError", format!("{operator}: {argument}: got {}, takes {takes}", array.dtype()))
}

/// The element type, and whether its bytes are in the machine's order.
pub fn dtype_of(array: &Bound<'_, PyUntypedArray>) -> Option<(DType, bool)> {
    let descriptor = array.dtype();
    let dtype = dtype_of_number(descriptor.num()).or_else(|| bfloat16_of(&descriptor))?;
    let foreign = if cfg!(target_endian = "little") { b'>' } else { b'<' };
    Some((dtype, descriptor.byteorder() != foreign))
}

fn dtype_of_number(number: c_int) -> Option<DType> {
    const HALF: c_int = NPY_TYPES::NPY_HALF as c_int;
    const FLOAT: c_int = NPY_TYPES::NPY_FLOAT as c_int;
    const DOUBLE: c_int = NPY_TYPES::NPY_DOUBLE as c_int;
    match number {
        FLOAT => Some(DType::Float32),
        DOUBLE => Some(DType::Float64),
        HALF => Some(DType::Float16),
        number if number == BFLOAT16_NUMBER.load(Ordering::Relaxed) => Some(DType::BFloat16),
        _ => None,
    }
}

/// The first number that numpy gives to a type that a user registers.
const FIRST_USER_TYPE: c_int = 256;

/// The number numpy gave to ml_dtypes' bfloat16 when it was registered; unknown until the first is seen.
static BFLOAT16_NUMBER: AtomicI32 = AtomicI32::new(-1);

fn bfloat16_of(descriptor: &Bound<'_, PyArrayDescr>) -> Option<DType> {
    // Types registered by users have large numbers; everything else is none of ours.
    if descriptor.num() < FIRST_USER_TYPE {
        return None;
    }
    let class = descriptor.typeobj();
    let is =
        class.name().is_ok_and(|name| name == "bfloat16") && class.module().is_ok_and(|module| module == "ml_dtypes");
    is.then(|| {
        BFLOAT16_NUMBER.store(descriptor.num(), Ordering::Relaxed);
        DType::BFloat16
    })
}

/// The numpy dtype of a type. bfloat16 needs `ml_dtypes`, imported here and nowhere else.
pub fn descriptor(py: Python<'_>, dtype: DType) -> PyResult<Bound<'_, PyArrayDescr>> {
    static BFLOAT16: PyOnceLock<Py<PyArrayDescr>> = PyOnceLock::new();
    match dtype {
        DType::Float32 => Ok(numpy::dtype::<f32>(py)),
        DType::Float64 => Ok(numpy::dtype::<f64>(py)),
        DType::Float16 => PyArrayDescr::new(py, "float16"),
        DType::BFloat16 => BFLOAT16
            .get_or_try_init(py, || {
                let class =
                    py.import("ml_dtypes").and_then(|module| module.getattr("bfloat16")).map_err(|failure| {
                        let message =
                            "bfloat16: got no ml_dtypes, takes numpy's bfloat16 from it: pip install ml_dtypes";
                        let error = errors::new(py, "DTypeError", message);
                        error.set_cause(py, Some(failure));
                        error
                    })?;
                Ok(PyArrayDescr::new(py, class)?.unbind())
            })
            .map(|descriptor| descriptor.bind(py).clone()),
    }
}

/// A dtype given as a numpy dtype, a scalar class or a name.
pub fn parse_dtype(operator: &str, object: &Bound<'_, PyAny>) -> PyResult<DType> {
    let py = object.py();
    if let Ok(name) = object.extract::<String>()
        && let Ok(dtype) = name.parse()
    {
        return Ok(dtype);
    }
    let descriptor = PyArrayDescr::new(py, object.clone()).ok();
    let known = descriptor.as_ref().and_then(|d| dtype_of_number(d.num()).or_else(|| bfloat16_of(d)));
    known.ok_or_else(|| {
        let message = format!("{operator}: dtype: got {object}, takes float16, bfloat16, float32 or float64");
        errors::new(py, "DTypeError", message)
    })
}

/// Where an array's elements are. Read from numpy's own record, which a subclass cannot lie about.
pub fn parts_of(array: &Bound<'_, PyUntypedArray>, dtype: DType) -> Parts {
    Parts {
        pointer: data_of(array),
        kind: TensorType::new(array.shape(), dtype),
        strides: Strides::from_slice(array.strides()),
        device: Device::Cpu,
    }
}

/// Where an array's memory begins.
pub fn data_of(array: &Bound<'_, PyUntypedArray>) -> *mut u8 {
    // SAFETY: the array object is alive. Its record is read under the interpreter's lock; without one, whoever changes an
    // array's shape or memory while another thread uses it breaks numpy's own rule.
    unsafe { (*_PyArray_GET_ITEM_DATA(array.as_array_ptr())).data.cast() }
}

/// Whether an array's elements are still where these parts, once taken from it, say.
pub fn is_at(array: &Bound<'_, PyUntypedArray>, parts: &Parts) -> bool {
    data_of(array) == parts.pointer && array.shape() == &parts.kind.shape[..] && array.strides() == &parts.strides[..]
}

/// Whether an array may be written to.
pub fn is_writeable(array: &Bound<'_, PyUntypedArray>) -> bool {
    // SAFETY: as in `data_of`.
    unsafe { (*_PyArray_GET_ITEM_DATA(array.as_array_ptr())).flags & npyffi::NPY_ARRAY_WRITEABLE != 0 }
}

/// Keeps pooled memory alive as the base of an array.
#[pyclass(frozen, module = "firelu._firelu", name = "Memory")]
struct Memory {
    _block: Block,
}

/// A new, uninitialised array: small ones from numpy's own allocator, large ones from the pool.
pub fn new_array<'py>(py: Python<'py>, kind: &TensorType, strides: &Strides) -> PyResult<Bound<'py, PyUntypedArray>> {
    let (bytes, descriptor) = (kind.bytes(), descriptor(py, kind.dtype)?);
    if bytes < POOLED_BYTES && is_row_major(&kind.shape, strides, kind.dtype.size()) {
        return wrap(descriptor, &kind.shape, None, std::ptr::null_mut());
    }
    pooled(descriptor, &kind.shape, Some(strides), bytes)
}

/// As [`new_array`], in numpy's order and of any type that has no objects.
pub fn new_array_of<'py>(
    descriptor: Bound<'py, PyArrayDescr>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    // More than can be counted is more than there is: the pool refuses it.
    let bytes = shape.iter().fold(descriptor.itemsize(), |bytes, &length| bytes.saturating_mul(length));
    if bytes < POOLED_BYTES || shape.contains(&0) {
        return wrap(descriptor, shape, None, std::ptr::null_mut());
    }
    pooled(descriptor, shape, None, bytes)
}

/// An array over a block of the pool. Without strides it has numpy's order.
fn pooled<'py>(
    descriptor: Bound<'py, PyArrayDescr>,
    shape: &[usize],
    strides: Option<&Strides>,
    bytes: usize,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = descriptor.py();
    let block = Block::new(bytes).map_err(errors::raise)?;
    let pointer = block.pointer();
    let array = wrap(descriptor, shape, strides, pointer)?;
    set_base(&array, Bound::new(py, Memory { _block: block })?.into_any())?;
    Ok(array)
}

/// An array over memory that `owner` keeps alive.
pub fn array_over<'py>(parts: &Parts, owner: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let descriptor = descriptor(owner.py(), parts.kind.dtype)?;
    let array = wrap(descriptor, &parts.kind.shape, Some(&parts.strides), parts.pointer)?;
    set_base(&array, owner)?;
    Ok(array)
}

fn wrap<'py>(
    descriptor: Bound<'py, PyArrayDescr>,
    shape: &[usize],
    strides: Option<&Strides>,
    data: *mut u8,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = descriptor.py();
    let mut dims: SmallVec<[npy_intp; 6]> = SmallVec::new();
    for &n in shape {
        dims.push(n as npy_intp);
    }
    let mut steps: Option<Strides> = strides.cloned();
    let steps = steps.as_mut().map_or(std::ptr::null_mut(), |steps| steps.as_mut_ptr());
    let flags = if data.is_null() { 0 } else { npyffi::NPY_ARRAY_WRITEABLE };
    // SAFETY: numpy copies dims and strides, takes over the reference to the descriptor, and either
    // allocates (null data) or uses memory that the caller's owner keeps alive.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type),
            descriptor.into_dtype_ptr(),
            dims.len() as c_int,
            dims.as_mut_ptr(),
            steps,
            data.cast::<c_void>(),
            flags,
            std::ptr::null_mut(),
        );
        Ok(Bound::from_owned_ptr_or_err(py, array)?.cast_into_unchecked())
    }
}

fn set_base(array: &Bound<'_, PyUntypedArray>, owner: Bound<'_, PyAny>) -> PyResult<()> {
    // SAFETY: the array is new and has no base; numpy takes over the reference to the owner.
    let status = unsafe { PY_ARRAY_API.PyArray_SetBaseObject(array.py(), array.as_array_ptr(), owner.into_ptr()) };
    if status == 0 { Ok(()) } else { Err(PyErr::fetch(array.py())) }
}

/// A shape as a Python tuple gives it.
pub fn parse_shape(operator: &str, object: &Bound<'_, PyAny>) -> PyResult<Shape> {
    let refuse = || {
        let message = format!("{operator}: shape: got {object}, takes a tuple of sizes that are not negative");
        errors::new(object.py(), "ShapeError", message)
    };
    let sizes: Vec<usize> = object.extract().map_err(|_| refuse())?;
    Ok(Shape::from(sizes))
}

/// Whether an object is a number rather than an array of one.
pub fn is_number(object: &Bound<'_, PyAny>) -> bool {
    !object.hasattr("__len__").unwrap_or(true)
        && !object.hasattr("ndim").unwrap_or(true)
        && object.extract::<f64>().is_ok()
        || object.is_instance_of::<pyo3::types::PyFloat>()
}
