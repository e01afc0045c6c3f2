//! Operands to slots: registers, constants, special registers and symbols.

use super::operation::{Guard, SharedVariable, Slot, Special};
use crate::ptx::{Instruction, Kernel, Literal, Operand, Parameter, ParseError, Type};
use std::collections::HashMap;

/// Bytes between shared variables, so that running out of one never lands in another; a multiple of all banks.
const SHARED_GAP: u64 = 128;

/// Everything a kernel's operands can name.
pub struct Names<'a> {
    kernel: &'a Kernel,
    /// Slot of each register in its own file (data or predicate).
    slots: Vec<Slot>,
    registers: usize,
    predicates: usize,
    constants: Vec<u64>,
    specials: Vec<(String, Special)>,
    shared: Vec<SharedVariable>,
    static_shared: u64,
    globals: &'a HashMap<String, u64>,
}

/// What remains of the names once every operand is a slot.
pub struct Files {
    pub registers: usize,
    pub widths: Vec<u64>,
    pub predicates: usize,
    pub constants: Vec<u64>,
    pub specials: Vec<Special>,
    pub shared: Vec<SharedVariable>,
    pub static_shared: u64,
}

/// A data operand before the number of constants is known.
#[derive(Debug, Clone, Copy)]
pub enum Source {
    Register(Slot),
    Constant(usize),
    Special(usize),
}

impl<'a> Names<'a> {
    pub fn new(kernel: &'a Kernel, module_shared: &[crate::ptx::Variable], globals: &'a HashMap<String, u64>) -> Self {
        let (mut registers, mut predicates) = (0, 0);
        let slots = kernel
            .registers
            .iter()
            .map(|&kind| {
                let counter = if kind == Type::Pred { &mut predicates } else { &mut registers };
                *counter += 1;
                (*counter - 1) as Slot
            })
            .collect();
        let mut names = Self {
            kernel,
            slots,
            registers,
            predicates,
            constants: vec![0],
            specials: Vec::new(),
            shared: Vec::new(),
            static_shared: 0,
            globals,
        };
        names.place_shared(module_shared);
        names
    }

    /// Static variables first, the launch's own array last.
    fn place_shared(&mut self, module_shared: &[crate::ptx::Variable]) {
        let mut start = 0;
        let variables = || self.kernel.shared.iter().chain(module_shared);
        for variable in variables() {
            let Some(size) = variable.size else { continue };
            self.static_shared = self.static_shared.next_multiple_of(variable.align.max(1)) + size;
            let name = variable.name.clone();
            self.shared.push(SharedVariable { name, start, size: Some(size) });
            start = (start + size).next_multiple_of(SHARED_GAP) + SHARED_GAP;
        }
        for variable in variables().filter(|variable| variable.size.is_none()) {
            self.shared.push(SharedVariable { name: variable.name.clone(), start, size: None });
        }
    }

    pub fn finish(self) -> Files {
        let data = self.kernel.registers.iter().filter(|&&kind| kind != Type::Pred);
        Files {
            registers: self.registers,
            widths: data.map(|kind| u64::MAX >> (64 - 8 * kind.bytes())).collect(),
            predicates: self.predicates,
            constants: self.constants,
            specials: self.specials.into_iter().map(|(_, special)| special).collect(),
            shared: self.shared,
            static_shared: self.static_shared,
        }
    }

    /// The final slot of a source: registers, then constants, then special registers.
    pub fn slot(&self, source: Source) -> Slot {
        (match source {
            Source::Register(slot) => return slot,
            Source::Constant(index) => self.registers + index,
            Source::Special(index) => self.registers + self.constants.len() + index,
        }) as Slot
    }

    pub fn constant(&mut self, value: u64) -> Source {
        let index = self.constants.iter().position(|&constant| constant == value).unwrap_or_else(|| {
            self.constants.push(value);
            self.constants.len() - 1
        });
        Source::Constant(index)
    }

    pub fn label(&self, operand: &Operand, line: u32) -> Result<usize, ParseError> {
        if let Operand::Symbol(name) = operand
            && let Some((_, index)) = self.kernel.labels.iter().find(|(label, _)| label == name)
        {
            return Ok(*index);
        }
        Err(ParseError::new(line, format!("{operand:?} is not a label of this kernel")))
    }

