//! Packets and their options.

use lasthop_core::{Ecn, EcnOption, Flags, SackBlock};

use super::Parser;
use crate::error::{ScriptError, error};
use crate::lexer::Word;
use crate::script::{Action, PacketSpec, TcpOption, ecn_names};

/// Other protocols and encapsulations, which may occur in place of the flags of a TCP packet.
const FOREIGN: [&str; 9] = ["udp", "icmp", "ipv4", "ipv6", "gre", "GREv0", "mpls", "psp", "encap"];

impl Parser<'_> {
    pub(super) fn packet(&mut self) -> Result<Action, ScriptError> {
        let is_inbound = self.accept('<');
        if !is_inbound {
            self.at += 1;
        }
        if let Some(name) = self.foreign() {
            return Ok(self.skip_foreign(name));
        }
        let ecn = match self.ip_fields()? {
            Ok(ecn) => ecn,
            Err(name) => return Ok(self.skip_foreign(name)),
        };
        if let Some(name) = self.foreign() {
            return Ok(self.skip_foreign(name));
        }
        if self.has_ports() {
            return Ok(self.skip_foreign("packets of other ports"));
        }
        if matches!(self.peek(), Some(Word::Name(letters)) if letters.contains('U')) {
            return Ok(self.skip_foreign("the urgent pointer"));
        }
        let (flags, ace) = self.flags()?;
        let (seq, payload) = self.range()?;
        let ack = self.accept_name("ack").then(|| self.number("the acknowledgment number")).transpose()?;
        let window = self.accept_name("win").then(|| self.number("the window")).transpose()?;
        if self.is_name("urg") {
            return Ok(self.skip_foreign("the urgent pointer"));
        }
        let options = self.tcp_options()?;
        // Without a number, it is 0.
        let ack = ack.or(flags.contains(Flags::ACK).then_some(0));
        let packet = PacketSpec { ecn, flags, ace, seq, payload, ack, window, options };
        if !is_inbound {
            return Ok(Action::Expect(packet));
        }
        if packet.window.is_none() && !flags.contains(Flags::RST) {
            return error(self.line(), "a packet that arrives needs its window: write for example win 1000");
        }
        if packet.options.is_none() {
            return error(
                self.line(),
                "<...> only skips the check of options; a packet that arrives needs its options",
            );
        }
        Ok(Action::Inject(packet))
    }

    /// Skips the rest of an unsupported event; the next event begins a line.
    fn skip_foreign(&mut self, name: impl Into<String>) -> Action {
        while self.tokens.get(self.at).is_some_and(|token| !token.is_first) {
            self.at += 1;
        }
        Action::Foreign(name.into())
    }

    fn foreign(&self) -> Option<String> {
        match self.peek() {
            Some(Word::Name(name)) if FOREIGN.contains(&name.as_str()) => Some(format!("packets of {name}")),
            _ => None,
        }
    }

    /// Ports before the flags, as in `1234 > 80`.
    fn has_ports(&self) -> bool {
        let next = self.tokens.get(self.at + 1).map(|token| &token.word);
        matches!(self.peek(), Some(Word::Number(_))) && next == Some(&Word::Symbol('>'))
    }

    /// The ECN field in parentheses or brackets, or the name of a field that the model does not have.
    #[allow(clippy::type_complexity, reason = "an error of the script, or a field that is not modelled")]
    fn ip_fields(&mut self) -> Result<Result<Option<Vec<Ecn>>, String>, ScriptError> {
        let end = match self.peek() {
            Some(Word::Symbol('[')) => ']',
            Some(Word::Symbol('(')) => ')',
            _ => return Ok(Ok(None)),
        };
        self.at += 1;
        let name = self.name("noecn, ect0, ect1, ect01 or ce")?;
        let ecn = match name.as_str() {
            "noecn" => vec![Ecn::NotEct],
            "ect0" => vec![Ecn::Ect0],
            "ect1" => vec![Ecn::Ect1],
            "ect01" => vec![Ecn::Ect0, Ecn::Ect1],
            "ce" => vec![Ecn::Ce],
            "tos" | "ttl" | "flowlabel" => return Ok(Err(format!("{name} of the IP header"))),
            _ => return error(self.line(), format!("\"{name}\" is not one of noecn, ect0, ect1, ect01, ce")),
        };
        if self.is_symbol(',') {
            return Ok(Err("flowlabel of the IP header".to_owned()));
        }
        self.expect(end, "after the ECN field")?;
        Ok(Ok(Some(ecn)))
    }

    /// Letters, then a dot for ACK; a digit is the ACE field.
    fn flags(&mut self) -> Result<(Flags, Option<u8>), ScriptError> {
        let mut text = String::new();
        // The dot of ".5" looks like that of a fraction.
        while let Some(token) = self.tokens.get(self.at)
            && self.tokens.get(self.at + 1).is_some_and(|next| next.word != Word::Symbol(':'))
        {
            match &token.word {
                Word::Name(letters) | Word::Number(letters) => text.push_str(letters),
                Word::Symbol(sign @ ('.' | '-')) => text.push(*sign),
                _ => break,
            }
            self.at += 1;
        }
        if text.is_empty() {
            return self.lack("flags such as S, S., P. or . are missing");
        }
        let (mut flags, mut ace) = (Flags::default(), None);
        for letter in text.chars() {
            flags = flags.with(match letter {
                'F' => Flags::FIN,
                'S' => Flags::SYN,
                'R' => Flags::RST,
                'P' => Flags::PSH,
                'E' => Flags::ECE,
                'W' => Flags::CWR,
                'A' => Flags::AE,
                '.' => Flags::ACK,
                '-' if text == "-" => Flags::default(),
                '0'..='7' => {
                    ace = Some(letter as u8 - b'0');
                    Flags::from_ace(letter as u8 - b'0')
                }
                _ => {
                    let remedy = "use F, S, R, P, E, W, A, 0 to 7 and .";
                    return error(self.line(), format!("\"{letter}\" is not a flag: {remedy}"));
                }
            });
        }
        Ok((flags, ace))
    }

    /// `FROM:TO(LENGTH)`
    fn range(&mut self) -> Result<(u32, u32), ScriptError> {
        let from: u32 = self.number("the first sequence number")?;
        self.expect(':', "between the sequence numbers")?;
        let to: u32 = self.number("the sequence number after the last byte")?;
        self.expect('(', "before the length")?;
        let length: u32 = self.number("the length")?;
        self.expect(')', "after the length")?;
        if to.wrapping_sub(from) != length {
            return error(self.line(), format!("{from}:{to} is not {length} bytes long"));
        }
        Ok((from, length))
    }

    fn tcp_options(&mut self) -> Result<Option<Vec<TcpOption>>, ScriptError> {
        if self.starts_line() || !self.accept('<') {
            return Ok(Some(Vec::new()));
        }
        if self.peek() == Some(&Word::Ellipsis) {
            self.at += 1;
            self.expect('>', "after <...")?;
            return Ok(None);
        }
        let mut options = vec![self.tcp_option()?];
        while self.accept(',') {
            options.push(self.tcp_option()?);
        }
        self.expect('>', "after the options")?;
        Ok(Some(options))
    }

    fn tcp_option(&mut self) -> Result<TcpOption, ScriptError> {
        let name = self.name("the name of a TCP option")?;
        Ok(match name.as_str() {
            "nop" => TcpOption::Nop,
            "eol" => TcpOption::Eol,
            "mss" => TcpOption::Mss(self.number("the segment size")?),
            "wscale" => TcpOption::WindowScale(self.number("the shift count")?),
            "sackOK" => TcpOption::SackPermitted,
            "sack" => TcpOption::Sack(self.sack_blocks()?),
            "TS" => {
                self.keyword("val")?;
                let value = self.number("the timestamp")?;
                self.keyword("ecr")?;
                TcpOption::Timestamps(value, self.number("the echoed timestamp")?)
            }
            "ECN" => TcpOption::Ecn(self.ecn_counters()?),
            "FO" | "FOEXP" | "md5" | "exp" | "mptcp" => {
                while self.peek().is_some() && !self.is_symbol(',') && !self.is_symbol('>') {
                    self.at += 1;
                }
                TcpOption::Foreign(name)
            }
            _ => {
                let options = "nop, eol, mss, wscale, sackOK, sack, TS, FO, FOEXP, md5, ECN";
                return error(
                    self.line(),
                    format!("\"{name}\" is not a TCP option of this language (accepted: {options})"),
                );
            }
        })
    }

    fn keyword(&mut self, name: &str) -> Result<(), ScriptError> {
        let is_next = self.accept_name(name);
        if is_next { Ok(()) } else { self.lack(format!("\"{name}\" is missing: write TS val 100 ecr 0")) }
    }

    /// Up to three counters. The first one determines the order; an option without counters has none.
    fn ecn_counters(&mut self) -> Result<EcnOption, ScriptError> {
        let is_order_1 = !self.is_name("e0b");
        let mut option = EcnOption { is_order_1, ..EcnOption::default() };
        for (name, count) in ecn_names(is_order_1).into_iter().zip(&mut option.counts) {
            if !self.accept_name(name) {
                break;
            }
            *count = self.number("the counter")?;
            option.fields += 1;
        }
        Ok(option)
    }

    fn sack_blocks(&mut self) -> Result<Vec<SackBlock>, ScriptError> {
        let mut blocks = Vec::new();
        while let Some(Word::Number(_)) = self.peek() {
            let start: u32 = self.number("the start of a block")?;
            self.expect(':', "in a SACK block")?;
            let end: u32 = self.number("the end of a block")?;
            blocks.push(SackBlock { start: start.into(), end: end.into() });
        }
        if !(1..=4).contains(&blocks.len()) {
            return error(
                self.line(),
                "a SACK option has one to four blocks, such as sack 1001:2001 3001:4001",
            );
        }
        Ok(blocks)
    }
}
