//! The soak driver; it needs guard pages, which this crate makes on Unix alone.

#[cfg(unix)]
mod driver;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    driver::main()
}

#[cfg(not(unix))]
fn main() -> std::process::ExitCode {
    eprintln!("the soak runs on Linux and macOS");
    std::process::ExitCode::FAILURE
}
