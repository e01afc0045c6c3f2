//! The syntax tree of a PTX module.

use std::fmt;

/// A PTX text that is malformed, or that uses something outside the emulator's knowledge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Line of the PTX text, counted from 1.
    pub line: u32,
    /// What was met and why it is refused.
    pub message: String,
}

impl ParseError {
    /// An error at one line.
    pub fn new(line: u32, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PTX line {}: {}", self.line, self.message)
    }
}

/// A fundamental type of PTX.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are PTX's own")]
pub enum Type {
    Pred,
    B8,
    B16,
    B32,
    B64,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F32,
    F64,
}

impl Type {
    /// The type a PTX suffix names (without the dot).
    pub fn from_suffix(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "pred" => Self::Pred,
            "b8" => Self::B8,
            "b16" => Self::B16,
            "b32" => Self::B32,
            "b64" => Self::B64,
            "u8" => Self::U8,
            "u16" => Self::U16,
            "u32" => Self::U32,
            "u64" => Self::U64,
            "s8" => Self::S8,
            "s16" => Self::S16,
            "s32" => Self::S32,
            "s64" => Self::S64,
            "f16" => Self::F16,
            "f32" => Self::F32,
            "f64" => Self::F64,
            _ => return None,
        })
    }

    /// Size in bytes; predicates have none and count as zero.
    pub fn bytes(self) -> usize {
        match self {
            Self::Pred => 0,
            Self::B8 | Self::U8 | Self::S8 => 1,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 => 2,
            Self::B32 | Self::U32 | Self::S32 | Self::F32 => 4,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 8,
        }
    }

    /// Whether a value of this type widens with its sign.
    pub fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    /// Whether immediates of this type are written as bit patterns of a float.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64)
    }

    /// The bits a register of this type may hold.
    pub fn mask(self) -> u64 {
        match self.bytes() {
            8 => u64::MAX,
            bytes => (1 << (8 * bytes)) - 1,
        }
    }
}

/// A state space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are PTX's own")]
pub enum Space {
    Generic,
    Global,
    Shared,
    Param,
    Const,
}

/// A number as written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Literal {
    /// Decimal, hexadecimal, octal or binary integer; negative ones are two's complement.
    Integer(i128),
    /// `0f` followed by eight hexadecimal digits.
    Single(u32),
    /// `0d` followed by sixteen hexadecimal digits.
    Double(u64),
}

/// What an address is relative to.
#[derive(Debug, Clone, PartialEq)]
pub enum Base {
    /// A register.
    Register(u32),
    /// A variable or kernel parameter.
    Symbol(String),
    /// Nothing: the offset is the address.
    Absolute,
}

/// One operand of an instruction.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// A register, by its index in [`Kernel::registers`].
    Register(u32),
    /// A predicate register used with `!`.
    Negated(u32),
    /// `destination|predicate`.
    Pair(Box<Operand>, Box<Operand>),
    /// A number.
    Literal(Literal),
    /// A special register such as `%tid.x`.
    Special(String),
    /// `[base+offset]`.
    Address(Base, i64),
    /// A label or the address of a variable.
    Symbol(String),
    /// `{a, b, …}`.
    Vector(Vec<Operand>),
    /// `_`: the value is not wanted.
    Sink,
}

/// One instruction with its names resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Instruction {
    /// Line of the PTX text.
    pub line: u32,
    /// Predicate register and whether it is negated.
    pub guard: Option<(u32, bool)>,
    /// The mnemonic with all its modifiers, such as `add.rn.f32`.
    pub mnemonic: String,
    /// Operands in written order.
    pub operands: Vec<Operand>,
}

/// A variable in global, constant or shared memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Where it lives.
    pub space: Space,
    /// Alignment in bytes.
    pub align: u64,
    /// Size in bytes; `None` for an `.extern .shared` array whose size the launch decides.
    pub size: Option<u64>,
    /// Initial bytes; empty means not initialised.
    pub initial: Vec<u8>,
}

/// One parameter of a kernel and its place in the parameter buffer.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Size in bytes.
    pub size: usize,
    /// Offset in the parameter buffer.
    pub offset: usize,
}

/// One `.entry`.
#[derive(Debug, Clone, Default)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Parameters in order.
    pub parameters: Vec<Parameter>,
    /// `.reqntid`.
    pub required_threads: Option<[u32; 3]>,
    /// `.maxntid`, as a product.
    pub maximum_threads: Option<u64>,
    /// The type of each register.
    pub registers: Vec<Type>,
    /// Shared variables declared inside the body.
    pub shared: Vec<Variable>,
    /// The instructions in order.
    pub instructions: Vec<Instruction>,
    /// Labels and the instruction index they stand before.
    pub labels: Vec<(String, usize)>,
}

/// One module.
#[derive(Debug, Clone, Default)]
pub struct Module {
    /// `.version`.
    pub version: (u32, u32),
    /// `.target sm_NN` as NN.
    pub target: u32,
    /// Variables at module scope.
    pub variables: Vec<Variable>,
    /// Kernels in order.
    pub kernels: Vec<Kernel>,
}
