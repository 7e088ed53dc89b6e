//! Splits the text of a script into words.

use crate::error::{ScriptError, error};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Word {
    /// A decimal number, perhaps with a fraction, as written.
    Number(String),
    Hex(i64),
    Name(String),
    Text(String),
    Command(String),
    /// Python code.
    Code(String),
    /// `--name`
    Option(String),
    Ellipsis,
    Symbol(char),
}

/// A word and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub line: u32,
    /// True if it is the first word of its line: events begin there.
    pub is_first: bool,
    pub word: Word,
}

/// Splits a script into words, without its comments.
pub(crate) fn words(text: &str) -> Result<Vec<Token>, ScriptError> {
    let mut lexer = Lexer { rest: text, line: 1, is_first: true, tokens: Vec::new() };
    while lexer.step()? {}
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    rest: &'a str,
    line: u32,
    is_first: bool,
    tokens: Vec<Token>,
}

impl<'a> Lexer<'a> {
    fn step(&mut self) -> Result<bool, ScriptError> {
        let Some(first) = self.rest.chars().next() else { return Ok(false) };
        let digits = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        let fraction = |text: &str| text.strip_prefix('.').is_some_and(digits);
        let unsigned = self.rest.strip_prefix('-').unwrap_or(self.rest);
        match first {
            '\n' => {
                self.line += 1;
                self.is_first = true;
                self.rest = &self.rest[1..];
            }
            _ if first.is_whitespace() => self.rest = &self.rest[first.len_utf8()..],
            _ if self.rest.starts_with("//") => {
                self.rest = &self.rest[self.rest.find('\n').unwrap_or(self.rest.len())..];
            }
            _ if self.rest.starts_with("/*") => {
                self.enclosed("/*", "*/")?;
            }
            _ if self.rest.starts_with("%{") => self.push_enclosed("%{", "}%", Word::Code)?,
            '`' => self.push_enclosed("`", "`", Word::Command)?,
            '"' => self.push_enclosed("\"", "\"", Word::Text)?,
            _ if self.rest.starts_with("...") => self.push(3, Word::Ellipsis),
            _ if self.rest.starts_with("--") => {
                let name = prefix(&self.rest[2..], is_name).to_owned();
                self.push(2 + name.len(), Word::Option(name));
            }
            _ if self.rest.starts_with("0x") => self.push_hex()?,
            _ if digits(unsigned) || fraction(unsigned) => self.push_number(unsigned),
            _ if is_name(first) => {
                let name = prefix(self.rest, is_name).to_owned();
                self.push(name.len(), Word::Name(name));
            }
            _ => self.push(first.len_utf8(), Word::Symbol(first)),
        }
        Ok(true)
    }

    fn push_hex(&mut self) -> Result<(), ScriptError> {
        let digits = prefix(&self.rest[2..], |c| c.is_ascii_hexdigit());
        match i64::from_str_radix(digits, 16) {
            Ok(value) => {
                self.push(2 + digits.len(), Word::Hex(value));
                Ok(())
            }
            Err(_) => error(self.line, format!("0x{digits} is not a number: write for example 0xff")),
        }
    }

    /// A number; letters behind digits make it a name, such as a cookie in hexadecimal digits.
    fn push_number(&mut self, unsigned: &'a str) {
        let sign = self.rest.len() - unsigned.len();
        let word = prefix(unsigned, is_name);
        if word.chars().any(|c| !c.is_ascii_digit()) {
            self.push(sign + word.len(), Word::Name(word.to_owned()));
            return;
        }
        let after = &unsigned[word.len()..];
        let fraction = after.strip_prefix('.').map_or("", |rest| prefix(rest, |c| c.is_ascii_digit()));
        let length = sign + word.len() + if fraction.is_empty() { 0 } else { 1 + fraction.len() };
        self.push(length, Word::Number(self.rest[..length].to_owned()));
    }

    fn push(&mut self, length: usize, word: Word) {
        let is_first = std::mem::take(&mut self.is_first);
        self.tokens.push(Token { line: self.line, is_first, word });
        self.rest = &self.rest[length..];
    }

    fn push_enclosed(
        &mut self,
        begin: &str,
        end: &str,
        word: impl Fn(String) -> Word,
    ) -> Result<(), ScriptError> {
        let (line, is_first) = (self.line, std::mem::take(&mut self.is_first));
        let content = self.enclosed(begin, end)?;
        self.tokens.push(Token { line, is_first, word: word(content) });
        Ok(())
    }

    fn enclosed(&mut self, begin: &str, end: &str) -> Result<String, ScriptError> {
        let inner = &self.rest[begin.len()..];
        let mut from = 0;
        loop {
            let Some(at) = inner[from..].find(end).map(|at| at + from) else {
                return error(self.line, format!("{begin} without {end}"));
            };
            if end.len() == 1 && inner[..at].ends_with('\\') {
                from = at + 1;
                continue;
            }
            let content = &inner[..at];
            self.line += content.matches('\n').count() as u32;
            self.rest = &inner[at + end.len()..];
            return Ok(content.to_owned());
        }
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn prefix(text: &str, accept: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|c| !accept(c)).unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_ellipses_and_comments_are_told_apart() {
        let tokens = words("// none\n +.01...0.011 f(...) /* a\nb */ = -1\n").expect("words");
        let symbol = Word::Symbol;
        let number = |text: &str| Word::Number(text.to_owned());
        let expected = [
            symbol('+'),
            number(".01"),
            Word::Ellipsis,
            number("0.011"),
            Word::Name("f".to_owned()),
            symbol('('),
            Word::Ellipsis,
            symbol(')'),
            symbol('='),
            number("-1"),
        ];
        assert_eq!(tokens.iter().map(|t| t.word.clone()).collect::<Vec<_>>(), expected);
        assert_eq!((tokens[0].line, tokens[0].is_first, tokens[1].is_first), (2, true, false));
        assert_eq!(tokens[9].line, 3);
    }

    #[test]
    fn an_open_command_is_an_error_with_its_line() {
        let error = words("0 socket()\n`sysctl").expect_err("no end");
        assert_eq!(error.to_string(), "line 2: ` without `");
    }
}
