//! The directives of a module and of a kernel's body.

use super::lexer::Token;
use super::parser::Parser;
use super::syntax::{Kernel, Literal, Module, Parameter, ParseError, Space, Type, Variable};

impl Parser {
    /// `.version`, `.target` and `.address_size`, which must come first.
    pub(super) fn header(&mut self, module: &mut Module) -> Result<(), ParseError> {
        if self.peek() != Some(&Token::Directive(".version".into())) {
            return self.error("the text does not start with `.version`");
        }
        self.next()?;
        let Literal::Double(bits) = self.literal()? else {
            return self.error("malformed `.version`");
        };
        let tenths = (f64::from_bits(bits) * 10.0).round() as u32;
        module.version = (tenths / 10, tenths % 10);
        if self.directive()? != ".target" {
            return self.error("expected `.target`");
        }
        let target = self.word()?;
        // `sm_90a` and `sm_100f` name features of one architecture alone, which are outside the emulator.
        match target.strip_prefix("sm_").and_then(|digits| digits.parse().ok()) {
            Some(value) => module.target = value,
            None => return self.error(format!("target `{target}` is unknown")),
        }
        while self.accept(',') {
            let option = self.word()?;
            if option != "debug" {
                return self.error(format!("target option `{option}` is unknown"));
            }
        }
        if self.directive()? != ".address_size" || self.integer()? != 64 {
            return self.error("only `.address_size 64` is supported");
        }
        Ok(())
    }

    pub(super) fn module_item(&mut self, module: &mut Module) -> Result<(), ParseError> {
        let mut external = false;
        loop {
            let word = self.directive()?;
            match word.as_str() {
                ".visible" | ".weak" => {}
                ".extern" => external = true,
                ".entry" if !external => {
                    let kernel = self.kernel()?;
                    if module.kernels.iter().any(|other| other.name == kernel.name) {
                        return self.error(format!("kernel `{}` is defined twice", kernel.name));
                    }
                    module.kernels.push(kernel);
                    return Ok(());
                }
                ".global" | ".const" | ".shared" => {
                    let space = match word.as_str() {
                        ".global" => Space::Global,
                        ".const" => Space::Const,
                        _ => Space::Shared,
                    };
                    let variable = self.variable(space)?;
                    if external != variable.size.is_none() {
                        return self.error("an array without a size must be `.extern .shared`, and only that");
                    }
                    module.variables.push(variable);
                    return Ok(());
                }
                ".file" => return self.skip_file(),
                ".func" => return self.error("functions and calls are not supported: inline them"),
                _ => return self.error(format!("directive `{word}` is unknown")),
            }
        }
    }

    pub(super) fn body_directive(&mut self, kernel: &mut Kernel) -> Result<(), ParseError> {
        let word = self.directive()?;
        match word.as_str() {
            ".reg" => self.registers(kernel),
            ".shared" => {
                let variable = self.variable(Space::Shared)?;
                if variable.size.is_none() {
                    return self.error("a shared array inside a kernel needs a size");
                }
                kernel.shared.push(variable);
                Ok(())
            }
            ".pragma" => match (self.next()?, self.accept(';')) {
                // A hint to the optimiser; the emulator never unrolls.
                (Token::Text(text), true) if text == "nounroll" => Ok(()),
                (token, _) => self.error(format!("pragma {token:?} is unknown")),
            },
            ".loc" => {
                for _ in 0..3 {
                    self.integer()?;
                }
                Ok(())
            }
            ".local" => self.error("local memory is not supported: the kernel spills or indexes an array"),
            _ => self.error(format!("directive `{word}` is unknown")),
        }
    }

    fn skip_file(&mut self) -> Result<(), ParseError> {
        self.integer()?;
        self.next()?;
        while self.accept(',') {
            self.integer()?;
        }
        Ok(())
    }

    /// `.entry` after the keyword.
    fn kernel(&mut self) -> Result<Kernel, ParseError> {
        let mut kernel = Kernel { name: self.word()?, ..Kernel::default() };
        if self.accept('(') && !self.accept(')') {
            loop {
                let parameter = self.parameter(kernel.parameters.last())?;
                kernel.parameters.push(parameter);
                if self.accept(')') {
                    break;
                }
                self.expect(',')?;
            }
        }
        while let Some(Token::Directive(word)) = self.peek().cloned() {
            self.next()?;
            match word.as_str() {
                ".reqntid" => kernel.required_threads = Some(self.extents()?),
                ".maxntid" => {
                    kernel.maximum_threads = Some(self.extents()?.iter().map(|&extent| u64::from(extent)).product());
                }
                // Hints for register allocation, which the emulator does not do.
                ".minnctapersm" | ".maxnreg" => {
                    self.integer()?;
                }
                _ => return self.error(format!("directive `{word}` is unknown")),
            }
        }
        self.body(&mut kernel)?;
        Ok(kernel)
    }

