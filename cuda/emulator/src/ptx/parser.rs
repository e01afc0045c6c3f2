//! Tokens to a syntax tree, with registers resolved to indices.

use super::lexer::{Located, Token, tokenize};
use super::syntax::{Base, Instruction, Kernel, Literal, Module, Operand, ParseError, Type};
use std::collections::HashMap;

/// Parses a module; anything unknown is an error.
pub fn parse(text: &str) -> Result<Module, ParseError> {
    let mut parser = Parser { tokens: tokenize(text)?, position: 0, scopes: Vec::new() };
    let mut module = Module::default();
    parser.header(&mut module)?;
    while parser.peek().is_some() {
        parser.module_item(&mut module)?;
    }
    Ok(module)
}

/// The state of a parse; directives are read in `directive.rs`.
pub(super) struct Parser {
    tokens: Vec<Located>,
    position: usize,
    /// Register names by scope, innermost last.
    scopes: Vec<HashMap<String, u32>>,
}

impl Parser {
    pub(super) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.position).map(|(token, _)| token)
    }

    /// Line of the next token.
    fn line(&self) -> u32 {
        let last = self.tokens.len().saturating_sub(1);
        self.tokens.get(self.position.min(last)).map_or(1, |&(_, line)| line)
    }

    /// An error at the token read last.
    pub(super) fn error<T>(&self, message: impl Into<String>) -> Result<T, ParseError> {
        let last = self.position.checked_sub(1).and_then(|index| self.tokens.get(index));
        Err(ParseError::new(last.map_or(1, |&(_, line)| line), message))
    }

    pub(super) fn next(&mut self) -> Result<Token, ParseError> {
        match self.tokens.get(self.position) {
            Some((token, _)) => {
                self.position += 1;
                Ok(token.clone())
            }
            None => self.error("unexpected end of the text"),
        }
    }

    pub(super) fn accept(&mut self, mark: char) -> bool {
        let found = self.peek() == Some(&Token::Mark(mark));
        self.position += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, mark: char) -> Result<(), ParseError> {
        if self.accept(mark) {
            return Ok(());
        }
        match self.peek() {
            Some(token) => self.error(format!("expected `{mark}`, found {token:?}")),
            None => self.error(format!("expected `{mark}`, found the end of the text")),
        }
    }

    pub(super) fn word(&mut self) -> Result<String, ParseError> {
        match self.next()? {
            Token::Word(word) => Ok(word),
            token => self.error(format!("expected a name, found {token:?}")),
        }
    }

    pub(super) fn directive(&mut self) -> Result<String, ParseError> {
        match self.next()? {
            Token::Directive(word) => Ok(word),
            token => self.error(format!("expected a directive, found {token:?}")),
        }
    }

    pub(super) fn literal(&mut self) -> Result<Literal, ParseError> {
        let negative = self.accept('-');
        match self.next()? {
            Token::Number(Literal::Integer(value)) => Ok(Literal::Integer(if negative { -value } else { value })),
            Token::Number(literal) if !negative => Ok(literal),
            token => self.error(format!("expected a number, found {token:?}")),
        }
    }

    pub(super) fn integer(&mut self) -> Result<u64, ParseError> {
        match self.literal()? {
            Literal::Integer(value) => u64::try_from(value).or_else(|_| self.error("expected a positive integer")),
            literal => self.error(format!("expected an integer, found {literal:?}")),
        }
    }

    /// The body of a kernel, from `{` to `}`.
    pub(super) fn body(&mut self, kernel: &mut Kernel) -> Result<(), ParseError> {
        self.expect('{')?;
        self.scopes.push(HashMap::new());
        while !self.accept('}') {
            match self.peek() {
                Some(Token::Mark('{')) => self.body(kernel)?,
                Some(Token::Directive(_)) => self.body_directive(kernel)?,
                Some(Token::Mark('@')) => self.instruction(kernel)?,
                Some(Token::Word(_)) => {
                    if matches!(self.tokens.get(self.position + 1), Some((Token::Mark(':'), _))) {
                        let label = self.word()?;
                        self.expect(':')?;
                        if kernel.labels.iter().any(|(name, _)| *name == label) {
                            return self.error(format!("label `{label}` is defined twice"));
                        }
                        kernel.labels.push((label, kernel.instructions.len()));
                    } else {
                        self.instruction(kernel)?;
                    }
                }
                Some(token) => return self.error(format!("unexpected {token:?} in the body of a kernel")),
                None => return self.error("the body of a kernel has no end"),
            }
        }
        self.scopes.pop();
        Ok(())
    }

    /// `.reg .type name, name<count>, …;` after the `.reg`.
    pub(super) fn registers(&mut self, kernel: &mut Kernel) -> Result<(), ParseError> {
        let suffix = self.directive()?;
        let Some(kind) = Type::from_suffix(&suffix[1..]) else {
            return self.error(format!("register type `{suffix}` is unknown"));
        };
        if kind.bytes() == 1 {
            return self.error("registers of 8 bits do not exist");
        }
        loop {
            let name = self.word()?;
            if self.accept('<') {
                for index in 0..self.integer()? {
                    self.declare(kernel, format!("{name}{index}"), kind)?;
                }
                self.expect('>')?;
            } else {
                self.declare(kernel, name, kind)?;
            }
            if !self.accept(',') {
                return self.expect(';');
            }
        }
    }

    fn declare(&mut self, kernel: &mut Kernel, name: String, kind: Type) -> Result<(), ParseError> {
        let index = kernel.registers.len() as u32;
        kernel.registers.push(kind);
        match self.scopes.last_mut().and_then(|scope| scope.insert(name.clone(), index)) {
            None => Ok(()),
            Some(_) => self.error(format!("register `{name}` is declared twice")),
        }
    }

    fn register(&self, name: &str) -> Option<u32> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name).copied())
    }

    fn instruction(&mut self, kernel: &mut Kernel) -> Result<(), ParseError> {
        let line = self.line();
        let mut guard = None;
        if self.accept('@') {
            let negated = self.accept('!');
            let name = self.word()?;
            match self.register(&name) {
                Some(index) => guard = Some((index, negated)),
                None => return self.error(format!("guard `{name}` is not declared")),
            }
        }
        let mnemonic = self.word()?;
        let mut operands = Vec::new();
        while !self.accept(';') {
            if !operands.is_empty() {
                self.expect(',')?;
            }
            operands.push(self.operand()?);
        }
        kernel.instructions.push(Instruction { line, guard, mnemonic, operands });
        Ok(())
    }

    fn operand(&mut self) -> Result<Operand, ParseError> {
        let first = self.simple_operand()?;
        if self.accept('|') {
            return Ok(Operand::Pair(Box::new(first), Box::new(self.simple_operand()?)));
        }
        Ok(first)
    }

    fn simple_operand(&mut self) -> Result<Operand, ParseError> {
        if self.accept('[') {
            return self.address();
        }
        if self.accept('{') {
            let mut items = vec![self.simple_operand()?];
            while self.accept(',') {
                items.push(self.simple_operand()?);
            }
            self.expect('}')?;
            return Ok(Operand::Vector(items));
        }
        if self.accept('!') {
            let name = self.word()?;
            return match self.register(&name) {
                Some(index) => Ok(Operand::Negated(index)),
                None => self.error(format!("register `{name}` is not declared")),
            };
        }
        if matches!(self.peek(), Some(Token::Number(_) | Token::Mark('-'))) {
            return self.literal().map(Operand::Literal);
        }
        let name = self.word()?;
        if name == "_" {
            return Ok(Operand::Sink);
        }
        match self.register(&name) {
            Some(index) => Ok(Operand::Register(index)),
            None if name.starts_with('%') => Ok(Operand::Special(name)),
            None => Ok(Operand::Symbol(name)),
        }
    }

    fn address(&mut self) -> Result<Operand, ParseError> {
        let base = match self.peek() {
            Some(Token::Word(_)) => {
                let name = self.word()?;
                self.register(&name).map_or(Base::Symbol(name), Base::Register)
            }
            _ => Base::Absolute,
        };
        let mut offset = 0;
        if base == Base::Absolute || self.accept('+') || self.peek() == Some(&Token::Mark('-')) {
            offset = match self.literal()? {
                Literal::Integer(value) => value as i64,
                literal => return self.error(format!("address offset {literal:?} is not an integer")),
            };
        }
        self.expect(']')?;
        Ok(Operand::Address(base, offset))
    }
}
