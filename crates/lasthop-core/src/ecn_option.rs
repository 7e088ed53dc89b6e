//! The option of accurate ECN (RFC 9768, section 3.2.3).

/// The option: counters of the bytes of payload that its sender has received with each codepoint. A short
/// option leaves out the last ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnOption {
    /// Number of counters in it.
    pub fields: u8,
    /// Order 1 begins with ECT(1), order 0 with ECT(0); CE is between them.
    pub is_order_1: bool,
    /// The counters in this order, modulo 2^24.
    pub counts: [u32; Self::FIELDS_MAX as usize],
}

impl EcnOption {
    /// Number of counters: ECT(1), CE and ECT(0).
    pub const FIELDS_MAX: u8 = 3;
    /// A counter counts modulo this.
    pub const SIZE: u32 = 1 << 24;
    /// Bytes that the complete option takes, with its padding.
    pub const BYTES: u32 = Self::bytes(Self::FIELDS_MAX, false);
    /// First values in order 1. A counter of a codepoint that senders choose does not begin at zero, so that
    /// a node that clears options is detected (section 3.2.1).
    pub const FIRST: [u32; Self::FIELDS_MAX as usize] = [1, 0, 1];

    /// The number of the option (section 3.2.3).
    pub const fn kind(&self) -> u8 {
        if self.is_order_1 { 174 } else { 172 }
    }

    pub const fn length(&self) -> u8 {
        2 + 3 * self.fields
    }

    /// Bytes that an option with this number of counters takes, with its padding. The two no-operation bytes
    /// before SACK blocks may be a part of it, as in Linux (`tcp_options_fit_accecn`).
    pub const fn bytes(fields: u8, beside_sack: bool) -> u32 {
        let bytes = 2 + 3 * fields as u32;
        if beside_sack && bytes % 4 <= 2 { bytes - bytes % 4 } else { bytes.next_multiple_of(4) }
    }

    /// The counters in order 1.
    #[must_use]
    pub const fn in_order_1(&self) -> [u32; Self::FIELDS_MAX as usize] {
        let [first, ce, last] = self.counts;
        if self.is_order_1 { [first, ce, last] } else { [last, ce, first] }
    }

    /// The places in order 1 of the counters that it has, as it has them.
    pub fn places(&self) -> impl Iterator<Item = usize> + use<> {
        let is_order_1 = self.is_order_1;
        let last = usize::from(Self::FIELDS_MAX) - 1;
        (0..usize::from(self.fields)).map(move |place| if is_order_1 { place } else { last - place })
    }
}
