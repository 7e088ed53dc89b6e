//! System calls and their arguments.

use super::{Parser, micros};
use crate::error::{ScriptError, error};
use crate::lexer::Word;
use crate::script::{Call, Value};

impl Parser<'_> {
    pub(super) fn call(&mut self) -> Result<Call, ScriptError> {
        let end = if self.peek() == Some(&Word::Ellipsis) {
            self.at += 1;
            let Some(end) = self.peek().and_then(|word| match word {
                Word::Number(text) => micros(text),
                _ => None,
            }) else {
                return error(self.line(), "after \"...\", the time when the call returns is missing");
            };
            self.at += 1;
            Some(end)
        } else {
            None
        };
        let name = self.name("the name of a system call")?;
        self.expect('(', &format!("after {name}"))?;
        let arguments = self.values(')')?;
        self.expect('=', "before the result of the call")?;
        let result = self.value()?;
        let error = match self.peek() {
            Some(Word::Name(name)) if !self.starts_line() => Some(name.clone()),
            _ => None,
        };
        self.at += usize::from(error.is_some());
        self.note();
        Ok(Call { end, name, arguments, result, error })
    }

    /// A note in parentheses, for readers.
    fn note(&mut self) {
        if !self.starts_line() && self.accept('(') {
            while self.peek().is_some() && !self.accept(')') {
                self.at += 1;
            }
        }
    }

    fn values(&mut self, end: char) -> Result<Vec<Value>, ScriptError> {
        let mut values = Vec::new();
        while !self.accept(end) {
            values.push(self.value()?);
            if !self.is_symbol(end) {
                self.expect(',', "between values")?;
            }
        }
        Ok(values)
    }

    fn value(&mut self) -> Result<Value, ScriptError> {
        let mut values = vec![self.simple_value()?];
        while self.accept('|') {
            values.push(self.simple_value()?);
        }
        Ok(if values.len() > 1 { Value::Or(values) } else { values.remove(0) })
    }

    fn simple_value(&mut self) -> Result<Value, ScriptError> {
        let value = match self.peek() {
            Some(Word::Ellipsis) => Value::Any,
            Some(Word::Hex(value)) => Value::Int(*value),
            Some(Word::Number(text)) => match text.parse() {
                Ok(value) => Value::Int(value),
                Err(_) => return error(self.line(), format!("{text} is not a whole number")),
            },
            Some(Word::Text(text)) => Value::Text(text.clone()),
            Some(Word::Name(name)) => Value::Word(name.clone()),
            Some(Word::Symbol('[')) => {
                self.at += 1;
                return Ok(Value::Array(self.values(']')?));
            }
            Some(Word::Symbol('{')) => return self.structure(),
            _ => return self.lack("a value is missing"),
        };
        self.at += 1;
        match (&value, self.peek()) {
            (Value::Word(_), Some(Word::Symbol('('))) => {
                // An address, as in inet_addr("192.0.2.1").
                self.at += 1;
                self.values(')')?;
            }
            (Value::Word(_), Some(Word::Symbol('='))) => {
                self.at += 1;
                self.value()?;
            }
            (Value::Text(_), Some(Word::Ellipsis)) => self.at += 1,
            _ => {}
        }
        Ok(value)
    }

    /// Something in braces. Only the lengths of its buffers and the names in it matter.
    fn structure(&mut self) -> Result<Value, ScriptError> {
        let begin = self.line();
        let (mut depth, mut lengths, mut words) = (0, Vec::new(), Vec::new());
        let mut is_buffer = false;
        loop {
            let Some(token) = self.tokens.get(self.at) else { return error(begin, "{ without }") };
            match &token.word {
                Word::Symbol('{') => depth += 1,
                Word::Symbol('}') => depth -= 1,
                Word::Name(name) => words.push(name.clone()),
                Word::Number(text) if is_buffer => lengths.extend(text.parse::<i64>().ok()),
                _ => {}
            }
            // A buffer is {..., LENGTH}.
            let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map(|t| &t.word);
            is_buffer = token.word == Word::Symbol(',') && before == Some(&Word::Ellipsis);
            self.at += 1;
            if depth == 0 {
                return Ok(Value::Struct { lengths, words });
            }
        }
    }
}
