//! Gives the shared library the driver's own name, so that a loader that looks for `libcuda.so` takes it.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so");
}
