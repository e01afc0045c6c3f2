//! No read or write outside the buffers: every array of a call stands against an unmapped page, first
//! with its end, then with its start, at every level, for every element type and many row lengths.
#![cfg(unix)]

use firelu::core::tensor::Storage;
use firelu::devices::cpu::features::Level;
use firelu::{DType, Device, Tensor, TensorType, UpFirDn2dArgs, registry};
use std::sync::Arc;

/// Readable and writable pages between two that are neither.
struct Guarded {
    base: *mut u8,
    mapped: usize,
    start: *mut u8,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone.
unsafe impl Send for Guarded {}
// SAFETY: as above.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn new(bytes: usize, at_end: bool) -> Self {
        // SAFETY: asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let inner = bytes.max(1).next_multiple_of(page);
        let mapped = inner + 2 * page;
        // SAFETY: a fresh anonymous mapping, of which the inner pages are then made usable.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let base = libc::mmap(std::ptr::null_mut(), mapped, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            let base = base.cast::<u8>();
            assert_eq!(libc::mprotect(base.add(page).cast(), inner, libc::PROT_READ | libc::PROT_WRITE), 0);
            let start = base.add(page + if at_end { inner - bytes } else { 0 });
            start.write_bytes(0x3c, bytes);
            Guarded { base, mapped, start, bytes }
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: `new` made exactly this mapping.
        unsafe { libc::munmap(self.base.cast(), self.mapped) };
    }
}

impl Storage for Guarded {
    fn pointer(&self) -> *mut u8 {
        self.start
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn device(&self) -> Device {
        Device::Cpu
    }
}

fn guarded(shape: &[usize], dtype: DType, channels_last: bool, at_end: bool) -> Tensor {
    let kind = TensorType::new(shape, dtype);
    let like: Vec<isize> = match shape {
        [n, c, h, w] if channels_last => [n * c * h * w, 1, w * c, *c].iter().map(|&s| s as isize).collect(),
        _ => kind.shape.row_major_strides(dtype).to_vec(),
    };
    let strides = kind.shape.strides_like(&like, dtype);
    let bytes = kind.bytes();
    Tensor::from_storage(Arc::new(Guarded::new(bytes, at_end)), 0, kind, strides).unwrap()
}

/// Runs an operator into a guarded output, as `out=` does.
fn run(name: &str, inputs: &[&Tensor], args: &UpFirDn2dArgs, channels_last: bool, at_end: bool) -> Tensor {
    let operator = registry::find(name).unwrap();
    let args = operator.schema.resolve_args(args.named()).unwrap();
    let types: Vec<_> = inputs.iter().map(|input| Some(input.kind())).collect();
    let kind = operator.schema.infer(&types, &args).unwrap().remove(0);
    let mut output = guarded(&kind.shape, kind.dtype, channels_last, at_end);
    let views: Vec<_> = inputs.iter().map(|input| Some(input.view())).collect();
    let outputs = [Some(output.view_mut().unwrap())];
    let stream = Default::default();
    operator.kernel(Device::Cpu).unwrap()(&firelu::Call { inputs: &views, outputs: &outputs, args: &args, stream })
        .unwrap();
    drop(outputs);
    output
}

#[test]
fn nothing_outside_the_buffers_is_touched() {
    let square = |up, down, pad| UpFirDn2dArgs {
        up: (up, up),
        down: (down, down),
        pad_x: pad,
        pad_y: pad,
        ..Default::default()
    };
    let cases = [
        (square(1, 1, (2, 1)), 4),
        (square(1, 1, (0, 0)), 2),
        (square(1, 1, (-1, -1)), 3),
        (square(2, 1, (2, 1)), 4),
        (square(1, 2, (1, 1)), 4),
        (square(3, 1, (2, 2)), 5),
        (square(1, 3, (2, 2)), 5),
        (square(4, 2, (3, 3)), 6),
        (square(1, 4, (3, 3)), 8),
        (square(5, 1, (4, 4)), 7),
    ];
    for &level in Level::available() {
        Level::set_current(level).unwrap();
        for dtype in DType::ALL {
            for width in (1..36).chain([63, 64, 65, 100]) {
                for &(args, taps) in &cases {
                    for (separable, at_end, channels_last) in [
                        (true, true, false),
                        (true, false, false),
                        (false, true, false),
                        (false, false, false),
                        (true, true, true),
                        (true, false, true),
                    ] {
                        let shape = if channels_last { [1, width, 5, 6] } else { [1, 2, 6, width] };
                        let mut k = vec![1f32; taps * taps];
                        k[1] = if separable { 1.0 } else { 2.0 };
                        let k = Tensor::from_vec([taps, taps], k).unwrap();
                        let x = guarded(&shape, dtype, channels_last, at_end);
                        let types = [Some(x.kind()), Some(k.kind())];
                        let operator = registry::find("UpFirDn2d").unwrap();
                        let resolved = operator.schema.resolve_args(args.named()).unwrap();
                        if operator.schema.infer(&types, &resolved).is_err() {
                            continue; // Cropped to less than the kernel.
                        }
                        let dy = run("UpFirDn2d", &[&x, &k], &args, channels_last, at_end);
                        run("UpFirDn2dGradient", &[&dy, &k, &x], &args, channels_last, at_end);
                        run("UpFirDn2dKernelGradient", &[&x, &dy, &k], &args, false, at_end);
                    }
                }
            }
        }
    }
}
