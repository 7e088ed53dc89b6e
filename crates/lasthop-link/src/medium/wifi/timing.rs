//! How long frames take: the TXTIME of each physical layer of IEEE 802.11-2020, and of 802.11ax-2021.
//! Preambles are those of one spatial stream.

use lasthop_core::{Duration, Rate};

use crate::config::Standard;

/// MAC header, LLC/SNAP header and frame check sequence around an IP packet (clauses 9.3.2.1 and 9.2.4.8).
const FRAMING: u32 = 24 + 8 + 4;
/// The field of quality of service in the MAC header (clause 9.2.4.5).
const QOS: u32 = 2;
/// The delimiter before each packet of an A-MPDU (clause 9.7.1).
const DELIMITER: u32 = 4;
/// Control frames (clause 9.3.1).
const ACK: u32 = 14;
const BLOCK_ACK: u32 = 32;
const RTS: u32 = 20;
const CTS: u32 = 14;
/// Bits of the SERVICE field and of the tail around an OFDM frame (clause 17.3.5).
const SERVICE_AND_TAIL: u64 = 16 + 6;
/// The longest frame: aPPDUMaxTime (table 21-29).
const LONGEST: Duration = Duration::from_micros(5_484);

/// The parts of an OFDM frame, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Ofdm {
    preamble: u64,
    symbol: u64,
    /// The signal extension of the 2.4 GHz band (clause 18.3.2.4).
    extension: u64,
}

/// Times of a physical layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phy {
    standard: Standard,
    pub(super) slot: Duration,
    pub(super) sifs: Duration,
}

impl Phy {
    pub(super) fn new(standard: Standard) -> Self {
        // Tables 16-4, 17-21, 18-5, 19-25, 21-29 and 27-54.
        let (slot, sifs) = match standard {
            Standard::B => (20, 10),
            Standard::G => (9, 10),
            Standard::A | Standard::N | Standard::Ac | Standard::Ax => (9, 16),
        };
        Self { standard, slot: Duration::from_micros(slot), sifs: Duration::from_micros(sifs) }
    }

    /// The frame format of data; none of DSSS.
    const fn data(self) -> Option<Ofdm> {
        // Clauses 17.4.3, 18.5.3, 19.4.3, 21.4.3 and 27.4.3: training fields and signal fields, then symbols
        // with the long guard interval, of ax with the short one.
        Some(match self.standard {
            Standard::B => return None,
            Standard::A => Ofdm { preamble: 20_000, symbol: 4_000, extension: 0 },
            Standard::G => Ofdm { preamble: 20_000, symbol: 4_000, extension: 6_000 },
            Standard::N => Ofdm { preamble: 36_000, symbol: 4_000, extension: 0 },
            Standard::Ac => Ofdm { preamble: 40_000, symbol: 4_000, extension: 0 },
            Standard::Ax => Ofdm { preamble: 44_000, symbol: 13_600, extension: 0 },
        })
    }

    /// The format of control frames.
    const fn control(self) -> Option<Ofdm> {
        match self.standard {
            Standard::B => None,
            Standard::G => Some(Ofdm { preamble: 20_000, symbol: 4_000, extension: 6_000 }),
            _ => Some(Ofdm { preamble: 20_000, symbol: 4_000, extension: 0 }),
        }
    }

    /// The time of a frame with data, from the first to the last bit on the air.
    pub(super) fn frame(self, rate: Rate, bytes: u32) -> Duration {
        time(self.data(), rate, bytes)
    }

    /// The most bytes of a frame that takes no longer than allowed.
    pub(super) fn most_bytes(self, rate: Rate, longest: Duration) -> u32 {
        let longest = longest.as_nanos();
        let Some(Ofdm { preamble, symbol, extension }) = self.data() else { return 0 };
        let symbols = longest.saturating_sub(preamble + extension) / symbol;
        ((symbols * bits_per_symbol(rate, symbol)).saturating_sub(SERVICE_AND_TAIL) / 8) as u32
    }

    /// The most bytes of a frame with several packets; `txop` is the limit of its category, if it has one.
    pub(super) fn most_ampdu(self, rate: Rate, txop: Option<Duration>, stated: Option<u64>) -> u32 {
        // Maximum A-MPDU length: clauses 19.3.9.4.3 (n), 21.3.2 (ac) and 26.6 (ax, without extension).
        let of_standard = match self.standard {
            Standard::Ac => 1_048_575,
            Standard::Ax => 4_194_303,
            _ => 65_535,
        };
        let most = stated.unwrap_or(of_standard).min(of_standard) as u32;
        most.min(self.most_bytes(rate, txop.unwrap_or(LONGEST).min(LONGEST)))
    }

    /// The rate of the answer to a frame: the highest basic rate that is no higher (clause 10.6.6.5.2). Basic
    /// rates are the mandatory ones of OFDM, and with b 1 and 2 Mbit/s.
    fn answer(self, rate: Rate) -> Rate {
        let basic: &[u64] = if self.standard == Standard::B { &[2, 1] } else { &[24, 12, 6] };
        let megabits = rate.bits_per_second() / 1_000_000;
        let highest = basic.iter().find(|basic| **basic <= megabits).unwrap_or(&basic[basic.len() - 1]);
        Rate::from_bits_per_second(highest * 1_000_000)
    }

    /// The time of an acknowledgement of a frame at `rate`.
    pub(super) fn ack(self, rate: Rate, of_several: bool) -> Duration {
        time(self.control(), self.answer(rate), if of_several { BLOCK_ACK } else { ACK })
    }

