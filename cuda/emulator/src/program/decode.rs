//! A syntax tree to a program; whatever is unknown is refused here, at load.

use super::flow::meeting_points;
use super::forms::{arithmetic, comparison};
use super::memory_forms;
use super::operands::{Names, Source};
use super::operation::{Combine, Guard, Kind, Logic, Operation, Program, Shuffle, Slot, Step, Vote};
use crate::ptx::{Instruction, Kernel, Literal, Module, Operand, ParseError, Space, Type, Variable};
use std::collections::HashMap;

/// An operation whose constants have no slot yet: their number is known only after the last instruction.
type Pending<'a> = Box<dyn FnOnce(&Names<'_>) -> Operation + 'a>;

/// Decodes one kernel; `globals` holds the addresses of the module's variables.
pub fn decode(module: &Module, kernel: &Kernel, globals: &HashMap<String, u64>) -> Result<Program, ParseError> {
    let shared: Vec<Variable> =
        module.variables.iter().filter(|variable| variable.space == Space::Shared).cloned().collect();
    let mut names = Names::new(kernel, &shared, globals);
    let mut pending = Vec::with_capacity(kernel.instructions.len());
    let mut successors = Vec::with_capacity(kernel.instructions.len() + 1);
    let end = kernel.instructions.len();
    for (index, instruction) in kernel.instructions.iter().enumerate() {
        let guard = match instruction.guard {
            Some((register, negated)) => Some(names.guard(register, negated, instruction.line)?),
            None => None,
        };
        let following = match flow(&names, instruction)? {
            Flow::Next => vec![index + 1],
            Flow::Jump(target) if guard.is_some() => vec![target, index + 1],
            Flow::Jump(target) => vec![target],
            Flow::End if guard.is_some() => vec![index + 1],
            Flow::End => vec![],
        };
        successors.push(following);
        pending.push((operation(&mut names, module, instruction)?, guard, instruction));
    }
    successors.push(vec![]);
    let meets = meeting_points(&successors);
    let mut steps: Vec<Step> = Vec::with_capacity(end + 1);
    for (index, (build, guard, instruction)) in pending.into_iter().enumerate() {
        let mut operation = build(&names);
        if let Operation::Branch { meet, .. } = &mut operation {
            *meet = meets[index] as u32;
        }
        steps.push(Step { operation, guard, line: instruction.line, kind: kind(&instruction.mnemonic) });
    }
    // A body that runs past its last line ends the thread.
    let line = kernel.instructions.last().map_or(0, |instruction| instruction.line);
    steps.push(Step { operation: Operation::Exit, guard: None, line, kind: Kind::Branch });
    let files = names.finish();
    if files.registers + files.constants.len() + files.specials.len() > usize::from(Slot::MAX) {
        return Err(ParseError::new(line, "the kernel uses more registers than the emulator has"));
    }
    Ok(Program {
        name: kernel.name.clone(),
        steps,
        registers: files.registers,
        widths: files.widths,
        constants: files.constants,
        specials: files.specials,
        predicates: files.predicates,
        parameters: kernel.parameters.clone(),
        shared: files.shared,
        static_shared: files.static_shared,
        required_threads: kernel.required_threads,
        maximum_threads: kernel.maximum_threads,
    })
}

/// Where control goes after an instruction.
enum Flow {
    Next,
    Jump(usize),
    End,
}

fn flow(names: &Names<'_>, instruction: &Instruction) -> Result<Flow, ParseError> {
    Ok(match instruction.mnemonic.as_str() {
        "bra" | "bra.uni" => {
            let [label] = names.operands(instruction)?;
            Flow::Jump(names.label(label, instruction.line)?)
        }
        "ret" | "ret.uni" | "exit" => Flow::End,
        _ => Flow::Next,
    })
}

fn kind(mnemonic: &str) -> Kind {
    let stem = mnemonic.split('.').next().unwrap_or_default();
    match stem {
        "ld" => Kind::Load,
        "st" => Kind::Store,
        "mov" | "selp" | "cvta" => Kind::Move,
        "cvt" => Kind::Convert,
        "setp" | "set" => Kind::Compare,
        "shfl" | "vote" | "activemask" => Kind::Shuffle,
        "bar" | "barrier" | "membar" | "fence" => Kind::Barrier,
        "bra" | "ret" | "exit" => Kind::Branch,
        _ if mnemonic.ends_with("f32") || mnemonic.ends_with("f64") => Kind::Float,
        _ => Kind::Integer,
    }
}

