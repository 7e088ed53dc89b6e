//! From words to events. The language is that of packetdrill (Cardwell et al. 2013).

mod call;
mod packet;

use std::fmt;

use crate::error::{ScriptError, error};
use crate::lexer::{Token, Word, words};
use crate::script::{Action, Event, Script, Setting, Time};

pub fn parse(text: &str) -> Result<Script, ScriptError> {
    let tokens = words(text)?;
    let mut parser = Parser { tokens: &tokens, at: 0 };
    let options = parser.options();
    let setup = match parser.peek() {
        Some(Word::Command(command)) => {
            let command = (parser.line(), command.clone());
            Some(parser.pass(command))
        }
        _ => None,
    };
    let mut events = Vec::new();
    while parser.peek().is_some() {
        // A command after the last event has no effect on the script.
        if matches!(parser.peek(), Some(Word::Command(_))) && parser.at + 1 == tokens.len() {
            break;
        }
        events.push(parser.event()?);
    }
    if events.is_empty() {
        return error(
            parser.line(),
            "the script contains no event: write for example 0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3",
        );
    }
    Ok(Script { options, setup, events })
}

pub(crate) struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Word> {
        self.tokens.get(self.at).map(|token| &token.word)
    }

    /// The line of the next word, or of the last one.
    fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |token| token.line)
    }

    fn is_symbol(&self, symbol: char) -> bool {
        self.peek() == Some(&Word::Symbol(symbol))
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(self.peek(), Some(Word::Name(word)) if word == name)
    }

    /// Takes a symbol if it is next.
    fn accept(&mut self, symbol: char) -> bool {
        let is_next = self.is_symbol(symbol);
        self.at += usize::from(is_next);
        is_next
    }

    fn accept_name(&mut self, name: &str) -> bool {
        let is_next = self.is_name(name);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, symbol: char, where_: &str) -> Result<(), ScriptError> {
        if self.accept(symbol) { Ok(()) } else { self.lack(format!("'{symbol}' is missing {where_}")) }
    }

    /// An error about the next word.
    fn lack<T>(&self, message: impl fmt::Display) -> Result<T, ScriptError> {
        error(self.line(), format!("{message}; found {}", self.describe_next()))
    }

    /// Advances to the next word, and returns the meaning of the current one.
    fn pass<T>(&mut self, meaning: T) -> T {
        self.at += 1;
        meaning
    }

    fn describe_next(&self) -> String {
        match self.peek() {
            None => "the end of the script".to_owned(),
            Some(Word::Number(text) | Word::Name(text)) => format!("\"{text}\""),
            Some(Word::Hex(value)) => format!("\"0x{value:x}\""),
            Some(Word::Text(_)) => "a text".to_owned(),
            Some(Word::Command(_)) => "a shell command".to_owned(),
            Some(Word::Code(_)) => "Python code".to_owned(),
            Some(Word::Option(name)) => format!("\"--{name}\""),
            Some(Word::Ellipsis) => "\"...\"".to_owned(),
            Some(Word::Symbol(symbol)) => format!("\"{symbol}\""),
        }
    }

    fn name(&mut self, what: &str) -> Result<String, ScriptError> {
        if let Some(Word::Name(name)) = self.peek() {
            let name = name.clone();
            return Ok(self.pass(name));
        }
        self.lack(format!("{what} is missing"))
    }

    /// A whole number that fits the type.
    fn number<T: TryFrom<i64>>(&mut self, what: &str) -> Result<T, ScriptError> {
        let value = match self.peek() {
            Some(Word::Number(text)) => text.parse::<i64>().ok(),
            Some(Word::Hex(value)) => Some(*value),
            _ => None,
        };
        if let Some(value) = value.and_then(|value| T::try_from(value).ok()) {
            return Ok(self.pass(value));
        }
        self.lack(format!("{what} must be a whole number in its range"))
    }

    fn options(&mut self) -> Vec<Setting> {
        let mut options = Vec::new();
        while let Some(Word::Option(name)) = self.peek() {
            let (line, name) = (self.line(), name.clone());
            self.at += 1;
            let value = self.accept('=').then(|| self.rest_of_line());
            options.push(Setting { line, name, value });
        }
        options
    }

    /// The words up to the end of the line, without spaces.
    fn rest_of_line(&mut self) -> String {
        let mut value = String::new();
        while let Some(token) = self.tokens.get(self.at).filter(|token| !token.is_first) {
            match &token.word {
                Word::Number(text) | Word::Name(text) | Word::Text(text) | Word::Command(text) => {
                    value.push_str(text);
                }
                Word::Hex(number) => value = format!("{value}0x{number:x}"),
                Word::Symbol(symbol) => value.push(*symbol),
                Word::Option(_) => break,
                Word::Code(_) | Word::Ellipsis => {}
            }
            self.at += 1;
        }
        value
    }

    fn event(&mut self) -> Result<Event, ScriptError> {
        let line = self.line();
        let time = self.time()?;
        let action = match self.peek() {
            Some(Word::Command(command)) => self.pass(Action::Command(command.clone())),
            Some(Word::Code(code)) => self.pass(Action::Code(code.trim_matches([' ', '\t']).to_owned())),
            Some(Word::Symbol('<' | '>')) => self.packet()?,
            Some(Word::Name(_) | Word::Ellipsis) => Action::Call(self.call()?),
            _ => {
                let expected = "a packet (< or >), a system call, `a command` or %{ Python code }%";
                return error(
                    line,
                    format!("after the time, {expected} is missing; found {}", self.describe_next()),
                );
            }
        };
        if !self.starts_line() {
            return self.lack("unexpected text after the event");
        }
        Ok(Event { line, time, action })
    }

    fn time(&mut self) -> Result<Time, ScriptError> {
        if self.accept('*') {
            return Ok(Time::Any);
        }
        let relative = self.accept('+');
        let from = self.micros()?;
        if !self.accept('~') {
            return Ok(if relative { Time::Relative(from) } else { Time::Absolute(from) });
        }
        if relative != self.accept('+') {
            return error(self.line(), "both ends of a range must be absolute, or both begin with +");
        }
        let to = self.micros()?;
        if to < from {
            return error(self.line(), "the range ends before it begins");
        }
        Ok(if relative { Time::RelativeRange(from, to) } else { Time::AbsoluteRange(from, to) })
    }

    /// A time in seconds, as microseconds.
    fn micros(&mut self) -> Result<i64, ScriptError> {
        let micros = match self.peek() {
            Some(Word::Number(text)) => micros(text),
            _ => None,
        };
        if let Some(micros) = micros {
            return Ok(self.pass(micros));
        }
        self.lack("a time such as 0, +0.1, .5~.6 or * is missing")
    }

    /// True if the next word begins a line, or there is none.
    fn starts_line(&self) -> bool {
        self.tokens.get(self.at).is_none_or(|token| token.is_first)
    }
}

/// Seconds as microseconds; digits after the sixth are dropped.
fn micros(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()? };
    if whole < 0 {
        return None;
    }
    let digits: String = fraction.chars().chain("000000".chars()).take(6).collect();
    whole.checked_mul(1_000_000)?.checked_add(digits.parse().ok()?)
}

#[cfg(test)]
mod tests;
