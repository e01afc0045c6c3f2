//! The host's side of `cuda/include/parameters.cuh`, what kernels of several modules take: the same structs, field by
//! field, with the same sizes asserted. What those of one module take stands beside the code that launches them.
//! Addresses are `u64`, 0 where an operand is omitted; strides count elements.

use crate::core::dtype::DType;

/// Threads of every block.
pub const THREADS: u32 = 256;
/// Sixteen-byte vectors that one thread handles.
pub const VECTORS: u64 = 2;
/// Dimensions left after merging.
pub const MAX_RANK: usize = 8;
/// Elements that one block of a strided reduction adds.
pub const CHUNK: u64 = 8192;
/// Elements that one thread of a strided map handles.
pub const ELEMENTS: u64 = 4;

/// The number by which kernels know an element type.
pub const fn type_code(dtype: DType) -> i32 {
    match dtype {
        DType::Float16 => 0,
        DType::BFloat16 => 1,
        DType::Float32 => 2,
        DType::Float64 => 3,
    }
}

/// The end of a kernel's name that says its element type.
pub const fn suffix(dtype: DType) -> &'static str {
    match dtype {
        DType::Float16 => "f16",
        DType::BFloat16 => "bf16",
        DType::Float32 => "f32",
        DType::Float64 => "f64",
    }
}

/// A struct that a kernel takes by value.
///
/// # Safety
/// The struct must be `repr(C)`, without padding, and mirror one of `cuda/include`.
pub unsafe trait Parameters: Copy {}

/// Makes a struct that mirrors one of `cuda/include`, of so many bytes.
macro_rules! parameters {
    ($(#[$doc:meta])* $name:ident, $bytes:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy, Default)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }
        const _: () = assert!(size_of::<$name>() == $bytes && size_of::<$name>() == 0 $(+ size_of::<$type>())*);
        // SAFETY: `repr(C)`; the assertion above compares the size with the sum of the fields', so there is no
        // padding, and with the size that the header asserts.
        unsafe impl $crate::devices::cuda::parameters::Parameters for $name {}
    };
}
pub(crate) use parameters;

parameters!(
    /// Contiguous: `output[i] = f(inputs[0][i], inputs[1][i])`.
    MapParameters, 48 {
        /// Address of the result.
        output: u64,
        /// Addresses of the operands.
        inputs: [u64; 2],
        /// Elements.
        count: i64,
        /// What the kernel's formula takes them for, such as a slope or two limits.
        scalars: [f64; 2],
    }
);
parameters!(
    /// Sizes and strides of up to four operands over one index space, slowest dimension first.
    Layout, 400 {
        /// Elements.
        count: i64,
        /// Dimensions in use.
        rank: i64,
        /// Their lengths.
        sizes: [i64; MAX_RANK],
        /// Elements between neighbours, by operand.
        strides: [[i64; MAX_RANK]; 4],
        /// For division by the lengths where indices have 32 bits: `(index * magic) >> shift`.
        magics: [u32; MAX_RANK],
        /// See `magics`.
        shifts: [u32; MAX_RANK],
    }
);
parameters!(
    /// Any strides: operand 0 of the layout is the output, 1 and 2 are the inputs.
    StridedMapParameters, 440 {
        /// Address of the result.
        output: u64,
        /// Addresses of the operands.
        inputs: [u64; 2],
        /// What the kernel's formula takes them for, such as a slope or two limits.
        scalars: [f64; 2],
        /// Where elements are.
        layout: Layout,
    }
);
parameters!(
    /// `output[k] = factor * sum over m of partials[(m / inner) * outer_stride + m % inner + k * stride]`.
    FinishParameters, 64 {
        /// Address of the result.
        output: u64,
        /// Float64 sums.
        partials: u64,
        /// Sums of one result.
        count: i64,
        /// Sums that lie together.
        inner: i64,
        /// From one group of them to the next.
        outer_stride: i64,
        /// From one result's to the next one's.
        stride: i64,
        /// The factor.
        factor: f64,
        /// The result's type.
        output_type: i64,
    }
);

/// Asserts that a header gives its enumerators these values.
#[cfg(test)]
pub(crate) fn assert_constants(header: &str, constants: &[(&str, u64)]) {
    for (name, value) in constants {
        assert!(header.contains(&format!(" {name} = {value},")), "{name}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_are_those_of_the_header() {
        let constants = [
            ("THREADS", u64::from(THREADS)),
            ("VECTORS", VECTORS),
            ("MAX_RANK", MAX_RANK as u64),
            ("CHUNK", CHUNK),
            ("ELEMENTS", ELEMENTS),
        ];
        assert_constants(include_str!("../../../cuda/include/parameters.cuh"), &constants);
    }
}