fn unknown<T>(instruction: &Instruction) -> Result<T, ParseError> {
    Err(ParseError::new(instruction.line, format!("instruction `{}` is unknown", instruction.mnemonic)))
}

fn operation<'a>(
    names: &mut Names<'_>,
    module: &Module,
    instruction: &'a Instruction,
) -> Result<Pending<'a>, ParseError> {
    let line = instruction.line;
    let mnemonic = instruction.mnemonic.as_str();
    let parts: Vec<&str> = mnemonic.split('.').collect();
    let needs = |version: (u32, u32)| {
        let (major, minor) = version;
        if module.version < version {
            return Err(ParseError::new(line, format!("`{mnemonic}` needs PTX {major}.{minor} in the header")));
        }
        Ok(())
    };
    match parts[..] {
        ["ld" | "st", ..] => {
            let pending = memory_forms::decode(names, instruction)?;
            Ok(Box::new(|names| pending.finish(names)))
        }
        ["bra"] | ["bra", "uni"] => {
            let [label] = names.operands(instruction)?;
            let target = names.label(label, line)? as u32;
            Ok(Box::new(move |_| Operation::Branch { target, meet: 0 }))
        }
        ["ret"] | ["ret", "uni"] | ["exit"] => {
            names.operands::<0>(instruction)?;
            Ok(Box::new(|_| Operation::Exit))
        }
        ["bar", "sync"] | ["barrier", "sync"] | ["barrier", "sync", "aligned"] => {
            // Only the barrier of all threads exists here; a count would name a part of the block.
            let [number] = names.operands(instruction)?;
            if *number != Operand::Literal(crate::ptx::Literal::Integer(0)) {
                return Err(ParseError::new(line, "only barrier 0 of the whole block is supported"));
            }
            Ok(Box::new(|_| Operation::Barrier))
        }
        ["bar", "warp", "sync"] => {
            needs((6, 0))?;
            let [members] = names.operands(instruction)?;
            let members = names.source(members, Type::U32, false, line)?;
            Ok(Box::new(move |names| Operation::WarpBarrier { members: names.slot(members) }))
        }
        ["membar", "cta" | "gl" | "sys"] | ["fence", "acq_rel" | "sc", "cta" | "gpu" | "sys"] => {
            names.operands::<0>(instruction)?;
            Ok(Box::new(|_| Operation::Fence))
        }
        ["activemask", "b32"] => {
            needs((6, 2))?;
            let [destination] = names.operands(instruction)?;
            let (destination, _) = names.destination(destination, Type::B32, false, line)?;
            Ok(Box::new(move |_| Operation::ActiveMask { destination }))
        }
        ["shfl", "sync", mode, "b32"] => {
            needs((6, 0))?;
            shuffle(names, instruction, mode)
        }
        ["vote", "sync", mode, kind] => {
            needs((6, 0))?;
            vote(names, instruction, mode, kind)
        }
        ["setp", ..] => set_predicate(names, instruction, &parts),
        ["set", ..] => set_register(names, instruction, &parts),
        ["selp", kind] => {
            let kind = match Type::from_suffix(kind) {
                Some(kind) if kind.bytes() >= 2 && kind != Type::F16 => kind,
                _ => return unknown(instruction),
            };
            let [destination, left, right, condition] = names.operands(instruction)?;
            let (destination, _) = names.destination(destination, kind, false, line)?;
            let sources = [names.source(left, kind, false, line)?, names.source(right, kind, false, line)?];
            let condition = names.predicate(condition, line)?;
            Ok(Box::new(move |names| Operation::Select {
                destination,
                sources: sources.map(|source| names.slot(source)),
                condition,
            }))
        }
        [stem @ ("and" | "or" | "xor" | "not" | "mov"), "pred"] => predicate_logic(names, instruction, stem),
        ["mov", kind @ ("b32" | "b64")]
            if instruction.operands.iter().any(|operand| matches!(operand, Operand::Vector(_))) =>
        {
            vector_move(names, instruction, if kind == "b32" { Type::B32 } else { Type::B64 })
        }
        _ => plain(names, instruction),
    }
}

