//! No read or write outside the buffers: every array of a call stands against an unmapped page, first
//! with its end, then with its start, at every level, for every element type and many row lengths.
#![cfg(unix)]

use firelu::{DType, Device, Tensor, UpFirDn2dArgs, registry};
use firelu_test_support::guarded::{Side, guarded};
use firelu_test_support::layouts::Layout::{self, ChannelsLast, RowMajor};
use firelu_test_support::levels::every_level;

/// Runs an operator into a guarded output, as `out=` does.
fn run(name: &str, inputs: &[&Tensor], args: &UpFirDn2dArgs, layout: Layout, side: Side) -> Tensor {
    let operator = registry::find(name).unwrap();
    let args = operator.schema.resolve_args(args.named()).unwrap();
    let types: Vec<_> = inputs.iter().map(|input| Some(input.kind())).collect();
    let kind = operator.schema.infer(&types, &args).unwrap().remove(0);
    let mut output = guarded(kind.dtype, &kind.shape, layout, side);
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
    for _ in every_level() {
        for dtype in DType::ALL {
            for width in (1..36).chain([63, 64, 65, 100]) {
                for &(args, taps) in &cases {
                    for (separable, side, layout) in [
                        (true, Side::End, RowMajor),
                        (true, Side::Start, RowMajor),
                        (false, Side::End, RowMajor),
                        (false, Side::Start, RowMajor),
                        (true, Side::End, ChannelsLast),
                        (true, Side::Start, ChannelsLast),
                    ] {
                        let shape = if layout == ChannelsLast { [1, width, 5, 6] } else { [1, 2, 6, width] };
                        let mut k = vec![1f32; taps * taps];
                        k[1] = if separable { 1.0 } else { 2.0 };
                        let k = Tensor::from_vec([taps, taps], k).unwrap();
                        let x = guarded(dtype, &shape, layout, side);
                        let types = [Some(x.kind()), Some(k.kind())];
                        let operator = registry::find("UpFirDn2d").unwrap();
                        let resolved = operator.schema.resolve_args(args.named()).unwrap();
                        if operator.schema.infer(&types, &resolved).is_err() {
                            continue; // Cropped to less than the kernel.
                        }
                        let dy = run("UpFirDn2d", &[&x, &k], &args, layout, side);
                        run("UpFirDn2dGradient", &[&dy, &k, &x], &args, layout, side);
                        run("UpFirDn2dKernelGradient", &[&x, &dy, &k], &args, RowMajor, side);
                    }
                }
            }
        }
    }
}
