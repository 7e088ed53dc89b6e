//! A parsed script.

use std::fmt;

use lasthop_core::{Ecn, EcnOption, Flags, SackBlock};

#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// Options at its top, such as `--tolerance_usecs=10000`.
    pub options: Vec<Setting>,
    /// The shell command at its top, if there is one.
    pub setup: Option<(u32, String)>,
    /// The events, in order.
    pub events: Vec<Event>,
}

/// An option of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Line of the file, from 1.
    pub line: u32,
    /// Its name, without dashes.
    pub name: String,
    /// Its value, if it has one.
    pub value: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Line of the file, from 1.
    pub line: u32,
    /// When it is to happen.
    pub time: Time,
    pub action: Action,
}

/// The time of an event, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// At any time.
    Any,
    /// Since the start.
    Absolute(i64),
    /// Since the event before.
    Relative(i64),
    /// Within a range since the start.
    AbsoluteRange(i64, i64),
    /// Within a range since the event before.
    RelativeRange(i64, i64),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A packet that arrives at the host under test.
    Inject(PacketSpec),
    /// A packet that the host under test must send.
    Expect(PacketSpec),
    Call(Call),
    Command(String),
    /// Python code.
    Code(String),
    /// An unsupported part of the language, such as ICMP: its name.
    Foreign(String),
}

/// A TCP packet in a script.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketSpec {
    /// The ECN field of the IP header, if stated: one of these.
    pub ecn: Option<Vec<Ecn>>,
    pub flags: Flags,
    /// The ACE field (RFC 9768), if a digit among the flags states it.
    pub ace: Option<u8>,
    /// First sequence number.
    pub seq: u32,
    /// Payload in bytes.
    pub payload: u32,
    /// Acknowledgment number.
    pub ack: Option<u32>,
    /// The window field, not scaled.
    pub window: Option<u32>,
    /// The options in order; `None` if they are not checked (`<...>`).
    pub options: Option<Vec<TcpOption>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpOption {
    /// No operation.
    Nop,
    /// End of the list.
    Eol,
    /// Maximum segment size.
    Mss(u16),
    /// Shift count of the window.
    WindowScale(u8),
    /// SACK is permitted.
    SackPermitted,
    Sack(Vec<SackBlock>),
    /// Value and echo.
    Timestamps(u32, u32),
    /// Counters of accurate ECN.
    Ecn(EcnOption),
    /// An option that the model does not have: its name.
    Foreign(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The end of a call that blocks, in microseconds: since the event before if the start is relative.
    pub end: Option<i64>,
    pub name: String,
    pub arguments: Vec<Value>,
    pub result: Value,
    /// Expected error, such as `EAGAIN`.
    pub error: Option<String>,
}

/// An argument or a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `...`: not checked.
    Any,
    Int(i64),
    Word(String),
    Text(String),
    /// Constants joined by `|`.
    Or(Vec<Value>),
    Array(Vec<Value>),
    /// Something in braces: the lengths in its `msg_iov`, and the names in it.
    Struct {
        /// Lengths of the buffers.
        lengths: Vec<i64>,
        /// Words in it.
        words: Vec<String>,
    },
}

impl Value {
    /// The number, if it is one.
    pub fn int(&self) -> Option<i64> {
        if let Self::Int(value) = self { Some(*value) } else { None }
    }

    /// The constant, if it is one.
    pub fn word(&self) -> Option<&str> {
        if let Self::Word(word) = self { Some(word) } else { None }
    }

    /// The constants in it.
    pub fn words(&self) -> Vec<&str> {
        match self {
            Self::Word(word) => vec![word],
            Self::Or(values) | Self::Array(values) => values.iter().flat_map(Self::words).collect(),
            _ => Vec::new(),
        }
    }
}

/// The counters of the option of accurate ECN by their names in scripts, in their order.
pub(crate) const fn ecn_names(is_order_1: bool) -> [&'static str; 3] {
    if is_order_1 { ["e1b", "ceb", "e0b"] } else { ["e0b", "ceb", "e1b"] }
}

impl fmt::Display for TcpOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nop => f.write_str("nop"),
            Self::Eol => f.write_str("eol"),
            Self::Mss(bytes) => write!(f, "mss {bytes}"),
            Self::WindowScale(shift) => write!(f, "wscale {shift}"),
            Self::SackPermitted => f.write_str("sackOK"),
            Self::Sack(blocks) => {
                f.write_str("sack")?;
                blocks.iter().try_for_each(|block| write!(f, " {}:{}", block.start, block.end))
            }
            Self::Timestamps(value, echo) => write!(f, "TS val {value} ecr {echo}"),
            Self::Ecn(option) => {
                f.write_str("ECN")?;
                let fields = usize::from(option.fields);
                let names = ecn_names(option.is_order_1).into_iter().zip(option.counts).take(fields);
                names.into_iter().try_for_each(|(name, count)| write!(f, " {name} {count}"))
            }
            Self::Foreign(name) => f.write_str(name),
        }
    }
}