/// Everything that only computes.
fn plain<'a>(names: &mut Names<'_>, instruction: &'a Instruction) -> Result<Pending<'a>, ParseError> {
    let line = instruction.line;
    let Some(form) = arithmetic(&instruction.mnemonic) else { return unknown(instruction) };
    let expected = form.sources.len() + 1;
    if instruction.operands.len() != expected {
        let (mnemonic, found) = (&instruction.mnemonic, instruction.operands.len());
        return Err(ParseError::new(line, format!("`{mnemonic}` takes {expected} operands, found {found}")));
    }
    let (destination, mask) = names.destination(&instruction.operands[0], form.result, form.widens, line)?;
    let mut sources = [Source::Constant(0); 4];
    for (index, &kind) in form.sources.iter().enumerate() {
        sources[index] = names.source(&instruction.operands[index + 1], kind, form.widens, line)?;
    }
    Ok(Box::new(move |names| Operation::Arithmetic {
        form,
        destination,
        mask,
        sources: sources.map(|source| names.slot(source)),
    }))
}

fn logic(name: &str) -> Option<Logic> {
    Some(match name {
        "and" => Logic::And,
        "or" => Logic::Or,
        "xor" => Logic::Xor,
        _ => return None,
    })
}

/// The comparison, its operands and the predicate it joins with, shared by `setp` and `set`.
fn comparing(
    names: &mut Names<'_>,
    instruction: &Instruction,
    operator: &str,
    join: Option<&str>,
    kind: &str,
) -> Result<(super::Comparison, [Source; 2], Combine), ParseError> {
    let line = instruction.line;
    let Some(comparison) = comparison(operator, kind) else { return unknown(instruction) };
    let operands = &instruction.operands;
    if operands.len() != 3 + usize::from(join.is_some()) {
        return Err(ParseError::new(line, format!("`{}` with {} operands", instruction.mnemonic, operands.len())));
    }
    let sources = [
        names.source(&operands[1], comparison.source, false, line)?,
        names.source(&operands[2], comparison.source, false, line)?,
    ];
    let combine = match join {
        None => None,
        Some(name) => match logic(name) {
            Some(logic) => Some((logic, names.predicate(&operands[3], line)?)),
            None => return unknown(instruction),
        },
    };
    Ok((comparison, sources, combine))
}

fn set_predicate<'a>(
    names: &mut Names<'_>,
    instruction: &'a Instruction,
    parts: &[&str],
) -> Result<Pending<'a>, ParseError> {
    let (operator, join, kind) = match *parts {
        [_, operator, kind] => (operator, None, kind),
        [_, operator, join, kind] => (operator, Some(join), kind),
        _ => return unknown(instruction),
    };
    let (comparison, sources, combine) = comparing(names, instruction, operator, join, kind)?;
    let line = instruction.line;
    let (destination, complement) = match &instruction.operands[0] {
        Operand::Pair(first, second) => {
            (names.predicate(first, line)?.predicate, Some(names.predicate(second, line)?.predicate))
        }
        single => (names.predicate(single, line)?.predicate, None),
    };
    Ok(Box::new(move |names| Operation::Compare {
        comparison,
        destination,
        complement,
        sources: sources.map(|source| names.slot(source)),
        combine,
    }))
}

fn set_register<'a>(
    names: &mut Names<'_>,
    instruction: &'a Instruction,
    parts: &[&str],
) -> Result<Pending<'a>, ParseError> {
    let (operator, join, result, kind) = match *parts {
        [_, operator, result, kind] => (operator, None, result, kind),
        [_, operator, join, result, kind] => (operator, Some(join), result, kind),
        _ => return unknown(instruction),
    };
    let (result, truth) = match result {
        "u32" | "s32" => (Type::U32, u64::from(u32::MAX)),
        "f32" => (Type::F32, u64::from(1f32.to_bits())),
        _ => return unknown(instruction),
    };
    let (comparison, sources, combine) = comparing(names, instruction, operator, join, kind)?;
    let (destination, _) = names.destination(&instruction.operands[0], result, false, instruction.line)?;
    Ok(Box::new(move |names| Operation::Set {
        comparison,
        destination,
        truth,
        sources: sources.map(|source| names.slot(source)),
        combine,
    }))
}