    pub fn symbol(&self, name: &str) -> Option<u64> {
        let shared = self.shared.iter().find(|variable| variable.name == name).map(|variable| variable.start);
        shared.or_else(|| self.globals.get(name).copied())
    }

    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.kernel.parameters.iter().find(|parameter| parameter.name == name)
    }

    pub fn register_type(&self, register: u32) -> Type {
        self.kernel.registers[register as usize]
    }

    /// A data register that holds `kind`, or something wider where the instruction allows it.
    pub fn data_register(&self, register: u32, kind: Type, widens: bool, line: u32) -> Result<Slot, ParseError> {
        let declared = self.register_type(register);
        let fits = if widens { declared.bytes() >= kind.bytes() } else { declared.bytes() == kind.bytes() };
        if declared == Type::Pred || !fits {
            let message = format!("a register of type {declared:?} where {kind:?} belongs");
            return Err(ParseError::new(line, message));
        }
        Ok(self.slots[register as usize])
    }

    pub fn destination(
        &self,
        operand: &Operand,
        kind: Type,
        widens: bool,
        line: u32,
    ) -> Result<(Slot, u64), ParseError> {
        match operand {
            &Operand::Register(register) => {
                let slot = self.data_register(register, kind, widens, line)?;
                Ok((slot, self.register_type(register).mask()))
            }
            _ => Err(ParseError::new(line, format!("{operand:?} cannot be written"))),
        }
    }

    pub fn source(&mut self, operand: &Operand, kind: Type, widens: bool, line: u32) -> Result<Source, ParseError> {
        match operand {
            &Operand::Register(register) => self.data_register(register, kind, widens, line).map(Source::Register),
            Operand::Literal(literal) => {
                let value = literal_bits(*literal, kind)
                    .ok_or_else(|| ParseError::new(line, format!("{literal:?} is no value of type {kind:?}")))?;
                Ok(self.constant(value))
            }
            Operand::Special(name) => {
                let (special, width) = special_register(name)
                    .ok_or_else(|| ParseError::new(line, format!("special register `{name}` is not supported")))?;
                if width != kind.bytes() && !(widens && width > kind.bytes()) {
                    return Err(ParseError::new(line, format!("`{name}` has {width} bytes where {kind:?} belongs")));
                }
                let index = self.specials.iter().position(|(other, _)| other == name).unwrap_or_else(|| {
                    self.specials.push((name.clone(), special));
                    self.specials.len() - 1
                });
                Ok(Source::Special(index))
            }
            Operand::Symbol(name) if kind.bytes() == 8 => match self.symbol(name) {
                Some(address) => Ok(self.constant(address)),
                None => Err(ParseError::new(line, format!("symbol `{name}` is not declared"))),
            },
            _ => Err(ParseError::new(line, format!("{operand:?} cannot be read as {kind:?}"))),
        }
    }

    pub fn predicate(&self, operand: &Operand, line: u32) -> Result<Guard, ParseError> {
        match *operand {
            Operand::Register(register) => self.guard(register, false, line),
            Operand::Negated(register) => self.guard(register, true, line),
            _ => Err(ParseError::new(line, format!("{operand:?} is not a predicate"))),
        }
    }

    pub fn guard(&self, register: u32, negated: bool, line: u32) -> Result<Guard, ParseError> {
        if self.register_type(register) != Type::Pred {
            return Err(ParseError::new(line, "a data register where a predicate belongs"));
        }
        Ok(Guard { predicate: self.slots[register as usize], negated })
    }

    pub fn operands<'i, const N: usize>(&self, instruction: &'i Instruction) -> Result<&'i [Operand; N], ParseError> {
        instruction.operands.as_slice().try_into().map_err(|_| {
            let (mnemonic, found) = (&instruction.mnemonic, instruction.operands.len());
            ParseError::new(instruction.line, format!("`{mnemonic}` takes {N} operands, found {found}"))
        })
    }
}

fn literal_bits(literal: Literal, kind: Type) -> Option<u64> {
    match literal {
        Literal::Single(bits) if kind.bytes() == 4 => Some(bits.into()),
        Literal::Double(bits) if kind.bytes() == 8 => Some(bits),
        // Compilers print constants of narrow types sign- or zero-extended; the type decides the bits.
        Literal::Integer(value) if !kind.is_float() => Some(value as u64 & kind.mask()),
        _ => None,
    }
}

/// The special register of a name, and its width in bytes.
fn special_register(name: &str) -> Option<(Special, usize)> {
    let axis = |suffix: &str| ["x", "y", "z"].iter().position(|&axis| axis == suffix);
    let special = match name.split_once('.') {
        Some(("%tid", suffix)) => Special::Thread(axis(suffix)?),
        Some(("%ntid", suffix)) => Special::BlockExtent(axis(suffix)?),
        Some(("%ctaid", suffix)) => Special::Block(axis(suffix)?),
        Some(("%nctaid", suffix)) => Special::GridExtent(axis(suffix)?),
        Some(_) => return None,
        None => match name {
            "%laneid" => Special::Lane,
            "%warpid" => Special::Warp,
            "%lanemask_eq" => Special::LaneMask(|lane| 1 << lane),
            "%lanemask_lt" => Special::LaneMask(|lane| (1 << lane) - 1),
            "%lanemask_le" => Special::LaneMask(|lane| (1 << lane) | ((1 << lane) - 1)),
            "%lanemask_gt" => Special::LaneMask(|lane| !((1 << lane) | ((1 << lane) - 1))),
            "%lanemask_ge" => Special::LaneMask(|lane| !((1 << lane) - 1)),
            _ => return None,
        },
    };
    Some((special, 4))
}