    /// The time of RTS and CTS before a frame at `rate`.
    pub(super) fn rts_and_cts(self, rate: Rate) -> [Duration; 2] {
        [RTS, CTS].map(|bytes| time(self.control(), self.answer(rate), bytes))
    }

    /// The time from the end of an undecodable frame until the channel counts as idle: EIFS without
    /// DIFS, that is SIFS and an ACK at the lowest rate (clause 10.3.2.3.7).
    pub(super) fn after_failure(self) -> Duration {
        self.sifs + time(self.control(), self.answer(Rate::from_bits_per_second(1)), ACK)
    }

    /// How much sooner a sender without an answer contends again: the acknowledgement timeout is SIFS, a slot
    /// and aRxPHYStartDelay (clause 10.3.2.11), here the preamble and header of a control frame.
    pub(super) fn early(self) -> Duration {
        let start = self.control().map_or(192_000, |ofdm| ofdm.preamble);
        self.after_failure().saturating_sub(self.sifs + self.slot + Duration::from_nanos(start))
    }

    /// Bytes of a frame with one packet.
    pub(super) const fn single_bytes(self, ip_bytes: u32) -> u32 {
        let mpdu = ip_bytes + FRAMING + if self.standard.aggregates() { QOS } else { 0 };
        // From ac on, a single packet travels as an A-MPDU, too (clause 10.12.7).
        if matches!(self.standard, Standard::Ac | Standard::Ax) { mpdu + DELIMITER } else { mpdu }
    }

    /// Bytes that a packet adds to a frame with several, and how many of them are padding, which the last
    /// packet has not.
    pub(super) const fn several_bytes(ip_bytes: u32) -> (u32, u32) {
        let mpdu = ip_bytes + FRAMING + QOS;
        let padded = mpdu.next_multiple_of(4);
        (DELIMITER + padded, padded - mpdu)
    }
}

const fn bits_per_symbol(rate: Rate, symbol: u64) -> u64 {
    // Rates are printed rounded; a symbol carries a whole number of bits.
    let bits = (rate.bits_per_second() * symbol + 500_000_000) / 1_000_000_000;
    if bits == 0 { 1 } else { bits }
}

fn time(ofdm: Option<Ofdm>, rate: Rate, bytes: u32) -> Duration {
    let Some(Ofdm { preamble, symbol, extension }) = ofdm else {
        // A long preamble and header, then whole microseconds (clauses 15.2.2 and 16.3.4).
        let micros = (u64::from(bytes) * 8_000_000).div_ceil(rate.bits_per_second());
        return Duration::from_micros(192 + micros);
    };
    let bits = u64::from(bytes) * 8 + SERVICE_AND_TAIL;
    Duration::from_nanos(preamble + bits.div_ceil(bits_per_symbol(rate, symbol)) * symbol + extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mbit(rate: f64) -> Rate {
        Rate::from_bits_per_second((rate * 1e6) as u64)
    }

    #[test]
    fn a_packet_of_1500_bytes_takes_what_the_standards_symbols_take() {
        let time = |standard, rate| {
            let phy = Phy::new(standard);
            phy.frame(mbit(rate), phy.single_bytes(1500)).as_nanos()
        };
        // 1536 bytes at 216 bits a symbol: 57 symbols. ns-3.37 takes 248 us, too.
        assert_eq!(time(Standard::A, 54.0), 20_000 + 57 * 4_000);
        assert_eq!(time(Standard::G, 54.0), 20_000 + 57 * 4_000 + 6_000);
        // 1536 bytes of 8 bits at 11 Mbit/s are 1117.1 us.
        assert_eq!(time(Standard::B, 11.0), 192_000 + 1_118_000);
        // 1538 bytes at 260 bits a symbol.
        assert_eq!(time(Standard::N, 65.0), 36_000 + 48 * 4_000);
        // 1542 bytes at 1950 bits a symbol of 13.6 us; 139.2 us in ns-3.37.
        assert_eq!(time(Standard::Ax, 143.4), 139_200);
    }

    #[test]
    fn answers_use_the_highest_basic_rate_below_that_of_the_frame() {
        let micros = |rate, several| Phy::new(Standard::A).ack(mbit(rate), several).as_nanos() / 1000;
        assert_eq!([micros(54.0, false), micros(18.0, false), micros(6.0, false)], [28, 32, 44]);
        assert_eq!(micros(54.0, true), 32);
        assert_eq!(Phy::new(Standard::A).after_failure(), Duration::from_micros(16 + 44));
        let [rts, cts] = Phy::new(Standard::B).rts_and_cts(mbit(11.0));
        assert_eq!([rts, cts], [192 + 80, 192 + 56].map(Duration::from_micros));
    }

    #[test]
    fn a_frame_with_several_packets_is_bound_by_time_and_by_length() {
        let phy = Phy::new(Standard::N);
        // 65 Mbit/s: 1362 symbols of 260 bits in 5448 us.
        assert_eq!(phy.most_ampdu(mbit(65.0), None, None), (1362 * 260 - 22) / 8);
        assert_eq!(phy.most_ampdu(mbit(130.0), None, None), 65_535);
        assert_eq!(phy.most_ampdu(mbit(130.0), None, Some(10_000)), 10_000);
        assert!(phy.frame(mbit(65.0), phy.most_ampdu(mbit(65.0), None, None)) <= LONGEST);
    }
}