fn predicate_logic<'a>(
    names: &mut Names<'_>,
    instruction: &'a Instruction,
    stem: &str,
) -> Result<Pending<'a>, ParseError> {
    let line = instruction.line;
    let (destination, logic, sources) = match logic(stem) {
        Some(logic) => {
            let [destination, left, right] = names.operands(instruction)?;
            (destination, logic, [names.predicate(left, line)?, names.predicate(right, line)?])
        }
        None => {
            let [destination, source] = names.operands(instruction)?;
            let own = names.predicate(destination, line)?;
            match source {
                // A constant is what any predicate gives with itself or with its opposite.
                Operand::Literal(Literal::Integer(0)) => (destination, Logic::Xor, [own, own]),
                Operand::Literal(Literal::Integer(_)) => {
                    (destination, Logic::Or, [own, Guard { negated: true, ..own }])
                }
                _ => {
                    let source = names.predicate(source, line)?;
                    let source = Guard { negated: source.negated != (stem == "not"), ..source };
                    (destination, Logic::Or, [source, source])
                }
            }
        }
    };
    let destination = names.predicate(destination, line)?.predicate;
    Ok(Box::new(move |_| Operation::Predicate { logic, destination, sources }))
}

/// `mov` between one register and a vector of equal parts.
fn vector_move<'a>(
    names: &mut Names<'_>,
    instruction: &'a Instruction,
    whole: Type,
) -> Result<Pending<'a>, ParseError> {
    let line = instruction.line;
    let [destination, source] = names.operands(instruction)?;
    let part = |count: usize| match (whole, count) {
        (Type::B32, 2) | (Type::B64, 4) => Ok(Type::B16),
        (Type::B64, 2) => Ok(Type::B32),
        _ => unknown(instruction),
    };
    if let Operand::Vector(items) = source {
        let kind = part(items.len())?;
        let (count, bits) = (items.len() as u8, kind.bytes() as u8 * 8);
        let (destination, _) = names.destination(destination, whole, false, line)?;
        let mut sources = [Source::Constant(0); 4];
        for (slot, item) in sources.iter_mut().zip(items) {
            *slot = names.source(item, kind, false, line)?;
        }
        return Ok(Box::new(move |names| Operation::Pack {
            destination,
            sources: sources.map(|source| names.slot(source)),
            count,
            bits,
        }));
    }
    let Operand::Vector(items) = destination else { return unknown(instruction) };
    let kind = part(items.len())?;
    let (count, bits) = (items.len() as u8, kind.bytes() as u8 * 8);
    let source = names.source(source, whole, false, line)?;
    let mut destinations = [None; 4];
    for (slot, item) in destinations.iter_mut().zip(items) {
        if *item != Operand::Sink {
            *slot = Some(names.destination(item, kind, false, line)?.0);
        }
    }
    Ok(Box::new(move |names| Operation::Unpack { destinations, source: names.slot(source), count, bits }))
}

fn shuffle<'a>(names: &mut Names<'_>, instruction: &'a Instruction, mode: &str) -> Result<Pending<'a>, ParseError> {
    let line = instruction.line;
    let mode = match mode {
        "up" => Shuffle::Up,
        "down" => Shuffle::Down,
        "bfly" => Shuffle::Butterfly,
        "idx" => Shuffle::Index,
        _ => return unknown(instruction),
    };
    let [destination, value, lane, clamp, members] = names.operands(instruction)?;
    let (destination, found) = match destination {
        Operand::Pair(destination, found) => (&**destination, Some(names.predicate(found, line)?.predicate)),
        single => (single, None),
    };
    let (destination, _) = names.destination(destination, Type::B32, false, line)?;
    let value = names.source(value, Type::B32, false, line)?;
    let lane = names.source(lane, Type::U32, false, line)?;
    let clamp = names.source(clamp, Type::U32, false, line)?;
    let members = names.source(members, Type::U32, false, line)?;
    Ok(Box::new(move |names| Operation::Shuffle {
        mode,
        destination,
        found,
        value: names.slot(value),
        lane: names.slot(lane),
        clamp: names.slot(clamp),
        members: names.slot(members),
    }))
}

fn vote<'a>(
    names: &mut Names<'_>,
    instruction: &'a Instruction,
    mode: &str,
    kind: &str,
) -> Result<Pending<'a>, ParseError> {
    let line = instruction.line;
    let mode = match (mode, kind) {
        ("all", "pred") => Vote::All,
        ("any", "pred") => Vote::Any,
        ("uni", "pred") => Vote::Uniform,
        ("ballot", "b32") => Vote::Ballot,
        _ => return unknown(instruction),
    };
    let [destination, condition, members] = names.operands(instruction)?;
    let destination = match mode {
        Vote::Ballot => names.destination(destination, Type::B32, false, line)?.0,
        _ => names.predicate(destination, line)?.predicate,
    };
    let condition = names.predicate(condition, line)?;
    let members = names.source(members, Type::U32, false, line)?;
    Ok(Box::new(move |names| Operation::Vote { mode, destination, condition, members: names.slot(members) }))
}
