//! PTX text to tokens.

use super::syntax::{Literal, ParseError};

/// One token.
#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    /// An identifier, a register or a dotted mnemonic: letters, digits, `_ $ % .`.
    Word(String),
    /// A directive or modifier that starts with a dot.
    Directive(String),
    /// A number.
    Number(Literal),
    /// A quoted string, without the quotes.
    Text(String),
    /// Any single character of punctuation.
    Mark(char),
}

/// A token and its line.
pub type Located = (Token, u32);

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '$' | '%' | '.')
}

/// Splits a text into tokens; comments and white space are dropped.
pub fn tokenize(text: &str) -> Result<Vec<Located>, ParseError> {
    let characters: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let (mut position, mut line) = (0, 1);
    while let Some(&character) = characters.get(position) {
        let next = characters.get(position + 1).copied();
        if character == '\n' {
            line += 1;
            position += 1;
        } else if character.is_whitespace() {
            position += 1;
        } else if character == '/' && next == Some('/') {
            while characters.get(position).is_some_and(|&c| c != '\n') {
                position += 1;
            }
        } else if character == '/' && next == Some('*') {
            let start = line;
            position += 2;
            while !(characters.get(position) == Some(&'*') && characters.get(position + 1) == Some(&'/')) {
                match characters.get(position) {
                    None => return Err(ParseError::new(start, "comment without end")),
                    Some('\n') => line += 1,
                    Some(_) => {}
                }
                position += 1;
            }
            position += 2;
        } else if character == '"' {
            let start = position + 1;
            position = start;
            while characters.get(position).is_some_and(|&c| c != '"') {
                position += 1;
            }
            if position == characters.len() {
                return Err(ParseError::new(line, "string without end"));
            }
            tokens.push((Token::Text(characters[start..position].iter().collect()), line));
            position += 1;
        } else if is_word(character) {
            let start = position;
            while characters.get(position).copied().is_some_and(is_word) {
                position += 1;
            }
            let word: String = characters[start..position].iter().collect();
            tokens.push((classify(word, line)?, line));
        } else {
            tokens.push((Token::Mark(character), line));
            position += 1;
        }
    }
    Ok(tokens)
}

fn classify(word: String, line: u32) -> Result<Token, ParseError> {
    if word.starts_with('.') {
        return Ok(Token::Directive(word));
    }
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        return number(&word)
            .map(Token::Number)
            .ok_or_else(|| ParseError::new(line, format!("malformed number `{word}`")));
    }
    Ok(Token::Word(word))
}

fn number(word: &str) -> Option<Literal> {
    let prefix = word.get(..2).unwrap_or_default();
    match prefix {
        "0f" | "0F" if word.len() == 10 => return u32::from_str_radix(&word[2..], 16).ok().map(Literal::Single),
        "0d" | "0D" if word.len() == 18 => return u64::from_str_radix(&word[2..], 16).ok().map(Literal::Double),
        _ => {}
    }
    if word.contains('.') {
        // `.version 6.0` is the only place where PTX compilers write a decimal point.
        return word.parse::<f64>().ok().map(|value| Literal::Double(value.to_bits()));
    }
    let word = word.strip_suffix('U').unwrap_or(word);
    let (digits, radix) = match prefix {
        "0x" | "0X" => (&word[2..], 16),
        "0b" | "0B" => (&word[2..], 2),
        _ if word.len() > 1 && word.starts_with('0') => (&word[1..], 8),
        _ => (word, 10),
    };
    u64::from_str_radix(digits, radix).ok().map(|value| Literal::Integer(value.into()))
}
