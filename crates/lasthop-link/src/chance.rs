//! The probability that a packet is hit.

use lasthop_core::{Probability, RandomStream};

use crate::config::Framing;

/// The probability that a packet is hit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Chance {
    /// The same for every packet.
    Packet(Probability),
    /// Bit errors are independent, and one wrong bit spoils the packet.
    Bits {
        /// Logarithm of the probability that a bit is right.
        right: f64,
        /// Overhead on the link, in addition to the bits of the IP packet.
        framing: Option<Framing>,
    },
}

impl Chance {
    /// The probability for bits that are wrong with the probability `wrong` each.
    pub(crate) fn of_bits(wrong: Probability, framing: Option<Framing>) -> Self {
        Self::Bits { right: libm::log1p(-wrong.get()), framing }
    }

    /// The probability for a link with one of these settings, if it has one.
    pub(crate) fn new(
        packet: Option<Probability>,
        bit: Option<Probability>,
        framing: Option<Framing>,
    ) -> Option<Self> {
        packet.map(Self::Packet).or_else(|| bit.map(|wrong| Self::of_bits(wrong, framing)))
    }

    /// Draws whether a packet of `ip_bytes` bytes is hit.
    pub(crate) fn hits(self, ip_bytes: u32, stream: &mut RandomStream) -> bool {
        stream.unit() < self.of_packet(ip_bytes)
    }

    /// 1 - (1 - p)^n for a packet of n bits, computed without rounding to 0 when p is small.
    fn of_packet(self, ip_bytes: u32) -> f64 {
        match self {
            Self::Packet(probability) => probability.get(),
            Self::Bits { right, framing } => {
                let bytes = framing.map_or(ip_bytes, |framing| framing.bytes(ip_bytes));
                -libm::expm1(8.0 * f64::from(bytes) * right)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_bits(wrong: f64, framing: Option<Framing>) -> Chance {
        Chance::of_bits(Probability::new(wrong).unwrap(), framing)
    }

    #[test]
    fn a_packet_is_intact_if_all_of_its_bits_are() {
        // (1 - 1e-5)^(8 * 1500) = 0.886920, (1 - 1e-5)^(8 * 40) = 0.996805.
        assert!((of_bits(1e-5, None).of_packet(1500) - 0.113_080).abs() < 1e-6);
        assert!((of_bits(1e-5, None).of_packet(40) - 0.003_195).abs() < 1e-6);
        assert!((of_bits(0.5, None).of_packet(1) - 255.0 / 256.0).abs() < 1e-15);
        // 1 - (1 - 1e-18)^8 would be 0 in floating point.
        assert!((of_bits(1e-18, None).of_packet(1) / 8e-18 - 1.0).abs() < 1e-12);
    }

    #[test]
    fn no_bit_or_each_may_be_wrong() {
        assert_eq!(of_bits(0.0, None).of_packet(1500).to_bits(), 0.0_f64.to_bits());
        assert_eq!(of_bits(1.0, None).of_packet(1).to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn the_bits_of_the_layer_below_are_on_the_link_too() {
        // 40 bytes of IP and 16 of AAL5 fill two cells of 53 bytes.
        let framed = of_bits(1e-4, Some(Framing::Atm)).of_packet(40);
        assert_eq!(framed.to_bits(), of_bits(1e-4, None).of_packet(106).to_bits());
    }

    #[test]
    fn a_chance_of_packets_does_not_ask_for_their_length() {
        let chance = Chance::Packet(Probability::new(0.3).unwrap());
        assert_eq!(chance.of_packet(40).to_bits(), chance.of_packet(1500).to_bits());
    }
}