    fn extents(&mut self) -> Result<[u32; 3], ParseError> {
        let mut extents = [1; 3];
        for (index, extent) in extents.iter_mut().enumerate() {
            if index > 0 && !self.accept(',') {
                break;
            }
            *extent = self.integer()? as u32;
        }
        Ok(extents)
    }

    fn parameter(&mut self, previous: Option<&Parameter>) -> Result<Parameter, ParseError> {
        if self.directive()? != ".param" {
            return self.error("expected `.param`");
        }
        let (mut align, mut kind) = (None, None);
        while let Some(Token::Directive(word)) = self.peek().cloned() {
            self.next()?;
            match word.as_str() {
                ".align" => align = Some(self.integer()? as usize),
                ".ptr" | ".global" => {}
                _ => match Type::from_suffix(&word[1..]) {
                    Some(found) if found != Type::Pred => kind = Some(found),
                    _ => return self.error(format!("parameter attribute `{word}` is unknown")),
                },
            }
        }
        let Some(kind) = kind else { return self.error("a parameter without a type") };
        let name = self.word()?;
        let mut size = kind.bytes();
        if self.accept('[') {
            size *= self.integer()? as usize;
            self.expect(']')?;
        } else {
            // `.ptr .align N` speaks of the memory pointed to, not of the parameter.
            align = None;
        }
        let align = align.unwrap_or(kind.bytes());
        if !align.is_power_of_two() {
            return self.error(format!("alignment {align} is not a power of two"));
        }
        let end = previous.map_or(0, |parameter| parameter.offset + parameter.size);
        Ok(Parameter { name, size, offset: end.next_multiple_of(align) })
    }

    /// A variable after its state space, up to and including `;`.
    fn variable(&mut self, space: Space) -> Result<Variable, ParseError> {
        let (mut align, mut kind) = (None, None);
        while let Some(Token::Directive(word)) = self.peek().cloned() {
            self.next()?;
            match word.as_str() {
                ".align" => align = Some(self.integer()?),
                _ => match Type::from_suffix(&word[1..]) {
                    Some(found) if found != Type::Pred => kind = Some(found),
                    _ => return self.error(format!("variable attribute `{word}` is unknown")),
                },
            }
        }
        let Some(kind) = kind else { return self.error("a variable without a type") };
        let name = self.word()?;
        let mut size = Some(kind.bytes() as u64);
        while self.accept('[') {
            if self.accept(']') {
                size = None;
                break;
            }
            let count = self.integer()?;
            size = size.and_then(|bytes| bytes.checked_mul(count));
            if size.is_none() {
                return self.error("the array is too large");
            }
            self.expect(']')?;
        }
        let mut initial = Vec::new();
        if self.accept('=') {
            if space == Space::Shared {
                return self.error("shared variables cannot have initial values");
            }
            self.initial_values(kind, &mut initial)?;
            let bytes = size.unwrap_or(0) as usize;
            if initial.len() > bytes {
                return self.error("more initial values than the array has room for");
            }
            initial.resize(bytes, 0);
        } else if space != Space::Shared {
            // Variables without initial values start as zeros.
            initial.resize(size.unwrap_or(0) as usize, 0);
        }
        self.expect(';')?;
        Ok(Variable { name, space, align: align.unwrap_or(kind.bytes() as u64), size, initial })
    }

    fn initial_values(&mut self, kind: Type, bytes: &mut Vec<u8>) -> Result<(), ParseError> {
        if self.accept('{') {
            loop {
                self.initial_values(kind, bytes)?;
                if self.accept('}') {
                    return Ok(());
                }
                self.expect(',')?;
            }
        }
        let bits = match self.literal()? {
            Literal::Integer(value) => value as u64,
            Literal::Single(bits) if kind == Type::F32 => bits.into(),
            Literal::Double(bits) if kind == Type::F64 => bits,
            literal => return self.error(format!("initial value {literal:?} does not fit the type")),
        };
        bytes.extend_from_slice(&bits.to_le_bytes()[..kind.bytes()]);
        Ok(())
    }
}
