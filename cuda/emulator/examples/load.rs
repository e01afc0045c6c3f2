//! Loads PTX files as the driver would and says what each kernel is: `cargo run --example load -- FILE…`.

use cuda_emulator::program::decode;
use cuda_emulator::ptx::parse;
use std::collections::HashMap;

fn main() {
    let mut refused = 0;
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let module = match parse(&text) {
            Ok(module) => module,
            Err(error) => {
                println!("{path}: refused: {error}");
                refused += 1;
                continue;
            }
        };
        // Addresses do not matter for the question whether a kernel is understood.
        let globals: HashMap<String, u64> =
            module.variables.iter().map(|variable| (variable.name.clone(), 0)).collect();
        for kernel in &module.kernels {
            match decode(&module, kernel, &globals) {
                Ok(program) => println!("{path}: {}: {} instructions", kernel.name, program.steps.len()),
                Err(error) => {
                    println!("{path}: {}: refused: {error}", kernel.name);
                    refused += 1;
                }
            }
        }
    }
    std::process::exit(i32::from(refused > 0));
}
