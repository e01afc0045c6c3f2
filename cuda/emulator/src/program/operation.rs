//! The decoded form of a kernel.

use super::forms::{Comparison, Form};
use crate::ptx::{Parameter, Space, Type};

/// Index of a register in a warp's file.
pub type Slot = u16;

/// A predicate register and whether it is negated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guard {
    /// Index of the predicate.
    pub predicate: Slot,
    /// Whether the instruction runs where the predicate is false.
    pub negated: bool,
}

/// The operation between predicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are PTX's own")]
pub enum Logic {
    And,
    Or,
    Xor,
}

/// How a comparison joins with a second predicate.
pub type Combine = Option<(Logic, Guard)>;

/// The mode of a shuffle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are PTX's own")]
pub enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

/// The mode of a vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are PTX's own")]
pub enum Vote {
    All,
    Any,
    Uniform,
    Ballot,
}

/// A special register.
#[derive(Debug, Clone, Copy)]
pub enum Special {
    /// `%tid` along one axis.
    Thread(usize),
    /// `%ntid` along one axis.
    BlockExtent(usize),
    /// `%ctaid` along one axis.
    Block(usize),
    /// `%nctaid` along one axis.
    GridExtent(usize),
    /// `%laneid`.
    Lane,
    /// `%warpid`.
    Warp,
    /// `%lanemask_eq` and its kin: the function of a lane.
    LaneMask(fn(u32) -> u32),
}

/// What a memory address is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressBase {
    /// A register per lane.
    Register(Slot),
    /// The same address in every lane.
    Absolute,
}

/// One load or store.
#[derive(Debug, Clone, Copy)]
pub struct Access {
    /// State space.
    pub space: Space,
    /// Type of each element.
    pub kind: Type,
    /// Elements: 1, 2 or 4.
    pub count: u8,
    /// One register per element; `None` for a sink.
    pub registers: [Option<Slot>; 4],
    /// Width masks of the registers.
    pub masks: [u64; 4],
    /// What the address is relative to.
    pub base: AddressBase,
    /// Added to the base.
    pub offset: u64,
    /// `.nc`: the memory must stay unwritten during the launch.
    pub noncoherent: bool,
}

impl Access {
    /// Bytes of the whole access.
    pub fn bytes(&self) -> usize {
        self.kind.bytes() * usize::from(self.count)
    }
}

/// What one step does.
#[allow(missing_docs, reason = "the fields are the operands that PTX names")]
#[derive(Clone, Copy)]
pub enum Operation {
    /// Arithmetic on registers.
    Arithmetic { form: Form, destination: Slot, mask: u64, sources: [Slot; 4] },
    /// `setp`: a comparison into one or two predicates.
    Compare {
        comparison: Comparison,
        destination: Slot,
        complement: Option<Slot>,
        sources: [Slot; 2],
        combine: Combine,
    },
    /// `set`: a comparison into a register, with the value that stands for true.
    Set { comparison: Comparison, destination: Slot, truth: u64, sources: [Slot; 2], combine: Combine },
    /// `selp`.
    Select { destination: Slot, sources: [Slot; 2], condition: Guard },
    /// Logic between predicates; `mov` and `not` are an `or` with itself.
    Predicate { logic: Logic, destination: Slot, sources: [Guard; 2] },
    /// `mov` from a vector into one register, elements of the given bits.
    Pack { destination: Slot, sources: [Slot; 4], count: u8, bits: u8 },
    /// `mov` from one register into a vector.
    Unpack { destinations: [Option<Slot>; 4], source: Slot, count: u8, bits: u8 },
    /// A load from memory.
    Load(Access),
    /// A store to memory.
    Store(Access),
    /// `shfl.sync`.
    Shuffle {
        mode: Shuffle,
        destination: Slot,
        found: Option<Slot>,
        value: Slot,
        lane: Slot,
        clamp: Slot,
        members: Slot,
    },
    /// `vote.sync`; a ballot answers in a register, the others in a predicate.
    Vote { mode: Vote, destination: Slot, condition: Guard, members: Slot },
    /// `activemask`.
    ActiveMask { destination: Slot },
    /// `bar.sync` of the whole block.
    Barrier,
    /// `bar.warp.sync`.
    WarpBarrier { members: Slot },
    /// `membar`, `fence`: orders nothing by itself without atomics.
    Fence,
    /// A branch and the step where its two sides meet again.
    Branch { target: u32, meet: u32 },
    /// `ret` or `exit`.
    Exit,
}

/// The kinds instructions are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Kind {
    Integer,
    Float,
    Convert,
    Move,
    Compare,
    Load,
    Store,
    Shuffle,
    Barrier,
    Branch,
}

impl Kind {
    /// Every kind with its name in the counters.
    pub const ALL: [(Kind, &'static str); 10] = [
        (Kind::Integer, "integer"),
        (Kind::Float, "float"),
        (Kind::Convert, "convert"),
        (Kind::Move, "move"),
        (Kind::Compare, "compare"),
        (Kind::Load, "load"),
        (Kind::Store, "store"),
        (Kind::Shuffle, "shuffle"),
        (Kind::Barrier, "barrier"),
        (Kind::Branch, "branch"),
    ];
}

/// One instruction ready to run.
#[derive(Clone, Copy)]
pub struct Step {
    /// What it does.
    pub operation: Operation,
    /// Where it does it.
    pub guard: Option<Guard>,
    /// Line of the PTX text.
    pub line: u32,
    /// What it counts as.
    pub kind: Kind,
}

/// A shared variable and its place in the block's shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedVariable {
    /// Its name.
    pub name: String,
    /// First byte.
    pub start: u64,
    /// Size in bytes; `None` is decided by the launch.
    pub size: Option<u64>,
}

/// A kernel ready to run.
pub struct Program {
    /// Its name.
    pub name: String,
    /// The steps; the last one ends the thread.
    pub steps: Vec<Step>,
    /// Slots that the steps write, before the constants.
    pub registers: usize,
    /// The bits that each of these holds.
    pub widths: Vec<u64>,
    /// Constants, in the slots that follow.
    pub constants: Vec<u64>,
    /// Special registers, in the slots that follow those.
    pub specials: Vec<Special>,
    /// Predicate registers.
    pub predicates: usize,
    /// Parameters in order.
    pub parameters: Vec<Parameter>,
    /// Shared variables, with gaps between them that belong to none.
    pub shared: Vec<SharedVariable>,
    /// Bytes the static variables take on a device, without the gaps.
    pub static_shared: u64,
    /// `.reqntid`.
    pub required_threads: Option<[u32; 3]>,
    /// `.maxntid`, as a product.
    pub maximum_threads: Option<u64>,
}

impl Program {
    /// Bytes of the parameter buffer.
    pub fn parameter_bytes(&self) -> usize {
        self.parameters.last().map_or(0, |parameter| parameter.offset + parameter.size)
    }
}
