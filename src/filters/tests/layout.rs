//! Tensors as planes of rows.

use firelu_core::device::Device;
use firelu_core::dtype::DType;
use firelu_core::tensor::{Parts, TensorType};
use firelu_filters::plan::layout::Layout;

fn parts(shape: &[usize], strides: &[isize]) -> Parts {
    Parts {
        pointer: std::ptr::null_mut(),
        kind: TensorType::new(shape, DType::Float32),
        strides: strides.into(),
        device: Device::Cpu,
    }
}

#[test]
fn dense_leading_dimensions_become_one() {
    let a = parts(&[2, 3, 4, 5], &[240, 80, 20, 4]);
    let b = parts(&[2, 3, 1, 2], &[24, 8, 8, 4]);
    let layout = Layout::new(&a, &b);
    assert_eq!((layout.planes, layout.pixel, layout.plane_strides()), (6, 1, Some((80, 8))));
    assert_eq!(layout.offsets(5), (400, 40));
    assert_eq!(Layout::new(&parts(&[4, 5], &[20, 4]), &parts(&[4, 5], &[20, 4])).planes, 1);
    assert_eq!(Layout::new(&parts(&[0, 4, 5], &[80, 20, 4]), &parts(&[0, 4, 5], &[80, 20, 4])).planes, 0);
}

#[test]
fn channels_last_rows_hold_all_channels() {
    let last = parts(&[2, 3, 4, 5], &[240, 4, 60, 12]);
    let layout = Layout::new(&last, &last);
    assert_eq!((layout.planes, layout.pixel, layout.first.dense), (2, 3, true));
    // One side of the pair in another order: plane by plane, with gaps between columns.
    let mixed = Layout::new(&last, &parts(&[2, 3, 4, 5], &[240, 80, 20, 4]));
    assert_eq!((mixed.planes, mixed.pixel, mixed.first.dense, mixed.second.dense), (6, 1, false, true));
    assert_eq!(mixed.offsets(4), (244, 320));
}
