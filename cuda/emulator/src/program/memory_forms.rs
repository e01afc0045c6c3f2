//! Loads and stores: `ld` and `st` in every space, with their modifiers.

use super::operands::{Names, Source};
use super::operation::{Access, AddressBase, Operation, Slot};
use crate::ptx::{Base, Instruction, Operand, ParseError, Space, Type};

/// A load or store whose constants have no slot yet.
pub struct Pending {
    access: Access,
    sources: [Option<Source>; 4],
    store: bool,
}

impl Pending {
    pub fn finish(self, names: &Names<'_>) -> Operation {
        let mut access = self.access;
        if !self.store {
            return Operation::Load(access);
        }
        access.registers = self.sources.map(|source| source.map(|source| names.slot(source)));
        Operation::Store(access)
    }
}

/// The modifiers of one mnemonic.
struct Modifiers {
    space: Space,
    kind: Type,
    count: u8,
    noncoherent: bool,
}

fn modifiers(mnemonic: &str) -> Option<Modifiers> {
    let mut parts = mnemonic.split('.');
    let load = parts.next()? == "ld";
    let (mut space, mut kind, mut count, mut noncoherent) = (Space::Generic, None, 1, false);
    for part in parts {
        match part {
            "global" => space = Space::Global,
            "shared" => space = Space::Shared,
            "param" if load => space = Space::Param,
            "const" if load => space = Space::Const,
            "nc" if load && space == Space::Global => noncoherent = true,
            // Cache hints and volatility change no value in a program without races.
            "ca" | "cg" | "cs" | "lu" | "cv" | "volatile" if load => {}
            "wb" | "cg" | "cs" | "wt" | "volatile" => {}
            "v2" => count = 2,
            "v4" => count = 4,
            _ if kind.is_none() => kind = Some(Type::from_suffix(part).filter(|&kind| kind != Type::Pred)?),
            _ => return None,
        }
    }
    let kind = kind?;
    (kind.bytes() * usize::from(count) <= 16).then_some(Modifiers { space, kind, count, noncoherent })
}

pub fn decode(names: &mut Names<'_>, instruction: &Instruction) -> Result<Pending, ParseError> {
    let line = instruction.line;
    let Some(Modifiers { space, kind, count, noncoherent }) = modifiers(&instruction.mnemonic) else {
        return Err(ParseError::new(line, format!("instruction `{}` is unknown", instruction.mnemonic)));
    };
    let store = instruction.mnemonic.starts_with("st");
    let [first, second] = names.operands(instruction)?;
    let (value, address) = if store { (second, first) } else { (first, second) };
    let Operand::Address(base, offset) = address else {
        return Err(ParseError::new(line, format!("{address:?} is not an address")));
    };
    let (base, offset) = match base {
        Base::Register(register) => {
            // Shared addresses may come in 32 bits; registers are zero-extended, so both read alike.
            let narrow = space == Space::Shared && names.register_type(*register).bytes() == 4;
            let width = if narrow { Type::U32 } else { Type::U64 };
            (AddressBase::Register(names.data_register(*register, width, false, line)?), *offset as u64)
        }
        Base::Absolute => (AddressBase::Absolute, *offset as u64),
        Base::Symbol(name) if space == Space::Param => {
            let parameter = names
                .parameter(name)
                .ok_or_else(|| ParseError::new(line, format!("`{name}` is not a parameter of this kernel")))?;
            let end = offset + (kind.bytes() * usize::from(count)) as i64;
            if *offset < 0 || end > parameter.size as i64 {
                return Err(ParseError::new(line, format!("the load runs out of parameter `{name}`")));
            }
            (AddressBase::Absolute, parameter.offset as u64 + *offset as u64)
        }
        Base::Symbol(name) => match names.symbol(name) {
            Some(address) => (AddressBase::Absolute, address.wrapping_add(*offset as u64)),
            None => return Err(ParseError::new(line, format!("symbol `{name}` is not declared"))),
        },
    };
    if space == Space::Param && base != AddressBase::Absolute {
        return Err(ParseError::new(line, "parameters are read by name alone"));
    }
    let scalar = std::slice::from_ref(value);
    let items = match value {
        Operand::Vector(items) => items.as_slice(),
        _ => scalar,
    };
    if items.len() != usize::from(count) {
        return Err(ParseError::new(line, format!("{count} elements, but {} registers", items.len())));
    }
    let mut registers: [Option<Slot>; 4] = [None; 4];
    let mut masks = [0; 4];
    let mut sources = [None; 4];
    for (index, item) in items.iter().enumerate() {
        if store {
            sources[index] = Some(names.source(item, kind, true, line)?);
        } else if *item != Operand::Sink {
            let (slot, mask) = names.destination(item, kind, true, line)?;
            (registers[index], masks[index]) = (Some(slot), mask);
        }
    }
    let access = Access { space, kind, count, registers, masks, base, offset, noncoherent };
    Ok(Pending { access, sources, store })
}
